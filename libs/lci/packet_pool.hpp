// SPDX-License-Identifier: BSD-3-Clause
// The packet pool: a fixed number of packets for many threads (section 5.2.4 of the dissertation
// that lci.hpp names).
//
// Each thread has a *lane*: a deque whose hot end is the owner's. The owner takes the packet that
// it gave back last, while the packet is in the owner's cache. A thread with an empty lane steals
// from the cold end of another lane, where the packets have been unused for longest. The thief
// takes half of the lane's packets at once, so a thread that only takes and a thread that only
// gives rarely share a lock.
//
// take() fails when the pool is empty, and rarely while the last packets are in transit between
// lanes: the caller tries again. give() never fails: each lane has room for all packets.
//
// Thread-safety: all calls from any thread. Threads beyond the number of lanes share lanes.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/cacheline.hpp"
#include "lci/lane.hpp"
#include "manyhands/ult/sync.hpp"

namespace mh::lci {

template <class T>
class PacketPool {
 public:
  // Makes a pool for at most `capacity` packets, empty until give() adds them. `lanes`: the number
  // of threads that get a lane (a deque of packets) of their own.
  PacketPool(std::size_t capacity, unsigned lanes)
      : lane_mask_(std::bit_ceil(std::max(lanes, 1U)) - 1),
        lanes_(std::make_unique<Lane[]>(lane_mask_ + 1)) {
    const auto size = static_cast<std::uint32_t>(std::bit_ceil(std::max(capacity, kBatch)));
    for (unsigned i = 0; i <= lane_mask_; ++i) {
      lanes_[i].ring = std::make_unique_for_overwrite<T*[]>(size);
      lanes_[i].mask = size - 1;
    }
  }

  // Returns the packet that this thread gave back last, or a packet of another thread's lane;
  // nullptr: the pool is empty, or nearly so, and the caller tries again later.
  T* take() {
    Lane& own = lanes_[this_lane() & lane_mask_];
    {
      const std::lock_guard guard(own.lock);
      if (T* packet = own.pop_hot()) return packet;
    }
    return steal(own);
  }

  void give(T* packet) {
    Lane& own = lanes_[this_lane() & lane_mask_];
    const std::lock_guard guard(own.lock);
    own.push_hot(packet);
  }

  // The number of packets in the pool; exact while no other thread uses the pool.
  [[nodiscard]] std::size_t count() const {
    std::size_t sum = 0;
    for (unsigned i = 0; i <= lane_mask_; ++i) sum += lanes_[i].size();
    return sum;
  }

 private:
  static constexpr std::size_t kBatch = 32;  // the most packets of one steal

  // `lock` guards a lane, the deque of packets of one thread. Thieves contend with the owner for
  // the lock, and so do the threads of one lane if threads outnumber lanes. `hot` and `cold` are
  // atomic because thieves and count() call size() without the lock. relaxed: that size is a guess.
  struct alignas(kCacheLine) Lane {
    ult::SpinLock lock;
    std::atomic<std::uint32_t> hot{0};   // the position of the next packet
    std::atomic<std::uint32_t> cold{0};  // the position of the oldest packet
    std::uint32_t mask = 0;              // `mask` and `ring` are fixed by the constructor
    std::unique_ptr<T*[]> ring;

    [[nodiscard]] std::uint32_t size() const {
      return hot.load(std::memory_order_relaxed) - cold.load(std::memory_order_relaxed);
    }
    void push_hot(T* packet) {
      const std::uint32_t at = hot.load(std::memory_order_relaxed);
      ring[at & mask] = packet;
      hot.store(at + 1, std::memory_order_relaxed);
    }
    T* pop_hot() {
      if (size() == 0) return nullptr;
      const std::uint32_t at = hot.load(std::memory_order_relaxed) - 1;
      hot.store(at, std::memory_order_relaxed);
      return ring[at & mask];
    }
    T* pop_cold() {
      if (size() == 0) return nullptr;
      const std::uint32_t at = cold.load(std::memory_order_relaxed);
      cold.store(at + 1, std::memory_order_relaxed);
      return ring[at & mask];
    }
  };
  static_assert(sizeof(Lane) == kCacheLine);

  T* steal(Lane& own) {
    T* batch[kBatch];
    const auto self = static_cast<unsigned>(&own - lanes_.get());
    for (unsigned step = 1; step <= lane_mask_; ++step) {
      const std::size_t count = rob(lanes_[(self + step) & lane_mask_], batch);
      if (count == 0) continue;
      const std::lock_guard guard(own.lock);
      for (std::size_t i = 1; i < count; ++i) own.push_hot(batch[i]);
      return batch[0];
    }
    return nullptr;
  }

  // Takes half of the packets of `victim`, another thread's lane, at most kBatch, from the end with
  // those unused for longest. Returns the number of packets taken.
  static std::size_t rob(Lane& victim, T** batch) {
    if (victim.size() == 0 || !victim.lock.try_lock()) return 0;
    const std::lock_guard guard(victim.lock, std::adopt_lock);
    const std::size_t wanted = std::min<std::size_t>(kBatch, (victim.size() + 1) / 2);
    std::size_t count = 0;
    while (count < wanted) batch[count++] = victim.pop_cold();
    return count;
  }

  const unsigned lane_mask_;
  const std::unique_ptr<Lane[]> lanes_;
};

}  // namespace mh::lci
