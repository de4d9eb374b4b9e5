// SPDX-License-Identifier: BSD-3-Clause
// Maps the heap of each other rank into that rank's slot of the address space (system.hpp). A slot
// has 32 GB with 1024 ranks, and more with fewer. A view begins in the first quarter of its slot
// and ends before the last quarter, so that views never overlap; a heap that would not fit is not
// mapped. Static data are mapped in the first half of the last quarter.
#include "heap/views.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "heap/system.hpp"

namespace mh::heap {
namespace {

// Maps a span of a peer's heap file at this address, read-only. Returns nullptr if the address
// range is not free.
std::byte* view_at(std::uint64_t address, const Span& span, int fd) {
  if (!map_at(address, span.bytes, PROT_READ, fd, span.address)) return nullptr;
  void* got = pointer(address);
  ::madvise(got, span.bytes, MADV_DONTFORK);
  ::madvise(got, span.bytes, MADV_DONTDUMP);
  return static_cast<std::byte*>(got);
}

bool is_sealed(int fd) {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 && static_cast<std::uint64_t>(facts.st_size) == kFileBytes &&
         (::fcntl(fd, F_GET_SEALS) & kSeals) == kSeals;
}

}  // namespace

Views::Views(std::uint32_t ranks)
    : stride_(std::bit_floor(kPlan.views / std::max(ranks, 1U))), peers_(ranks) {}

std::uint64_t Views::slot_of(std::uint32_t rank) const { return kPlan.first_view + rank * stride_; }

Status Views::attach(std::uint32_t rank, Fd fd) {
  if (rank >= peers_.size() || peers_[rank].header != nullptr || !is_sealed(fd.get())) {
    return {Code::mismatch, 0};
  }
  return map(rank, fd.get());
}

Status Views::map(std::uint32_t rank, int fd) {
  PeerHeap& peer = peers_[rank];
  void* page = ::mmap(nullptr, sizeof(HeapHeader), PROT_READ, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return from_errno(errno);
  const auto* header = static_cast<const HeapHeader*>(page);
  const Span heap{header->base, header->bytes.load(std::memory_order_acquire)};
  if (header->magic != HeapHeader::kMagic || header->layout != HeapHeader::kLayout ||
      heap.bytes == 0) {
    ::munmap(page, sizeof(HeapHeader));
    return {Code::mismatch, 0};
  }
  const std::uint64_t start = random_bits() % (stride_ / 4 / kHugePage) * kHugePage;
  peer.view = heap.bytes <= stride_ / 2 ? view_at(slot_of(rank) + start, heap, fd) : nullptr;
  if (peer.view == nullptr) {
    ::munmap(page, sizeof(HeapHeader));
    return {Code::full, 0};
  }
  peer.base = heap.address;
  peer.header = header;
  map_statics(peer, slot_of(rank), fd);
  peer.mapped.store(heap.bytes, std::memory_order_release);
  return {};
}

void Views::map_statics(PeerHeap& peer, std::uint64_t slot, int fd) const {
  std::uint64_t at =
      slot + stride_ / 4 * 3 + random_bits() % (stride_ / 16 / kHugePage) * kHugePage;
  const std::uint64_t end = slot + stride_ / 8 * 7;
  const std::uint32_t count = peer.header->statics.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < std::min(count, kMaxStatics); ++i) {
    const Span span = peer.header->spans[i];
    // The view has the same offset in a huge page as the peer's own mapping, so that huge pages of
    // the file fit in both processes.
    const std::uint64_t place = at + span.address % kHugePage;
    if (span.bytes > end - place) continue;
    std::byte* view = view_at(place, span, fd);
    if (view == nullptr) continue;
    peer.parts[peer.statics++] = {span, view};
    at = (place + span.bytes + 2 * kHugePage) / kHugePage * kHugePage;
    if (at >= end) return;
  }
}

// Makes this process's view of a peer's heap longer, after the peer's heap has grown. mremap()
// needs no descriptor.
void Views::extend(PeerHeap& peer) const {
  const std::lock_guard lock(peer.extending);
  const std::uint64_t now = peer.mapped.load(std::memory_order_relaxed);
  const std::uint64_t wanted = peer.header->bytes.load(std::memory_order_acquire);
  if (wanted <= now || wanted > stride_ / 2) return;
  const std::size_t page = page_bytes();
  void* last = peer.view + now - page;
  if (::mremap(last, page, page + wanted - now, 0) == MAP_FAILED) return;
  peer.mapped.store(wanted, std::memory_order_release);
}

const std::byte* Views::elsewhere(std::uint32_t rank, std::uint64_t address,
                                  std::size_t bytes) const {
  PeerHeap& peer = peers_[rank];
  if (peer.header == nullptr || !open(peer)) return nullptr;
  for (std::uint32_t i = 0; i < peer.statics; ++i) {
    const Span& span = peer.parts[i].span;
    const std::uint64_t offset = address - span.address;
    if (offset < span.bytes && bytes <= span.bytes - offset) return peer.parts[i].view + offset;
  }
  const std::uint64_t offset = address - peer.base;
  const auto within = [&](std::uint64_t size) { return offset < size && bytes <= size - offset; };
  if (!within(peer.header->bytes.load(std::memory_order_acquire))) return nullptr;
  if (!within(peer.mapped.load(std::memory_order_acquire))) extend(peer);
  return within(peer.mapped.load(std::memory_order_acquire)) ? peer.view + offset : nullptr;
}

bool Views::allow_writing(PeerHeap& peer) const {
  if (peer.writable.load(std::memory_order_acquire)) return true;
  const std::lock_guard lock(peer.extending);
  const std::uint64_t mapped = peer.mapped.load(std::memory_order_relaxed);
  bool all = ::mprotect(peer.view, mapped, PROT_READ | PROT_WRITE) == 0;
  for (std::uint32_t i = 0; i < peer.statics; ++i) {
    const StaticView& part = peer.parts[i];
    all = all && ::mprotect(part.view, part.span.bytes, PROT_READ | PROT_WRITE) == 0;
  }
  // Release: pairs with the acquire at the head of this function; a thread that sees true may write
  // to the view. Pages that extend() adds later inherit the protection.
  if (all) peer.writable.store(true, std::memory_order_release);
  return all;
}

std::byte* Views::to(std::uint32_t rank, std::uint64_t address, std::size_t bytes) const {
  const std::byte* here = at(rank, address, bytes);
  if (here == nullptr || !allow_writing(peers_[rank])) return nullptr;
  return const_cast<std::byte*>(here);
}

}  // namespace mh::heap
