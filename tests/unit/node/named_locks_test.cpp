// SPDX-License-Identifier: BSD-3-Clause
// The named locks of a node, between processes.
#include "node/named_locks.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "support/child.hpp"
#include "support/sanitizer.hpp"
#include "support/shared.hpp"

namespace mh::node {
namespace {

constexpr std::uint64_t kName = 0x1234567;

struct Shared {
  NamedLocks locks;
  std::uint64_t count = 0;  // guarded by the lock kName
  std::atomic<std::uint32_t> held{0};
};

class NamedLocksTest : public testing::Test {
 protected:
  NamedLocksTest() { EXPECT_TRUE(shared.locks.initialise()); }

  void count(std::uint64_t times) const {
    for (std::uint64_t i = 0; i < times; ++i) {
      NamedLock& lock = *shared.locks.find_or_take(kName);
      if (!lock.lock_soon()) lock.lock();
      ++shared.count;
      lock.unlock();
    }
  }

  test::SharedMemory memory{sizeof(Shared)};
  Shared& shared = *new (memory.span().data()) Shared{};
};

TEST_F(NamedLocksTest, a_name_has_one_lock_and_another_name_another) {
  std::set<NamedLock*> all;
  for (std::uint64_t name = 1; name <= NamedLocks::kMost; ++name) {
    NamedLock* const lock = shared.locks.find_or_take(name * kName);
    ASSERT_NE(lock, nullptr);
    EXPECT_EQ(shared.locks.find_or_take(name * kName), lock);
    all.insert(lock);
  }
  EXPECT_EQ(all.size(), NamedLocks::kMost);
  EXPECT_EQ(shared.locks.find_or_take(77), nullptr) << "all are in use";
}

TEST_F(NamedLocksTest, threads_of_two_processes_exclude_each_other) {
  constexpr std::uint64_t kTimes = test::kSanitized ? 2'000 : 50'000;
  const auto by_two_threads = [&] {
    std::thread other([&] { count(kTimes); });
    count(kTimes);
    other.join();
    return 0;
  };
  test::Child child(by_two_threads);
  by_two_threads();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(shared.count, 4 * kTimes);
}

TEST_F(NamedLocksTest, a_process_that_dies_with_a_lock_passes_it_on) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    shared.held.store(0);
    test::Child holder([&] {
      shared.locks.find_or_take(kName)->lock();
      shared.held.store(1);
      for (;;) ::pause();
      return 0;
    });
    while (shared.held.load() == 0) ::usleep(100);
    EXPECT_FALSE(shared.locks.find_or_take(kName)->lock_soon());
    holder.kill(signal);
    shared.locks.find_or_take(kName)->lock();
    shared.locks.find_or_take(kName)->unlock();
    EXPECT_EQ(holder.wait(), -signal);
  }
  test::Child next([&] {
    count(10);
    return 0;
  });
  EXPECT_EQ(next.wait(), 0);
  EXPECT_EQ(shared.count, 10U) << "and it is as good as before";
}

// Tests in which a thread releases a lock that it does not hold. ThreadSanitizer would report this,
// so they do not run with sanitizers.
class NamedLocksUnsanitized : public NamedLocksTest {};

TEST_F(NamedLocksUnsanitized, a_thread_without_the_lock_cannot_release_it) {
  NamedLock& lock = *shared.locks.find_or_take(kName);
  lock.lock();
  std::thread([&] { lock.unlock(); }).join();
  std::thread([&] { EXPECT_FALSE(lock.lock_soon()); }).join();
  lock.unlock();
}

}  // namespace
}  // namespace mh::node
