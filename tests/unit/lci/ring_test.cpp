// SPDX-License-Identifier: BSD-3-Clause
// The ring buffer inside completion queues.
#include "lci/ring.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace mh::lci {
namespace {

TEST(Ring, refuses_when_full_and_has_nothing_when_empty) {
  Ring<int> ring(4);
  int value = 0;
  EXPECT_FALSE(ring.pop(value));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i));
  EXPECT_FALSE(ring.push(4));
  EXPECT_TRUE(ring.pop(value));
  EXPECT_EQ(value, 0);
  EXPECT_TRUE(ring.push(4));
  for (int i = 1; i <= 4; ++i) {
    EXPECT_TRUE(ring.pop(value));
    EXPECT_EQ(value, i);
  }
  EXPECT_FALSE(ring.pop(value));
}

TEST(Ring, behaves_as_a_bounded_queue) {
  std::mt19937 random(1);
  for (const std::size_t capacity : {1U, 2U, 3U, 8U, 100U}) {
    Ring<int> ring(capacity);
    std::deque<int> model;
    for (int i = 0; i < 20'000; ++i) {
      if (random() % 2 == 0) {
        const bool fits = model.size() < ring.capacity();
        if (fits) model.push_back(i);
        ASSERT_EQ(ring.push(i), fits);
      } else {
        int value = -1;
        ASSERT_EQ(ring.pop(value), !model.empty());
        if (model.empty()) continue;
        ASSERT_EQ(value, model.front());
        model.pop_front();
      }
    }
  }
}

// Each pushed value is popped once. Each consumer pops the values of a producer in order.
TEST(Ring, producers_and_consumers_lose_nothing) {
  constexpr std::uint64_t kProducers = 2;
  constexpr int kConsumers = 2;
  const std::uint64_t count = test::kSanitized ? 20'000 : 300'000;
  Ring<std::uint64_t> ring(64);
  std::vector<std::atomic<int>> seen(kProducers * count);
  std::atomic<std::uint64_t> left{kProducers * count};
  std::vector<std::thread> threads;
  for (std::uint64_t producer = 0; producer < kProducers; ++producer) {
    threads.emplace_back([&, producer] {
      for (std::uint64_t i = 0; i < count; ++i) {
        while (!ring.push(producer * count + i)) std::this_thread::yield();
      }
    });
  }
  for (int i = 0; i < kConsumers; ++i) {
    threads.emplace_back([&] {
      std::vector<std::uint64_t> next(kProducers, 0);
      while (left.load() != 0) {
        std::uint64_t value = 0;
        if (!ring.pop(value)) {
          std::this_thread::yield();
          continue;
        }
        --left;
        ++seen[value];
        EXPECT_GE(value % count, next[value / count]);
        next[value / count] = value % count + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& times : seen) ASSERT_EQ(times, 1);
}

TEST(Ring, removes_some_elements_and_keeps_the_order_of_the_others) {
  for (const int count : {0, 1, 5, 8}) {
    for (int turn = 0; turn < 20; ++turn) {
      Ring<int> ring(8);
      int value = 0;
      for (int i = 0; i < turn; ++i) EXPECT_TRUE(ring.push(i) && ring.pop(value));
      for (int i = 0; i < count; ++i) EXPECT_TRUE(ring.push(i));
      ring.remove_if([&](int element) {
        EXPECT_FALSE(ring.push(100)) << "closed meanwhile";
        return element % 3 == 1;
      });
      for (int i = 0; i < count; ++i) {
        if (i % 3 == 1) continue;
        ASSERT_TRUE(ring.pop(value));
        EXPECT_EQ(value, i);
      }
      EXPECT_FALSE(ring.pop(value));
      for (int i = 0; i < 8; ++i) EXPECT_TRUE(ring.push(i));
      EXPECT_FALSE(ring.push(8));
    }
  }
}

// Two threads remove what nobody has pushed, while others push and pop.
TEST(Ring, nothing_is_lost_while_threads_remove_other_elements) {
  const std::uint64_t count = test::kSanitized ? 20'000 : 200'000;
  Ring<std::uint64_t> ring(16);
  std::vector<std::atomic<int>> seen(count);
  std::atomic<std::uint64_t> left{count};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (left.load() != 0) {
        ring.remove_if([&](std::uint64_t value) { return value >= count; });
        std::this_thread::yield();
      }
    });
    threads.emplace_back([&] {
      while (left.load() != 0) {
        std::uint64_t value = 0;
        if (!ring.pop(value)) {
          std::this_thread::yield();
          continue;
        }
        ++seen[value];
        --left;
      }
    });
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    while (!ring.push(i)) std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& times : seen) ASSERT_EQ(times, 1);
}

}  // namespace
}  // namespace mh::lci
