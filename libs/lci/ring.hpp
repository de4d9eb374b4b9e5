// SPDX-License-Identifier: BSD-3-Clause
// A bounded queue for many producers and many consumers, used by completion queues.
//
// Each cell has a turn. The turn is `position` for the producer of that position, `position + 1`
// for its consumer, and `position + size` for the producer of the next pass over the ring. A
// producer claims a position by a compare-and-swap, fills the cell and increments the turn. A
// consumer claims a position in the same way and sets the turn for the next pass. Neither call
// waits: push() fails on a full ring, and pop() on an empty ring. pop() also fails while a producer
// has claimed the first position and not yet filled its cell. (The turn-per-cell scheme is D.
// Vyukov's bounded queue.)
//
// remove_if() closes the ring to producers by the highest bit of `tail_`. It moves each element
// from the head to the tail. Producers cannot take the freed cells meanwhile.
//
// Thread-safety: all functions from any thread.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>

#include "base/cacheline.hpp"

namespace mh::lci {

template <class T>
class Ring {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // Makes a queue with at least `capacity` cells: the next power of two.
  explicit Ring(std::size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? std::size_t{2} : capacity) - 1),
        cells_(std::make_unique<RingCell[]>(mask_ + 1)) {
    for (std::size_t i = 0; i <= mask_; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  // Appends a copy of `value`. False: the queue is full, or a thread is in remove_if().
  bool push(const T& value) {
    std::size_t position = tail_.load(std::memory_order_relaxed);
    for (;;) {
      RingCell& cell = cells_[position & mask_];
      // acquire: partner is the release with which the consumer of this cell's last value has freed
      // the cell.
      const std::size_t turn = cell.turn.load(std::memory_order_acquire);
      const auto ahead = static_cast<std::ptrdiff_t>(turn - position);
      if (ahead < 0) return false;
      if (ahead > 0) {
        position = tail_.load(std::memory_order_relaxed);
        if ((position & kClosed) != 0) return false;
        continue;
      }
      // relaxed: the exchange claims the position only; the release of `turn` below publishes the
      // cell's value.
      if (tail_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        cell.value = value;
        cell.turn.store(position + 1, std::memory_order_release);
        return true;
      }
    }
  }

  // Removes the oldest element into `value`. False: the queue is empty, or the producer of its
  // first cell has not filled the cell yet.
  bool pop(T& value) {
    std::size_t position = head_.load(std::memory_order_relaxed);
    for (;;) {
      RingCell& cell = cells_[position & mask_];
      // acquire: partner is the release with which the producer has filled this cell.
      const std::size_t turn = cell.turn.load(std::memory_order_acquire);
      const auto ahead = static_cast<std::ptrdiff_t>(turn - (position + 1));
      if (ahead < 0) return false;
      if (ahead > 0) {
        position = head_.load(std::memory_order_relaxed);
        continue;
      }
      if (head_.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
        value = cell.value;
        cell.turn.store(position + mask_ + 1, std::memory_order_release);
        return true;
      }
    }
  }

  [[nodiscard]] std::size_t capacity() const { return mask_ + 1; }

  // Removes the elements for which `unwanted` returns true; the others keep their order. `unwanted`
  // must not call remove_if(). Callers wait for each other, and for threads in push() and pop().
  template <class Unwanted>
  void remove_if(const Unwanted& unwanted) {
    const std::size_t end = close();
    std::size_t tail = end;
    T value{};
    while (static_cast<std::ptrdiff_t>(end - head_.load(std::memory_order_relaxed)) > 0) {
      if (!pop(value)) {
        std::this_thread::yield();  // the producer of the first cell fills it
      } else if (!unwanted(value)) {
        fill(tail, value);
        ++tail;
      }
    }
    // release: partner is the acquire in close().
    tail_.store(tail, std::memory_order_release);
  }

 private:
  struct alignas(kCacheLine) RingCell {
    std::atomic<std::size_t> turn{0};
    T value;
  };
  static constexpr std::size_t kClosed = ~(SIZE_MAX >> 1U);

  // Closes the ring to producers and returns the position of its end. acquire: partner is the
  // release at the end of the last remove_if().
  std::size_t close() {
    for (;;) {
      const std::size_t end = tail_.fetch_or(kClosed, std::memory_order_acquire);
      if ((end & kClosed) == 0) return end;
      std::this_thread::yield();
    }
  }
  // Fills the cell of a position that no producer can claim. The cell is free, except while the
  // consumer of its last value copies that value.
  void fill(std::size_t position, const T& value) {
    RingCell& cell = cells_[position & mask_];
    // acquire: as in push().
    while (cell.turn.load(std::memory_order_acquire) != position) std::this_thread::yield();
    cell.value = value;
    cell.turn.store(position + 1, std::memory_order_release);
  }

  const std::size_t mask_;
  const std::unique_ptr<RingCell[]> cells_;
  alignas(kCacheLine) std::atomic<std::size_t> tail_{0};  // producers
  alignas(kCacheLine) std::atomic<std::size_t> head_{0};  // consumers
};

}  // namespace mh::lci
