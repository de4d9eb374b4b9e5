// SPDX-License-Identifier: BSD-3-Clause
#include "base/biased_flag.hpp"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

namespace mh {
namespace {

// ProcessFence with two hooks for the test, `in_pass` and `in_pass_alone`. A hook runs once, in the
// next call of pass() or pass_alone().
struct Seamed {
  static inline bool exists = true;
  static inline bool works = true;
  static inline std::function<void()> in_pass;        // runs before the fence
  static inline std::function<void()> in_pass_alone;  // runs after the fence

  static bool prepare() { return exists && ProcessFence::prepare(); }
  static bool pass() {
    if (const auto meanwhile = std::exchange(in_pass, nullptr)) meanwhile();
    return works && ProcessFence::pass();
  }
  static void pass_alone() {
    ProcessFence::pass_alone();
    if (const auto meanwhile = std::exchange(in_pass_alone, nullptr)) meanwhile();
  }
};

class BiasedFlagTest : public testing::Test {
 protected:
  BiasedFlagTest() {
    Seamed::exists = Seamed::works = true;
    Seamed::in_pass = Seamed::in_pass_alone = nullptr;
  }

  void make() { flag_ = std::make_unique<BiasedFlag<Seamed>>(); }
  void favour_this_thread() {
    make();
    ASSERT_TRUE(flag_->raise());
    flag_->lower();
  }
  bool raises_elsewhere() {
    bool raised = false;
    std::thread([&] { raised = flag_->raise(); }).join();
    return raised;
  }
  bool raises_and_lowers_elsewhere() {
    bool raised = false;
    std::thread([&] {
      raised = flag_->raise();
      if (raised) flag_->lower();
    }).join();
    return raised;
  }

  std::unique_ptr<BiasedFlag<Seamed>> flag_;
};

TEST_F(BiasedFlagTest, is_raised_once_at_a_time_by_one_thread) {
  make();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(flag_->raise());
    EXPECT_FALSE(flag_->raise());
    flag_->lower();
  }
}

TEST_F(BiasedFlagTest, is_raised_by_another_thread_when_it_is_lowered) {
  favour_this_thread();
  ASSERT_TRUE(flag_->raise());
  EXPECT_FALSE(raises_elsewhere());
  EXPECT_FALSE(flag_->raise());
  flag_->lower();
  EXPECT_TRUE(raises_elsewhere());  // the other thread ends with the flag raised
  EXPECT_FALSE(flag_->raise());
  EXPECT_FALSE(raises_elsewhere());
  flag_->lower();
  EXPECT_TRUE(flag_->raise());
  EXPECT_FALSE(raises_elsewhere());
  flag_->lower();
  EXPECT_TRUE(raises_and_lowers_elsewhere());
}

TEST_F(BiasedFlagTest, another_thread_comes_while_the_favoured_one_is_about_to_raise_it) {
  favour_this_thread();
  bool elsewhere = true;
  Seamed::in_pass_alone = [&] { elsewhere = raises_elsewhere(); };
  const bool here = flag_->raise();
  EXPECT_FALSE(elsewhere);
  EXPECT_TRUE(here);
  EXPECT_FALSE(raises_elsewhere());
  flag_->lower();
  EXPECT_TRUE(raises_and_lowers_elsewhere());
}

TEST_F(BiasedFlagTest, the_favoured_thread_raises_it_while_another_one_comes) {
  favour_this_thread();
  bool here = false;
  bool elsewhere = true;
  std::atomic<int> step{0};
  Seamed::in_pass = [&] {
    step = 1;
    while (step != 2) std::this_thread::yield();
  };
  std::thread other([&] { elsewhere = flag_->raise(); });
  while (step != 1) std::this_thread::yield();
  here = flag_->raise();
  step = 2;
  other.join();
  EXPECT_TRUE(here);
  EXPECT_FALSE(elsewhere);
  flag_->lower();
  EXPECT_TRUE(raises_and_lowers_elsewhere());
}

TEST_F(BiasedFlagTest, a_thread_that_comes_while_another_ones_fence_is_passed_passes_its_own) {
  favour_this_thread();
  ASSERT_TRUE(flag_->raise());
  bool third = true;
  Seamed::in_pass = [&] { third = raises_elsewhere(); };
  EXPECT_FALSE(raises_elsewhere());
  EXPECT_FALSE(third);
  flag_->lower();
  EXPECT_TRUE(raises_and_lowers_elsewhere());
}

TEST_F(BiasedFlagTest, favours_nobody_without_a_fence) {
  Seamed::exists = false;
  make();
  Seamed::works = false;  // every call of the fence fails
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(flag_->raise());
    EXPECT_FALSE(raises_elsewhere());
    flag_->lower();
    EXPECT_TRUE(raises_and_lowers_elsewhere());
  }
}

TEST_F(BiasedFlagTest, stays_down_while_the_fence_fails) {
  favour_this_thread();
  Seamed::works = false;
  EXPECT_TRUE(flag_->raise());
  EXPECT_FALSE(raises_elsewhere());
  flag_->lower();
  EXPECT_FALSE(flag_->raise());
  EXPECT_FALSE(raises_elsewhere());
  Seamed::works = true;
  EXPECT_TRUE(raises_and_lowers_elsewhere());
  EXPECT_TRUE(flag_->raise());
  flag_->lower();
}

TEST(BiasedFlag, lets_one_thread_in_at_a_time) {
  constexpr int kRounds = 2000;
  constexpr int kTurns = 200;
  for (int round = 0; round < kRounds; ++round) {
    BiasedFlag<> flag;
    long inside = 0;  // not atomic: only the thread that has raised the flag writes it
    std::atomic<long> raised{0};
    std::array<std::thread, 3> threads;
    for (std::thread& thread : threads) {
      thread = std::thread([&] {
        for (int turn = 0; turn < kTurns; ++turn) {
          if (!flag.raise()) continue;
          ++inside;
          raised.fetch_add(1, std::memory_order_relaxed);
          flag.lower();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(inside, raised.load());
    ASSERT_GT(inside, 0);
    ASSERT_TRUE(flag.raise());
  }
}

}  // namespace
}  // namespace mh
