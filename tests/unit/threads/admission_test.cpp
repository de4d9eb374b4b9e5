// SPDX-License-Identifier: BSD-3-Clause
#include "threads/admission.hpp"

#include <gtest/gtest.h>

namespace mh::threads {
namespace {

constexpr std::uint64_t kPatience = 100;

Admission admission(std::uint32_t room) {
  Admission made;
  made.set(room, kPatience);
  return made;
}

int ended_at(Admission& from, std::uint64_t now) {
  int count = 0;
  for (; from.may_end(now) && count < 1000; ++count) from.ended(now);
  return count;
}

TEST(Admission, as_many_waits_end_as_there_is_room_for) {
  Admission one = admission(1);
  EXPECT_EQ(ended_at(one, 1000), 1);
  Admission three = admission(3);
  EXPECT_EQ(ended_at(three, 1000), 3);
  Admission none = admission(0);
  EXPECT_EQ(ended_at(none, 1000), 1) << "there is always room for one";
}

TEST(Admission, who_comes_back_makes_room) {
  Admission one = admission(1);
  ASSERT_EQ(ended_at(one, 1000), 1);
  EXPECT_FALSE(one.has_room());
  one.came(1);
  EXPECT_TRUE(one.has_room());
  EXPECT_EQ(ended_at(one, 1001), 1);
  one.came(7);  // more than went: others have come for the first time
  EXPECT_EQ(ended_at(one, 1002), 1);
}

TEST(Admission, one_more_ends_for_each_patience_that_nobody_came_back) {
  Admission one = admission(1);
  ASSERT_EQ(ended_at(one, 1000), 1);
  EXPECT_EQ(ended_at(one, 1000 + kPatience - 1), 0);
  EXPECT_EQ(ended_at(one, 1000 + kPatience), 1);
  EXPECT_EQ(ended_at(one, 1000 + kPatience + 1), 0);
  EXPECT_EQ(ended_at(one, 1000 + 4 * kPatience), 3) << "a server that seldom runs";
}

TEST(Admission, a_server_that_slept_for_long_lets_a_bounded_number_end) {
  Admission one = admission(1);
  ASSERT_EQ(ended_at(one, 1000), 1);
  const int many = ended_at(one, 1'000'000'000);
  EXPECT_GE(many, 10);
  EXPECT_LE(many, 100);
}

}  // namespace
}  // namespace mh::threads
