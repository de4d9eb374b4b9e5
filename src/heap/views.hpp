// SPDX-License-Identifier: BSD-3-Clause
// Maps the heaps of the node's other ranks into this process.
//
// A view maps a peer's heap at an address that this process chooses at random within a slot of the
// address space (views.cpp). The address is far from the kernel's own choices, and so far from the
// next view that a stray pointer hits no memory. Views are read-only until to() is called. attach()
// maps a view, an access beyond its end extends the view, and nothing unmaps it: a returned address
// stays valid as long as the process lives. No descriptor is kept. fork()ed children and core dumps
// have no views.
//
// A caller may access only ranges of which the peer has just said that its heap reaches them
// (door.h). Memory that the peer frees reads as zero or as later contents, and never faults.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "heap/file.hpp"

namespace mh::heap {

class Views {
 public:
  // Makes room for the views of `ranks` ranks of the node, numbered from 0; maps nothing.
  explicit Views(std::uint32_t ranks);
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;
  ~Views() = default;  // the mappings stay

  // Maps the heap of a rank from the descriptor of its file. Called once for each rank, before any
  // other call for that rank. `mismatch` if the file is not a heap of this build.
  Status attach(std::uint32_t rank, Fd fd);

  // Returns the address in this process of the bytes [address, address + bytes) of that rank, or
  // nullptr if they cannot be reached: the caller uses another protocol then. Any thread; takes
  // some nanoseconds, except the first time.
  [[nodiscard]] const std::byte* at(std::uint32_t rank, std::uint64_t address,
                                    std::size_t bytes) const {
    const PeerHeap& peer = peers_[rank];
    const std::uint64_t offset = address - peer.base;
    // Acquire: pairs with the release in extend().
    const std::uint64_t mapped = peer.mapped.load(std::memory_order_acquire);
    if (offset < mapped && bytes <= mapped - offset && open(peer)) [[likely]] {
      return peer.view + offset;
    }
    return elsewhere(rank, address, bytes);
  }
  // Does the same as at(), and at its first call for a rank makes this process's views of that
  // rank's memory writable.
  [[nodiscard]] std::byte* to(std::uint32_t rank, std::uint64_t address, std::size_t bytes) const;

 private:
  struct StaticView {
    Span span{};
    std::byte* view = nullptr;
  };
  struct PeerHeap {
    std::uint64_t base = 0;
    std::atomic<std::uint64_t> mapped{0};
    std::byte* view = nullptr;
    const HeapHeader* header = nullptr;
    std::atomic<bool> writable{false};
    std::uint32_t statics = 0;
    StaticView parts[kMaxStatics];
    std::mutex extending;
  };

  // True while the peer has not retired its heap (mapped it copy-on-write). Acquire: pairs with the
  // release in File::retire().
  static bool open(const PeerHeap& peer) {
    return peer.header->closed.load(std::memory_order_acquire) == 0;
  }
  [[nodiscard]] const std::byte* elsewhere(std::uint32_t rank, std::uint64_t address,
                                           std::size_t bytes) const;
  void extend(PeerHeap& peer) const;
  bool allow_writing(PeerHeap& peer) const;
  Status map(std::uint32_t rank, int fd);
  void map_statics(PeerHeap& peer, std::uint64_t slot, int fd) const;
  [[nodiscard]] std::uint64_t slot_of(std::uint32_t rank) const;

  std::uint64_t stride_;
  // mutable: a const lookup such as at() may extend a view.
  mutable std::vector<PeerHeap> peers_;
};

}  // namespace mh::heap
