// SPDX-License-Identifier: BSD-3-Clause
#include "wait/polling.hpp"

#include <gtest/gtest.h>

namespace mh::wait {
namespace {

using Verdict = PollingStretch::Verdict;

constexpr PollingStretch::Limits kLimits{
    .longest_period = 1000, .lasts = 200'000, .pause = 4'000'000, .slack = 10};
constexpr std::uint64_t kPollTicks = 20;

// A simulated program that polls every `period` ticks. The poll itself takes kPollTicks.
class Program {
 public:
  // Lets the program poll for `length` ticks. Returns how often PollingStretch found that it only
  // polls, and so had it help.
  int poll(std::uint64_t period, std::uint64_t length) {
    int helped = 0;
    for (const std::uint64_t end = now_ + length; now_ < end;) {
      now_ += period * PollingStretch::kPolls;
      Verdict verdict = stretch_.look(now_);
      if (verdict == Verdict::unknown) {
        ++measured;
        verdict = stretch_.is_pure(kPollTicks, now_) ? Verdict::only_polls : Verdict::works;
      }
      if (verdict == Verdict::only_polls) {
        ++helped;
        now_ += step;
        if (!finds_work) stretch_.rest(step, now_);
      }
      stretch_.leave(now_);
    }
    return helped;
  }
  void work(std::uint64_t length) { now_ += length; }
  int measured = 0;
  std::uint64_t step = 0;  // ticks that a step of help takes
  bool finds_work = false;

 private:
  PollingStretch stretch_{kLimits};
  std::uint64_t now_ = 1'000'000;
};

TEST(PollingStretch, counts_once_it_has_lasted) {
  Program program;
  EXPECT_EQ(program.poll(25, kLimits.lasts), 0);
  EXPECT_GT(program.poll(25, kLimits.lasts), 10);
  EXPECT_EQ(program.measured, 1);
}

TEST(PollingStretch, steps_that_find_nothing_take_a_64th_of_the_time) {
  Program program;
  program.poll(25, 2 * kLimits.lasts);
  program.step = 20'000;
  const std::uint64_t length = program.step * 64 * 100;
  EXPECT_NEAR(program.poll(25, length), 100, 2);
  program.finds_work = true;
  EXPECT_GT(program.poll(25, length), 2000);
}

TEST(PollingStretch, begins_anew_after_work) {
  Program program;
  program.poll(25, 2 * kLimits.lasts);
  program.work(PollingStretch::kPolls * kLimits.longest_period);
  EXPECT_EQ(program.poll(25, kLimits.lasts), 0);
  EXPECT_GT(program.poll(25, kLimits.lasts), 0);
}

TEST(PollingStretch, is_not_pure_where_a_poll_takes_half_of_its_period) {
  Program program;
  EXPECT_EQ(program.poll(2 * kPollTicks + kLimits.slack, 10 * kLimits.lasts), 0);
  EXPECT_EQ(program.measured, 1);
}

TEST(PollingStretch, is_measured_again_after_a_pause) {
  Program program;
  program.poll(100, kLimits.pause + 3 * kLimits.lasts);
  EXPECT_EQ(program.measured, 2);
}

TEST(PollingStretch, is_measured_anew_once_it_is_less_dense) {
  Program program;
  EXPECT_GT(program.poll(25, 2 * kLimits.lasts), 0);
  EXPECT_EQ(program.poll(100, kLimits.lasts), 0);
  EXPECT_EQ(program.poll(100, kLimits.lasts), 0);
  EXPECT_EQ(program.measured, 2);
}

TEST(PollingStretch, polls_far_apart_are_never_measured) {
  Program program;
  EXPECT_EQ(program.poll(2 * kLimits.longest_period, 100 * kLimits.lasts), 0);
  EXPECT_EQ(program.measured, 0);
}

}  // namespace
}  // namespace mh::wait
