// SPDX-License-Identifier: BSD-3-Clause
#include "threads/admission.hpp"

#include <gtest/gtest.h>

namespace mh::threads {
namespace {

using NextWait = WaitAdmission::NextWait;
constexpr std::uint64_t kPatience = 100;
constexpr std::uint64_t kAlone = 40;

// Makes the WaitAdmission of a rank with `cores` cores, whose server got its core back at tick
// 1000.
WaitAdmission admission(std::uint32_t cores) {
  WaitAdmission made;
  made.set_limits({.cores = cores, .patience = kPatience, .alone = kAlone, .yield = 5});
  made.yielded(900, 1000);
  return made;
}

int ended_at(WaitAdmission& from, std::uint64_t now) {
  int count = 0;
  for (; from.next(now) != NextWait::none && count < 1000; ++count) from.ended(now);
  return count;
}
// Counts the waits that may end when the server polls again at the tick `now`, after another thread
// had its core.
int ended_later(WaitAdmission& from, std::uint64_t now) {
  from.yielded(now - 10, now);
  return ended_at(from, now);
}

TEST(WaitAdmission, as_many_waits_end_as_there_is_room_for) {
  WaitAdmission one = admission(1);
  EXPECT_EQ(ended_at(one, 1000), 1);
  EXPECT_FALSE(one.has_free_core());
  WaitAdmission three = admission(3);
  EXPECT_EQ(ended_at(three, 1000), 3);
}

TEST(WaitAdmission, who_comes_back_makes_room) {
  WaitAdmission one = admission(1);
  ASSERT_EQ(ended_at(one, 1000), 1);
  one.came(1, 1001);
  EXPECT_TRUE(one.has_free_core());
  EXPECT_EQ(ended_at(one, 1001), 1);
  one.came(7, 1002);  // more threads come back than were out
  EXPECT_EQ(ended_at(one, 1002), 1);
}

TEST(WaitAdmission, whoever_ended_without_room_is_out_until_it_comes_back) {
  WaitAdmission one = admission(1);
  EXPECT_FALSE(one.has_threads_out(1000));
  one.ended(1000);
  one.ended(1001);  // the server's own wait has ended
  one.came(1, 1002);
  EXPECT_TRUE(one.has_threads_out(1002));
  EXPECT_FALSE(one.has_free_core());
  one.came(1, 1003);
  EXPECT_FALSE(one.has_threads_out(1003));
}

TEST(WaitAdmission, whoever_never_comes_back_is_forgotten) {
  WaitAdmission one = admission(1);
  one.ended(1000);
  EXPECT_TRUE(one.has_threads_out(1000 + kPatience - 1));
  EXPECT_FALSE(one.has_threads_out(1000 + kPatience));
  one.yielded(1190, 1200);  // a running thread had the core
  EXPECT_TRUE(one.has_threads_out(1200 + kPatience - 1));
}

TEST(WaitAdmission, a_server_keeps_its_core_for_a_while_if_nobody_of_its_rank_wants_it) {
  WaitAdmission one = admission(1);
  one.came(1, 1000);
  EXPECT_FALSE(one.should_yield(1000 + kPatience - 1));
  EXPECT_TRUE(one.should_yield(1000 + kPatience));
  one.ended(1000 + kPatience);
  EXPECT_TRUE(one.should_yield(1000 + kPatience)) << "it may want the core";
  one.came(1, 2000);
  EXPECT_FALSE(one.should_yield(2001));
}

TEST(WaitAdmission, where_there_is_room_the_newest_message_goes_first) {
  WaitAdmission one = admission(1);
  EXPECT_EQ(one.next(1000), NextWait::newest);
  one.ended(1000);
  one.yielded(1050, 1100);
  EXPECT_EQ(one.next(1099 + 1), NextWait::oldest) << "after a while, who is ready for longest";
}

TEST(WaitAdmission, one_more_ends_for_each_patience_that_nobody_came_back) {
  WaitAdmission one = admission(1);
  ASSERT_EQ(ended_at(one, 1000), 1);
  EXPECT_EQ(ended_later(one, 1000 + kPatience - 1), 0);
  EXPECT_EQ(ended_later(one, 1000 + kPatience), 1);
  EXPECT_EQ(ended_later(one, 1000 + kPatience + 1), 0);
  EXPECT_EQ(ended_later(one, 1000 + 4 * kPatience), 3) << "a server that seldom runs";
}

TEST(WaitAdmission, a_server_that_slept_for_long_lets_a_bounded_number_end) {
  WaitAdmission one = admission(1);
  ASSERT_EQ(ended_at(one, 1000), 1);
  const int many = ended_later(one, 1'000'000'000);
  EXPECT_GE(many, 10);
  EXPECT_LE(many, 100);
}

TEST(WaitAdmission, one_more_ends_where_nobody_else_wants_the_core) {
  WaitAdmission one = admission(1);
  ASSERT_EQ(ended_at(one, 1000), 1);
  one.yielded(1010, 1012);  // the core came back at once
  EXPECT_EQ(one.next(1000 + kAlone - 1), NextWait::none);
  EXPECT_EQ(ended_at(one, 1000 + kAlone), 1);
  one.yielded(1050, 1060);  // another thread had the core
  EXPECT_EQ(one.next(1060 + kAlone - 1), NextWait::none);
  EXPECT_EQ(one.next(1060 + kAlone), NextWait::newest);
}

}  // namespace
}  // namespace mh::threads
