// SPDX-License-Identifier: BSD-3-Clause
// Stacks of tasks: mapped in slabs, each with a guard page below it, kept in pools, never given
// back before the scheduler ends.
//
//   low                                          Stack
//   | guard page | usable bytes ............... | header |
//
// A worker has a pool of its own (StackPool, its thread only) over one depot for all (StackDepot).
// A task gets a stack when it first runs, not when it is spawned.
//
// Limits: an address space has a limited number of mappings (vm.max_map_count, 65,530 by default)
// and a guard page costs two. The stacks of a process take at most half of them; further stacks
// have no guard page, and the depot counts those.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "ult/fibre.hpp"

namespace mh::ult {

struct Stack {
  Stack* next = nullptr;  // in a pool
  std::byte* low = nullptr;
  Fibre fibre;

  [[nodiscard]] std::byte* top() { return reinterpret_cast<std::byte*>(this); }
  [[nodiscard]] std::size_t bytes() { return static_cast<std::size_t>(top() - low); }
};

class StackDepot {
 public:
  // `bytes` usable in each, before rounding up to pages.
  StackDepot(std::size_t bytes, bool guarded);
  ~StackDepot();
  StackDepot(const StackDepot&) = delete;
  StackDepot& operator=(const StackDepot&) = delete;

  // Any thread. A list of up to kBatch stacks; nullptr when the system has no memory left.
  Stack* take();
  void put(Stack* list);

  [[nodiscard]] std::uint64_t mapped() const { return mapped_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t unguarded() const {
    return unguarded_.load(std::memory_order_relaxed);
  }

  static constexpr int kBatch = 16;

 private:
  Stack* map_slab();
  Stack* make(std::byte* base);
  bool guard(std::byte* base);

  std::size_t page_;
  std::size_t stride_;  // from one guard page to the next
  bool guarded_;
  std::mutex mutex_;  // of the three below
  std::vector<Stack*> lists_;
  std::vector<std::byte*> slabs_;
  long guards_ = 0;
  // relaxed: counters.
  std::atomic<std::uint64_t> mapped_{0};
  std::atomic<std::uint64_t> unguarded_{0};
};

class StackPool {
 public:
  explicit StackPool(StackDepot& depot) : depot_(depot) {}

  Stack* take() {
    if (first_ == nullptr) refill();
    Stack* stack = first_;
    if (stack != nullptr) {
      first_ = stack->next;
      --count_;
    }
    return stack;
  }
  void put(Stack* stack) {
    stack->next = first_;
    first_ = stack;
    if (++count_ > 4 * StackDepot::kBatch) spill();
  }

 private:
  void refill();
  void spill();

  StackDepot& depot_;
  Stack* first_ = nullptr;
  int count_ = 0;
};

}  // namespace mh::ult
