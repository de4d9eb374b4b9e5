// SPDX-License-Identifier: BSD-3-Clause
#include "observe/call_profile.hpp"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

namespace mh::observe {
namespace {

constexpr std::array<const char*, 2> kNames = {"MPI_Send", "MPI_Barrier"};

TEST(SizeClass, holds_sizes_up_to_its_bound) {
  EXPECT_EQ(size_class(0), 0U);
  EXPECT_EQ(size_class(256), 0U);
  EXPECT_EQ(size_class(257), 1U);
  EXPECT_EQ(size_class(8U << 20U), kSizeClasses - 2);
  EXPECT_EQ(size_class((8U << 20U) + 1), kSizeClasses - 1);
  EXPECT_EQ(size_class(~std::uint64_t{0}), kSizeClasses - 1);
}

TEST(ProfileRows, have_the_sums_of_all_threads_and_no_call_that_was_not_made) {
  ThreadProfile one(kNames.size(), 2);
  ThreadProfile other(kNames.size(), 2);
  one.sums(0, {.bytes = 100, .contiguous = true}) = {
      .calls = 2, .bytes = 200, .ticks = 3'000, .transfer_ticks = 1'000};
  other.sums(0, {.bytes = 200, .contiguous = true}) = {
      .calls = 1, .bytes = 200, .ticks = 1'000, .transfer_ticks = 9'000};
  other.sums(0, {.bytes = 200, .contiguous = false}) = {
      .calls = 5, .bytes = 1'000, .ticks = 500, .transfer_ticks = 0};
  const std::array<const ThreadProfile*, 2> threads = {&one, &other};
  const auto rows = profile_rows(threads, kNames, 7, 1'000);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_STREQ(rows[0].call, "MPI_Send");
  EXPECT_EQ(rows[0].world_rank, 7U);
  EXPECT_EQ(rows[0].calls, 3U);
  EXPECT_EQ(rows[0].bytes, 400U);
  EXPECT_DOUBLE_EQ(rows[0].seconds, 4);
  EXPECT_DOUBLE_EQ(rows[0].transfer_s, 2);  // at most the time of each thread's calls
  EXPECT_EQ(rows[1].noncontiguous, 1U);
  EXPECT_EQ(rows[1].calls, 5U);
}

TEST(RenderProfile, divides_the_time_of_each_rank) {
  ThreadProfile thread(kNames.size(), 2);
  thread.sums(0, {.bytes = 9U << 20U, .contiguous = false}) = {
      .calls = 1, .bytes = 9U << 20U, .ticks = 4'000, .transfer_ticks = 3'000};
  thread.sums(1, {}) = {.calls = 1, .bytes = 0, .ticks = 1'000, .transfer_ticks = 0};
  const std::array<const ThreadProfile*, 1> threads = {&thread};
  const auto rows = profile_rows(threads, kNames, 0, 1'000);
  const std::array<ProfiledRank, 2> ranks = {
      ProfiledRank{.world_rank = 0, .node = 0, .init_s = 0.5, .elapsed_s = 10},
      ProfiledRank{.world_rank = 1, .node = 0, .init_s = 0.5, .elapsed_s = 11}};
  const std::array<LateRank, 1> late = {LateRank{.late = 1, .waiter = 0, .seconds = 2}};
  const auto json = nlohmann::json::parse(render_profile(ranks, rows, late, R"({"x": 1})"));
  EXPECT_EQ(json["format"], "manyhands-profile-1");
  EXPECT_DOUBLE_EQ(json["ranks"][0]["mpi_s"], 5);
  EXPECT_DOUBLE_EQ(json["ranks"][0]["transfer_s"], 3);
  EXPECT_DOUBLE_EQ(json["ranks"][0]["waiting_s"], 2);
  EXPECT_DOUBLE_EQ(json["ranks"][1]["mpi_s"], 0);
  EXPECT_EQ(json["calls"][0]["call"], "MPI_Send");
  EXPECT_TRUE(json["calls"][0]["bytes_at_most"].is_null());
  EXPECT_EQ(json["calls"][0]["contiguous"], false);
  EXPECT_EQ(json["calls"][1]["bytes_at_most"], 256);
  EXPECT_EQ(json["late"][0]["rank"], 1);
  EXPECT_EQ(json["summary"]["x"], 1);
}

TEST(RenderProfile, has_no_summary_if_there_is_none) {
  EXPECT_TRUE(nlohmann::json::parse(render_profile({}, {}, {}, ""))["summary"].is_null());
}

}  // namespace
}  // namespace mh::observe
