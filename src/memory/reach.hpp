// SPDX-License-Identifier: BSD-3-Clause
// Which way this process takes to the bytes of a view. Whoever asks for a copy does not know.
//
//   own      memory of this process: its address
//   mapped   the heap of a peer, which this process maps (heap/views.hpp): an address here
//   kernel   process_vm_readv and process_vm_writev (view.hpp)
//
// Decided for each view anew, in a few nanoseconds, because one buffer of a message may lie in a
// heap and the other on a stack. Where none of the three reaches, a copy is refused, and callers go
// by a pipeline (p2p/pipeline.hpp) or by the MPI library. Limits: ranks of one node. What is copied
// to a peer's heap while that peer's fork() takes the heap away from its views (heap/file.hpp,
// retired) is copied again by the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "heap/views.hpp"
#include "layout/pack.hpp"
#include "memory/view.hpp"

namespace mh::memory {

class Reach {
 public:
  enum class Kernel : bool { no, yes };

  // No peer's heap: processes are told apart by their numbers alone.
  Reach();
  // For rank `me` of `ranks`, which may have different numbers in each other's eyes.
  Reach(std::uint32_t me, std::uint32_t ranks, Kernel kernel);

  // The heap of that rank, once. Before any other thread asks for its bytes.
  Status attach(std::uint32_t rank, Fd heap) { return views_->attach(rank, std::move(heap)); }

  [[nodiscard]] bool is_own(const View& view) const {
    return view.pid == pid_ && (!views_ || view.rank == me_);
  }
  // Where this process can load, or load and store, all of these bytes; null if it cannot.
  [[nodiscard]] const std::byte* here(const View& view, std::size_t bytes) const {
    if (is_own(view)) return reinterpret_cast<const std::byte*>(view.address);
    return views_ ? views_->at(view.rank, view.address, bytes) : nullptr;
  }
  [[nodiscard]] std::byte* to_here(const View& view, std::size_t bytes) const {
    if (is_own(view)) return reinterpret_cast<std::byte*>(view.address);
    return views_ ? views_->to(view.rank, view.address, bytes) : nullptr;
  }

  // Copies by the cheapest way: one move by this process where it has both addresses, one by the
  // kernel where it has one, and two through `scratch` where it has none. `home` is where the bytes
  // of the whole message are expected. Any thread; takes no lock, does not allocate. On failure any
  // prefix may have been written.
  Status copy(const View& to, const View& from, std::size_t bytes, std::span<std::byte> scratch,
              layout::CacheLevel home = layout::CacheLevel::caches) const;
  Status read(void* local, const View& remote, std::size_t bytes) const;
  Status write(const View& remote, const void* local, std::size_t bytes) const;
  // As memory::write_blocks() and read_blocks(), in the process of `whose`.
  Status write_blocks(const View& whose, std::span<const iovec> blocks, const void* local) const;
  Status read_blocks(void* local, const View& whose, std::span<const iovec> blocks) const;

 private:
  Status kernel_read(void* local, const View& remote, std::size_t bytes) const;
  Status kernel_write(const View& remote, const void* local, std::size_t bytes) const;
  Status copy_between_others(const View& to, const View& from, std::size_t bytes,
                             std::span<std::byte> scratch) const;

  pid_t pid_;
  std::uint32_t me_ = 0;
  bool by_kernel_ = true;
  std::optional<heap::Views> views_;
};

}  // namespace mh::memory
