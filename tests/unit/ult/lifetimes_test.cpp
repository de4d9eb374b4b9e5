// SPDX-License-Identifier: BSD-3-Clause
// Tests of objects that end while others still use them: the value of a Future, the variables of a
// task, an event.
#include <gtest/gtest.h>
#include <x86intrin.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <utility>

#include "manyhands/ult.hpp"

namespace mh::ult {
namespace {

// A scheduler whose one worker begins no task before the running task waits.
Scheduler started() {
  Result<Scheduler> scheduler = Scheduler::start({.workers = 1, .tasks_per_worker = 512});
  EXPECT_TRUE(scheduler.ok());
  return std::move(*scheduler);
}

struct Counted {
  Counted() { ++alive; }
  Counted(Counted&& other) noexcept : value(other.value) { ++alive; }
  ~Counted() { --alive; }
  Counted& operator=(Counted&&) = delete;
  std::array<char, 64> room;  // unused: a write to a freed Counted leaves the heap's lists alone
  int value = 0;
  static inline int alive = 0;
};

TEST(UltFuture, an_assignment_joins_the_old_task_before_it_frees_the_value) {
  bool ran = false;
  Scheduler scheduler = started();
  const Status status = scheduler.run([&ran] {
    auto future = async([&ran] {
      ran = true;
      return Counted();
    });
    auto second = async([] { return Counted(); });
    *future = std::move(*second);
    EXPECT_TRUE(ran);
    EXPECT_TRUE(future->get().ok());
    EXPECT_FALSE(future->valid());
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(Counted::alive, 0) << "a value was written to freed memory";
}

// --- variables of a task ----------------------------------------------------------------------

// The destructor uses a variable with a smaller key and one with a larger key.
struct Reporter {
  Reporter() = default;
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  ~Reporter();
  static inline int seen_first = 0, seen_last = 0;
};
Local<Counted> first_local;
Local<Reporter> reporter_local;
Local<Counted> last_local;

Reporter::~Reporter() {
  seen_first = first_local.get()->value;
  seen_last = last_local.get()->value;
  first_local.get()->value = last_local.get()->value = 9;
}

TEST(UltLocal, a_destructor_may_use_the_other_variables_of_its_task) {
  Scheduler scheduler = started();
  const auto task = [] {
    EXPECT_EQ(first_local.get()->value, 0) << "the value of an earlier task";
    EXPECT_EQ(last_local.get()->value, 0) << "the value of an earlier task";
    first_local.get()->value = 5;
    last_local.get()->value = 7;
    reporter_local.get();
  };
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_TRUE(scheduler.run(task).ok());
    EXPECT_EQ(Reporter::seen_first, 0) << "this value had ended before";
    EXPECT_EQ(Reporter::seen_last, 7);
    EXPECT_EQ(Counted::alive, 0);
  }
}

// The destructor makes a new value of its own variable, for ever.
struct Phoenix {
  Phoenix() { ++made; }
  Phoenix(const Phoenix&) = delete;
  Phoenix& operator=(const Phoenix&) = delete;
  ~Phoenix();
  static inline int made = 0;
};
Local<Phoenix> phoenix_local;
Phoenix* last_phoenix = nullptr;  // keeps the value that is left from a leak checker

Phoenix::~Phoenix() { last_phoenix = phoenix_local.get(); }

TEST(UltLocal, a_value_that_always_comes_back_is_left_after_four_rounds) {
  Scheduler scheduler = started();
  EXPECT_TRUE(scheduler.run([] { phoenix_local.get(); }).ok());
  EXPECT_EQ(Phoenix::made, 5);
}

// --- a set event ------------------------------------------------------------------------------

using EventBytes = std::array<std::byte, sizeof(Event)>;

// Looks at an event after each instruction of its set(), by the processor's trap flag.
struct Steps {
  static void look(int /*signal*/) {
    if (!event->is_set()) return;
    EventBytes now;
    std::memcpy(now.data(), event, sizeof now);
    if (steps_after_set++ == 0) at_set = now;
    if (now != at_set) changed = true;
  }
  static inline Event* event = nullptr;
  static inline EventBytes at_set{};
  static inline int steps_after_set = 0;
  static inline bool changed = false;
};

// A sanitizer takes the signal of the steps itself.
TEST(UltEventUnsanitized, set_does_not_write_to_an_event_that_others_see_set) {
  Event event;
  Steps::event = &event;
  const auto before = std::signal(SIGTRAP, &Steps::look);
  constexpr unsigned long long kTrap = 0x100;
  __writeeflags(__readeflags() | kTrap);
  event.set();
  __writeeflags(__readeflags() & ~kTrap);
  std::signal(SIGTRAP, before);
  EXPECT_GT(Steps::steps_after_set, 0);
  EXPECT_FALSE(Steps::changed) << "another thread may have destroyed the event by then";
}

}  // namespace
}  // namespace mh::ult
