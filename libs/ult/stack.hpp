// SPDX-License-Identifier: BSD-3-Clause
// Stacks of tasks. The depot maps stacks in slabs of kBatch, with a guard page (which no access may
// touch) below each stack. The stacks stay mapped until the scheduler ends.
//
//   low                                          Stack
//   | guard page | usable bytes ............... | header |
//
// Each worker has a StackPool, which only its thread uses. All workers share one StackDepot, which
// refills the pools. A task gets a stack when it first runs, not when it is spawned.
//
// Limits: Linux bounds the number of mappings of a process (vm.max_map_count, 65,530 by default). A
// guard page costs two mappings. The stacks of a process use at most half of the mappings. Further
// stacks have no guard page; the depot counts them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "ult/sanitizer_fibre.hpp"

namespace mh::ult {

struct Stack {
  Stack* next = nullptr;  // the next free stack of a list
  std::byte* low = nullptr;
  SanitizerFibre fibre;

  [[nodiscard]] std::byte* top() { return reinterpret_cast<std::byte*>(this); }
  [[nodiscard]] std::size_t bytes() { return static_cast<std::size_t>(top() - low); }
};

// All stacks of a scheduler. The workers get free stacks from the depot in lists, and give lists
// back.
class StackDepot {
 public:
  // `bytes`: the usable size of each stack, before rounding up to pages. `guarded`: each stack gets
  // a guard page, as long as the process may have more mappings.
  StackDepot(std::size_t bytes, bool guarded);
  ~StackDepot();
  StackDepot(const StackDepot&) = delete;
  StackDepot& operator=(const StackDepot&) = delete;

  // Any thread may call these functions. take() returns a list of kBatch free stacks; nullptr: the
  // system has no memory left. put() takes such a list back.
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
  std::mutex mutex_;  // guards lists_, slabs_ and guards_
  std::vector<Stack*> lists_;
  std::vector<std::byte*> slabs_;
  long guards_ = 0;
  // The values of Counters::stacks and Counters::unguarded. relaxed: they publish no other data.
  std::atomic<std::uint64_t> mapped_{0};
  std::atomic<std::uint64_t> unguarded_{0};
};

// The free stacks of one worker. Only that worker's thread uses the pool.
class StackPool {
 public:
  explicit StackPool(StackDepot& depot) : depot_(depot) {}

  // Returns a free stack, from the depot if the pool is empty; nullptr: the system has no memory
  // left.
  Stack* take() {
    if (first_ == nullptr) refill();
    Stack* stack = first_;
    if (stack != nullptr) {
      first_ = stack->next;
      --count_;
    }
    return stack;
  }
  // Takes back a stack whose task has ended. If the pool then has more than 4 * kBatch stacks,
  // kBatch of them go back to the depot.
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
