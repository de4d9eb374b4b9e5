// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/overlaps.hpp"

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <new>
#include <utility>

#include "layout/pack.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/short_receives.hpp"
#include "p2p/descriptor.hpp"

namespace mh::mpi {

Overlaps overlaps;

namespace {

using layout::AddressRange;

// Where a type has no layout: all between its bounds.
AddressRange bounds_without_layout(const ReceiveTarget& target) {
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  MPI_Count true_lower = 0;
  MPI_Count true_extent = 0;
  real.Type_get_extent_x(target.type, &lower, &extent);
  real.Type_get_true_extent_x(target.type, &true_lower, &true_extent);
  const MPI_Count far = extent * (target.count - 1);
  const layout::Address base = layout::address_of(target.buffer);
  return {.begin = layout::address_at(base, true_lower + std::min<MPI_Count>(far, 0)),
          .end = layout::address_at(base, true_lower + true_extent + std::max<MPI_Count>(far, 0))};
}

bool meets(const Memory& memory, const AddressRange& range) {
  if (!layout::overlap(memory.bounds, range)) return false;
  return memory.layout == nullptr ||
         layout::touches({memory.layout.get(), memory.count, memory.base}, range);
}

// Whether `met` holds for a block of the head of a receive into this memory.
template <class Met>
bool any_of_head(const Memory& memory, Met&& met) {
  if (memory.layout == nullptr) {
    const layout::Address begin = memory.bounds.begin;
    return met(AddressRange{.begin = begin,
                            .end = std::min(memory.bounds.end, begin + p2p::kDescriptorBytes)});
  }
  std::array<iovec, p2p::kDescriptorBytes> blocks;
  const layout::ListedBlocks found = layout::list_blocks(
      {memory.layout.get(), memory.count, memory.base}, {0, p2p::kDescriptorBytes}, blocks);
  return std::any_of(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(found.used),
                     [&](const iovec& block) {
                       const layout::Address begin = layout::address_of(block.iov_base);
                       return met(AddressRange{.begin = begin, .end = begin + block.iov_len});
                     });
}

bool head_meets(const Memory& head, const Memory& memory) {
  if (!layout::overlap(head.bounds, memory.bounds)) return false;
  return any_of_head(head, [&](const AddressRange& range) { return meets(memory, range); });
}

// Shorter ones get a descriptor by an error of the program only.
bool has_head(const ReceiveTarget& target) { return target && target.capacity >= config.threshold; }

// Open MPI 4 and 5 write all of a message that is longer than its receive. In the program that hits
// what lies behind its buffer, and is no error of ours; behind a bounce buffer nothing lies.
constexpr std::size_t kBehind = 64U << 20U;  // bytes of address space

BounceMemory bounce_memory(std::uint64_t bytes) {
#if defined(MH_ABI_OPENMPI)
  if (!switches.errors_are_fatal) {
    void* memory = ::mmap(nullptr, bytes + kBehind, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    return {static_cast<std::byte*>(memory), BounceFree{.mapped = bytes + kBehind}};
  }
#endif
  return {new (std::nothrow) std::byte[bytes], BounceFree{}};
}

}  // namespace

Memory Memory::of(const ReceiveTarget& target) {
  const layout::Address base = layout::address_of(target.buffer);
  if (target.contiguous) return {.bounds = {.begin = base, .end = base + target.capacity}};
  Memory memory{.layout = layouts::of(target.type),
                .count = static_cast<std::uint64_t>(target.count),
                .base = base};
  memory.bounds = memory.layout == nullptr
                      ? bounds_without_layout(target)
                      : layout::bounds_of({memory.layout.get(), memory.count, memory.base});
  return memory;
}

// ---- What is under way -------------------------------------------------------------------------

void Overlaps::put(Pending pending) {
  const ThreadLock hold(mutex_);
  heads_.fetch_add(pending.has_head ? 1 : 0, std::memory_order_relaxed);
  pending_.push_back(std::move(pending));
  known_.store(pending_.size(), std::memory_order_relaxed);
}

void Overlaps::drop(std::size_t index) {
  heads_.fetch_sub(pending_[index].has_head ? 1 : 0, std::memory_order_relaxed);
  std::swap(pending_[index], pending_.back());
  pending_.pop_back();
  known_.store(pending_.size(), std::memory_order_relaxed);
}

void Overlaps::add(const std::shared_ptr<PendingReceive>& entry, const ReceiveTarget& target) {
  if (!target || target.bounce) return;
  pass();
  put({.memory = Memory::of(target),
       .entry = entry.get(),
       .shared = entry,
       .handle = 0,
       .has_head = has_head(target)});
}

void Overlaps::remove(const PendingReceive& entry) {
  const ThreadLock hold(mutex_);
  for (std::size_t i = pending_.size(); i-- > 0;) {
    if (pending_[i].entry == &entry) return drop(i);
  }
}

void Overlaps::add_persistent(MPI_Request request, const ReceiveTarget& target) {
  if (target.capacity == 0) return;
  put({.memory = Memory::of(target),
       .entry = nullptr,
       .shared = {},
       .handle = bits_of(request),
       .has_head = false});
}

void Overlaps::remove_persistent(MPI_Request request) {
  if (known_.load(std::memory_order_relaxed) == 0) return;
  const ThreadLock hold(mutex_);
  for (std::size_t i = pending_.size(); i-- > 0;) {
    if (pending_[i].entry == nullptr && pending_[i].handle == bits_of(request)) return drop(i);
  }
}

void Overlaps::note(const ReceiveTarget& target) {
  if (target.capacity != 0) note(Memory::of(target).bounds);
}

// ---- Clashes -----------------------------------------------------------------------------------

bool Overlaps::may_clash(const ReceiveTarget& target) const {
  if (target.capacity == 0) return false;
  if (any_heads()) return true;
  if (!has_head(target)) return false;
  return known_.load(std::memory_order_relaxed) != 0 || short_receives.any() || any_notes();
}

bool Overlaps::meets_head(const void* buffer, std::uint64_t bytes) {
  const layout::Address begin = layout::address_of(buffer);
  const AddressRange range{.begin = begin, .end = begin + bytes};
  const ThreadLock hold(mutex_);
  return std::any_of(pending_.begin(), pending_.end(), [&](const Pending& other) {
    return other.has_head && layout::overlap(other.memory.bounds, range) &&
           any_of_head(other.memory,
                       [&](const AddressRange& head) { return layout::overlap(head, range); });
  });
}

bool Overlaps::clashes(const ReceiveTarget& target) {
  const Memory mine = Memory::of(target);
  const bool is_long = has_head(target);
  {
    const ThreadLock hold(mutex_);
    for (const Pending& other : pending_) {
      if (other.has_head && head_meets(other.memory, mine)) return true;
      if (is_long && head_meets(mine, other.memory)) return true;
    }
  }
  if (!is_long) return false;
  return any_of_head(mine, [&](const AddressRange& head) {
    if (short_receives.meets(head.begin, head.end)) return true;
    return any_notes() && std::any_of(notes_.begin(), notes_.end(), [&](const Note& note) {
             if (now() - note.at.load(std::memory_order_relaxed) >= kMemory) return false;
             return layout::overlap({.begin = note.begin.load(std::memory_order_relaxed),
                                     .end = note.end.load(std::memory_order_relaxed)},
                                    head);
           });
  });
}

void BounceFree::operator()(std::byte* memory) const {
  mapped == 0 ? delete[] memory : static_cast<void>(::munmap(memory, mapped));
}

void Overlaps::divert(ReceiveTarget& target, std::uint64_t most) {
  if (target.capacity > most || !clashes(target)) return;
  auto bounce = std::make_shared<Bounce>();
  bounce->memory = bounce_memory(target.capacity);
  if (!bounce->memory) return;
  bounce->place = target;
  target.buffer = bounce->memory.get();
  target.count = static_cast<MPI_Count>(target.capacity);
  target.type = MPI_BYTE;
  target.contiguous = true;
  target.bounce = std::move(bounce);
}

std::vector<std::shared_ptr<PendingReceive>> Overlaps::heads_in(const Memory& memory) {
  std::vector<std::shared_ptr<PendingReceive>> found;
  const ThreadLock hold(mutex_);
  for (const Pending& other : pending_) {
    if (!other.has_head || !head_meets(other.memory, memory)) continue;
    // Null if it is about to go.
    if (auto entry = other.shared.lock()) found.push_back(std::move(entry));
  }
  return found;
}

}  // namespace mh::mpi
