// SPDX-License-Identifier: BSD-3-Clause
#include "memory/reach.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/emulated.hpp"

namespace mh::memory {
namespace {

constexpr Status kRefused{Code::refused, EPERM};

emulated::Place place_of(const View& view) { return {view.rank, view.address}; }

emulated::Way way_of(const std::byte* to, const std::byte* from) {
  if (to != nullptr && from != nullptr) return emulated::Way::copy;
  return to == nullptr && from == nullptr ? emulated::Way::twice : emulated::Way::kernel;
}

View block_of(const View& whose, const iovec& block) {
  return {reinterpret_cast<std::uint64_t>(block.iov_base), whose.pid, whose.rank};
}

}  // namespace

Reach::Reach() : pid_(::getpid()) {}

Reach::Reach(std::uint32_t me, std::uint32_t ranks, KernelCopies kernel)
    : pid_(::getpid()),
      me_(me),
      by_kernel_(kernel == KernelCopies::yes),
      views_(std::in_place, ranks) {}

Status Reach::kernel_read(void* local, const View& remote, std::size_t bytes) const {
  return by_kernel_ ? memory::read_remote(local, remote, bytes) : kRefused;
}

Status Reach::kernel_write(const View& remote, const void* local, std::size_t bytes) const {
  return by_kernel_ ? memory::write_remote(remote, local, bytes) : kRefused;
}

Status Reach::read(void* local, const View& remote, std::size_t bytes) const {
  const std::byte* from = here(remote, bytes);
  const emulated::Leaf leaf(from == nullptr ? emulated::Way::kernel : emulated::Way::copy,
                            emulated::kOwnPlace, place_of(remote), bytes);
  if (from == nullptr) return kernel_read(local, remote, bytes);
  std::memcpy(local, from, bytes);
  return {};
}

Status Reach::write(const View& remote, const void* local, std::size_t bytes) const {
  std::byte* to = to_here(remote, bytes);
  const emulated::Leaf leaf(to == nullptr ? emulated::Way::kernel : emulated::Way::copy,
                            place_of(remote), emulated::kOwnPlace, bytes);
  if (to == nullptr) return kernel_write(remote, local, bytes);
  std::memcpy(to, local, bytes);
  return to_here(remote, bytes) != nullptr ? Status{} : kernel_write(remote, local, bytes);
}

Status Reach::write_blocks(const View& whose, std::span<const iovec> blocks,
                           const void* local) const {
  if (!is_own(whose) && by_kernel_) return memory::write_blocks(whose.pid, blocks, local);
  const auto* from = static_cast<const std::byte*>(local);
  for (const iovec& block : blocks) {
    const Status done = write(block_of(whose, block), from, block.iov_len);
    if (!done) return done;
    from += block.iov_len;
  }
  return {};
}

Status Reach::read_blocks(void* local, const View& whose, std::span<const iovec> blocks) const {
  if (!is_own(whose) && by_kernel_) return memory::read_blocks(local, whose.pid, blocks);
  auto* to = static_cast<std::byte*>(local);
  for (const iovec& block : blocks) {
    const Status done = read(to, block_of(whose, block), block.iov_len);
    if (!done) return done;
    to += block.iov_len;
  }
  return {};
}

Status Reach::copy(const View& to, const View& from, std::size_t bytes,
                   std::span<std::byte> scratch, layout::CacheLevel cache_level) const {
  if (bytes == 0) return {};
  const std::byte* source = here(from, bytes);
  std::byte* target = to_here(to, bytes);
  const emulated::Leaf leaf(way_of(target, source), place_of(to), place_of(from), bytes);
  if (source == nullptr && target == nullptr) return copy_between_others(to, from, bytes, scratch);
  if (source == nullptr) return kernel_read(target, from, bytes);
  if (target == nullptr) return kernel_write(to, source, bytes);
  if (is_own(to) && is_own(from)) {
    std::memmove(target, source, bytes);  // only bytes of this process may overlap
    return {};
  }
  if (is_own(from)) {
    layout::copy_to(cache_level, target, source, bytes);
  } else {
    layout::fetch_to(cache_level, target, source, bytes);
  }
  return to_here(to, bytes) != nullptr ? Status{} : kernel_write(to, source, bytes);
}

// Copies between two processes, neither of which is this one. The kernel reads a piece into
// `scratch`, a buffer of this process, and writes it on from there. The pieces are as long as
// `scratch`, so that `scratch` stays in the L2 cache.
Status Reach::copy_between_others(const View& to, const View& from, std::size_t bytes,
                                  std::span<std::byte> scratch) const {
  if (scratch.empty()) return {Code::full, 0};
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(scratch.size(), bytes - done);
    const Status in = kernel_read(scratch.data(), from.at(done), piece);
    if (!in) return in;
    const Status out = kernel_write(to.at(done), scratch.data(), piece);
    if (!out) return out;
    done += piece;
  }
  return {};
}

}  // namespace mh::memory
