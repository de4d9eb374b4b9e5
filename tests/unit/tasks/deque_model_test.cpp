// SPDX-License-Identifier: BSD-3-Clause
// Explores the split deque of tasks under all interleavings with delayed stores (ult/checker.hpp).
// For each rule of the deque there is also a scenario that breaks the rule, and the checker must
// find the fault.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "tasks/deque.hpp"
#include "ult/model.hpp"

namespace mh::tasks {
namespace {

using ult::check::expect_holds;
using ult::check::explore;
using ult::check::Explorer;
using ult::check::Model;
using ult::check::preempted;
using ult::check::require;
using ult::check::Threads;

struct Locked : Model {
  static void lock(Atomic<std::uint32_t>& word) {
    while (word.exchange(1) != 0) {
      Explorer::now().await([&word] { return word.load() == 0; });
    }
  }
  static void unlock(Atomic<std::uint32_t>& word) { word.store(0, std::memory_order_release); }
};
// Policy in which the lock of the deque does not lock. The checker must find the fault.
struct Unlocked : Model {
  static void lock(Atomic<std::uint32_t>& /*word*/) {}
  static void unlock(Atomic<std::uint32_t>& /*word*/) {}
};

constexpr std::uint64_t kMostSlots = 3;
struct ModelSlots {
  using Task = std::uint32_t;
  std::array<Model::Atomic<std::uint32_t>, kMostSlots>* cells;
  std::uint64_t count;
  [[nodiscard]] std::uint64_t capacity() const { return count; }
  void store(std::uint64_t slot, Task task) {
    (*cells)[slot].store(task, std::memory_order_relaxed);
  }
  void load(std::uint64_t slot, Task& task) const {
    task = (*cells)[slot].load(std::memory_order_relaxed);
  }
};

template <class A, std::uint64_t kSlots = 2>
struct World {
  static constexpr std::uint32_t kTasks = 3;
  std::array<Model::Atomic<std::uint32_t>, kMostSlots> cells;
  DequeWords<A> words;
  Deque<A, ModelSlots> deque{words, ModelSlots{&cells, kSlots}};
  std::array<int, kTasks + 1> taken{};

  void steal(std::uint32_t most) {
    const Reservation mine = deque.reserve(most);
    for (std::uint32_t i = 0; i < mine.count; ++i) take(mine.first + i);
    if (mine.count != 0) deque.complete(mine);
  }
  void take(std::uint64_t at) {
    std::uint32_t task = 0;
    deque.slots().load(deque.slot(at), task);
    ++taken[task];
  }
  bool get() {
    std::uint32_t task = 0;
    const bool got = deque.get(task);
    if (got) ++taken[task];
    return got;
  }
  void at_end() {
    while (get()) {
    }
    for (std::uint32_t task = 1; task <= kTasks; ++task) {
      require(taken[task] == 1, "a task was lost, or taken twice");
    }
  }
};

// A worker that adds tasks to its deque, and thieves. There are more tasks than slots of the deque,
// so slots are used again.
template <class A, int kThieves>
struct WorkerAndThieves : World<A> {
  Threads threads() {
    Threads all{[this] {
      for (std::uint32_t task = 1; task <= this->kTasks; ++task) {
        while (!this->deque.add(task)) {
          if (!this->get()) break;
        }
      }
    }};
    for (std::uint32_t most = 1; most <= kThieves; ++most) {
      all.push_back([this, most] { this->steal(most); });
    }
    return all;
  }
  // While thieves copy all tasks of a full deque, its worker can neither add a task nor take one,
  // and gives the new task up. at_end() adds that task.
  void at_end() {
    for (std::uint32_t task = 1; task <= this->kTasks; ++task) {
      if (this->taken[task] == 0 && !waits(task)) require(this->deque.add(task), "no room at rest");
    }
    World<A>::at_end();
  }
  bool waits(std::uint32_t task) {
    const std::uint64_t first = this->words.stail.load();
    for (std::uint64_t at = first; at < this->words.head; ++at) {
      std::uint32_t there = 0;
      this->deque.slots().load(this->deque.slot(at), there);
      if (there == task) return true;
    }
    return false;
  }
};

TEST(DequeModel, every_task_is_taken_once) {
  expect_holds(explore<WorkerAndThieves<Locked, 1>>(preempted(1)), 1000);
  expect_holds(explore<WorkerAndThieves<Locked, 2>>(preempted(0)), 1000);
}

TEST(DequeModel, without_the_lock_a_task_is_taken_twice) {
  EXPECT_EQ((explore<WorkerAndThieves<Unlocked, 2>>().failure), "a task was lost, or taken twice");
}

// The worker takes tasks back from the shared part of its deque while thieves steal there.
template <class A>
struct LastTasks : World<A> {
  LastTasks() {
    for (std::uint32_t task = 1; task <= 2; ++task) this->deque.add(task);
    for (std::uint32_t task = 3; task <= this->kTasks; ++task) ++this->taken[task];
  }
  Threads threads() {
    return {[this] {
              while (this->get()) {
              }
            },
            [this] { this->steal(2); }, [this] { this->steal(2); }};
  }
};

TEST(DequeModel, worker_and_thieves_share_the_last_tasks) {
  expect_holds(explore<LastTasks<Locked>>(preempted(2)), 100);
}

// Two thieves' steals complete in any order, and the worker reuses slots as soon as reclaim() frees
// them. With kItailFirst the worker loads itail and stail in the order of Deque::reclaim(); the
// other order is wrong on purpose.
template <bool kItailFirst>
struct SlotsUsedAgain : World<Locked, 3> {
  SlotsUsedAgain() {
    deque.keep(1);
    for (std::uint32_t task = 1; task <= 3; ++task) deque.add(task);
  }
  // Does what Deque::reclaim() does, but overwrites the slots that reclaim() would free, so that a
  // thief that still copies one of them gets a wrong task.
  void worker() {
    std::uint64_t itail = 0;
    std::uint64_t stail = 0;
    if (kItailFirst) {
      itail = words.itail.load(std::memory_order_acquire);
      stail = words.stail.load(std::memory_order_relaxed);
    } else {
      stail = words.stail.load(std::memory_order_relaxed);
      itail = words.itail.load(std::memory_order_acquire);
    }
    if (itail != stail) return;
    for (std::uint64_t at = 0; at < itail; ++at) deque.slots().store(deque.slot(at), 0);
  }
  Threads threads() {
    return {[this] { worker(); }, [this] { steal(1); }, [this] { steal(1); }};
  }
};

TEST(DequeModel, slots_are_free_when_no_steal_is_under_way) {
  expect_holds(explore<SlotsUsedAgain<true>>(preempted(2)), 100);
}

// With sanitizers this search would take many minutes, so it does not run with them.
TEST(DequeModelUnsanitized, reading_stail_first_frees_a_slot_that_is_being_copied) {
  EXPECT_EQ(explore<SlotsUsedAgain<false>>({.preemptions = 3}).failure,
            "a task was lost, or taken twice");
}

}  // namespace
}  // namespace mh::tasks
