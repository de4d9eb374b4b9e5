// SPDX-License-Identifier: BSD-3-Clause
// Tests of objects that end while others still use them: the value of a Future.
#include <gtest/gtest.h>

#include <array>
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

}  // namespace
}  // namespace mh::ult
