// SPDX-License-Identifier: BSD-3-Clause
// The stripe locks and target locks of a window. The locks guard plain counters, by which
// ThreadSanitizer checks the memory orders.
#include "rma/locks.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace mh::rma {
namespace {

constexpr int kTurns = test::kSanitized ? 2'000 : 20'000;

Liveness all_alive() {
  return {[](const void*, std::uint32_t) { return true; }, nullptr};
}

TEST(StripeLocks, an_address_and_all_of_its_stripe_have_one_lock_and_the_next_stripe_another) {
  StripeLocks locks;
  EXPECT_EQ(&locks.of(0), &locks.of(kStripe - 1));
  EXPECT_NE(&locks.of(0), &locks.of(kStripe));
  EXPECT_EQ(&locks.of(5), &locks.of(5 + kStripe * kStripeLocks));
}

TEST(StripeLocks, one_thread_at_a_time_has_a_stripe) {
  StripeLocks locks;
  std::uint64_t counts[2] = {0, 0};
  std::vector<std::thread> threads;
  for (std::uint32_t me = 0; me < 4; ++me) {
    threads.emplace_back([&, me] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const std::uint64_t stripe = static_cast<std::uint64_t>(turn) % 2;
        StripeLock& lock = locks.of(stripe * kStripe);
        lock.lock(me, all_alive());
        ++counts[stripe];
        lock.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts[0] + counts[1], 4U * kTurns);
}

TEST(StripeLocks, the_lock_of_a_dead_rank_is_taken_over_and_that_of_a_living_one_waited_for) {
  StripeLocks locks;
  StripeLock& lock = locks.of(0);
  lock.lock(7, all_alive());
  const Liveness seven_is_dead{[](const void*, std::uint32_t rank) { return rank != 7; }, nullptr};
  lock.lock(3, seven_is_dead);  // takes over the lock, which the dead rank holds
  std::atomic<bool> entered{false};
  std::thread waiter([&] {
    lock.lock(4, seven_is_dead);
    entered = true;
    lock.unlock();
  });
  for (int turn = 0; turn < 1000; ++turn) ::sched_yield();
  EXPECT_FALSE(entered);
  lock.unlock();
  waiter.join();
  EXPECT_TRUE(entered);
}

TEST(TargetLock, sharers_enter_together) {
  TargetLock lock;
  const std::uint32_t first = lock.draw();
  const std::uint32_t second = lock.draw();
  EXPECT_TRUE(lock.enter(first, LockMode::shared));
  EXPECT_TRUE(lock.enter(second, LockMode::shared));
  lock.leave(LockMode::shared);
  lock.leave(LockMode::shared);
}

TEST(TargetLock, numbers_enter_in_the_order_in_which_they_were_drawn) {
  TargetLock lock;
  const std::uint32_t reader = lock.draw();
  const std::uint32_t writer = lock.draw();
  const std::uint32_t late_reader = lock.draw();
  EXPECT_TRUE(lock.enter(reader, LockMode::shared));
  EXPECT_FALSE(lock.enter(writer, LockMode::exclusive));
  EXPECT_FALSE(lock.enter(late_reader, LockMode::shared));
  lock.leave(LockMode::shared);
  EXPECT_FALSE(lock.enter(late_reader, LockMode::shared));
  EXPECT_TRUE(lock.enter(writer, LockMode::exclusive));
  EXPECT_FALSE(lock.enter(late_reader, LockMode::shared));
  lock.leave(LockMode::exclusive);
  EXPECT_TRUE(lock.enter(late_reader, LockMode::shared));
  lock.leave(LockMode::shared);
}

TEST(TargetLock, a_writer_is_alone_and_readers_see_what_it_wrote) {
  TargetLock lock;
  std::uint64_t one = 0;
  std::uint64_t other = 0;
  std::atomic<int> torn{0};
  const auto enter = [&](LockMode mode) {
    const std::uint32_t number = lock.draw();
    while (!lock.enter(number, mode)) ::sched_yield();
  };
  std::vector<std::thread> threads;
  for (int me = 0; me < 4; ++me) {
    threads.emplace_back([&, me] {
      for (int turn = 0; turn < kTurns / 4; ++turn) {
        if ((turn + me) % 3 == 0) {
          enter(LockMode::exclusive);
          ++one;
          ++other;
          lock.leave(LockMode::exclusive);
        } else {
          enter(LockMode::shared);
          if (one != other) ++torn;
          lock.leave(LockMode::shared);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(one, other);
}

}  // namespace
}  // namespace mh::rma
