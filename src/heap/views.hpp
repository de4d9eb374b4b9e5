// SPDX-License-Identifier: BSD-3-Clause
// The heaps of the node's other ranks, as this process sees them.
//
// A view is a mapping of a peer's heap at an address of our own choosing: far from all that the
// kernel places, far from the next view (a stray pointer meets nothing), at random within its slot.
// It is read-only until somebody says that it writes. Mapped when the peer is attached, extended
// when an address beyond is asked for, never unmapped: an address that was given out stays good as
// long as the process lives. No descriptor is kept. A fork()ed child has no views (its parent's
// business), core dumps leave them out.
//
// What may be asked for is what the peer has said that it lies in its heap *now* (door.h, reaches):
// a peer's freed memory reads as zero or as what comes after, never as a fault.
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
  // For `ranks` ranks of the node, numbered from 0.
  explicit Views(std::uint32_t ranks);
  Views(const Views&) = delete;
  Views& operator=(const Views&) = delete;
  ~Views() = default;  // the mappings stay

  // Maps the heap behind `fd`, once for each rank and before any other call for it. mismatch: it is
  // not a heap of this build.
  Status attach(std::uint32_t rank, Fd fd);

  // The bytes [address, address + bytes) of that rank, here; nullptr: they are not within reach,
  // and the caller takes another way. Any thread; some nanoseconds but for the first time.
  [[nodiscard]] const std::byte* at(std::uint32_t rank, std::uint64_t address,
                                    std::size_t bytes) const {
    const Peer& peer = peers_[rank];
    const std::uint64_t offset = address - peer.base;
    // Acquire: pairs with the release in extend().
    const std::uint64_t mapped = peer.mapped.load(std::memory_order_acquire);
    if (offset < mapped && bytes <= mapped - offset && open(peer)) [[likely]] {
      return peer.view + offset;
    }
    return elsewhere(rank, address, bytes);
  }
  // The same, to write to.
  [[nodiscard]] std::byte* to(std::uint32_t rank, std::uint64_t address, std::size_t bytes) const;

 private:
  struct StaticView {
    Span span{};
    std::byte* view = nullptr;
  };
  struct Peer {
    std::uint64_t base = 0;
    std::atomic<std::uint64_t> mapped{0};
    std::byte* view = nullptr;
    const Header* header = nullptr;
    std::atomic<bool> writable{false};
    std::uint32_t statics = 0;
    StaticView parts[kMaxStatics];
    std::mutex extending;
  };

  // Acquire: pairs with the release in File::retire().
  static bool open(const Peer& peer) {
    return peer.header->closed.load(std::memory_order_acquire) == 0;
  }
  [[nodiscard]] const std::byte* elsewhere(std::uint32_t rank, std::uint64_t address,
                                           std::size_t bytes) const;
  void extend(Peer& peer) const;
  bool allow_writing(Peer& peer) const;
  Status map(std::uint32_t rank, int fd);
  void map_statics(Peer& peer, std::uint64_t slot, int fd) const;
  [[nodiscard]] std::uint64_t slot_of(std::uint32_t rank) const;

  std::uint64_t stride_;
  // mutable: views are extended when they are looked at.
  mutable std::vector<Peer> peers_;
};

}  // namespace mh::heap
