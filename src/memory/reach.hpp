// SPDX-License-Identifier: BSD-3-Clause
// Finds how this process can access the bytes of a View (memory of a rank of this node, view.hpp),
// and copies them. Callers of copy() need not know the path.
//
//   own      memory of this process: its address
//   mapped   the heap of a peer, mapped by this process (heap/views.hpp): an address of the mapping
//   kernel   process_vm_readv and process_vm_writev (view.hpp)
//
// The path is chosen for each view, in a few nanoseconds: one buffer of a message may lie in a
// heap and the other on a stack. If there is no path, the copy is refused, and the caller uses a
// pipeline (p2p/pipeline.hpp) or the MPI library.
//
// Threads: any, after all calls of attach(). Limit: the ranks of a node. If a fork() of a peer
// makes the peer's heap private (retires it, heap/file.hpp) during a copy into that heap, the
// kernel copies the bytes again.
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
  enum class KernelCopies : bool { no, yes };

  // Makes an object that maps no heaps of other ranks: it tells by View::pid whose memory a View
  // names.
  Reach();
  // Makes the object of rank `me` of the `ranks` ranks of a node. It tells by View::rank whose
  // memory a View names, since ranks in different PID namespaces may have equal process numbers.
  Reach(std::uint32_t me, std::uint32_t ranks, KernelCopies kernel);

  // Maps the heap of `rank` into this process. Called once for each other rank, before any other
  // thread uses this object.
  Status attach(std::uint32_t rank, Fd heap) { return views_->attach(rank, std::move(heap)); }

  [[nodiscard]] bool is_own(const View& view) const {
    return view.pid == pid_ && (!views_ || view.rank == me_);
  }
  // Returns the address at which this process can load (here) or load and store (to_here) all of
  // these bytes, or nullptr.
  [[nodiscard]] const std::byte* here(const View& view, std::size_t bytes) const {
    if (is_own(view)) return reinterpret_cast<const std::byte*>(view.address);
    return views_ ? views_->at(view.rank, view.address, bytes) : nullptr;
  }
  [[nodiscard]] std::byte* to_here(const View& view, std::size_t bytes) const {
    if (is_own(view)) return reinterpret_cast<std::byte*>(view.address);
    return views_ ? views_->to(view.rank, view.address, bytes) : nullptr;
  }

  // Copies by the cheapest path. If this process can load the source and store the target, it
  // copies the bytes itself. If it can access only one end, the kernel copies once. If it can
  // access neither end, the kernel copies twice, through `scratch`. `cache_level`: the cache level
  // expected to hold the whole message. Any thread; takes no lock, does not allocate. On failure
  // any prefix may have been written.
  Status copy(const View& to, const View& from, std::size_t bytes, std::span<std::byte> scratch,
              layout::CacheLevel cache_level = layout::CacheLevel::caches) const;
  Status read(void* local, const View& remote, std::size_t bytes) const;
  Status write(const View& remote, const void* local, std::size_t bytes) const;
  // Does what memory::write_blocks() and read_blocks() do, with the process that `whose` names.
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
