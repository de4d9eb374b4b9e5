// SPDX-License-Identifier: BSD-3-Clause
#include "heap/conditions.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/child.hpp"

namespace mh::heap {
namespace {

Verdict with(bool Facts::*field, Mode mode, bool value = true) {
  Facts facts;
  facts.*field = value;
  return judge(mode, facts);
}

TEST(Conditions, an_ordinary_machine_is_good_when_asked_for) {
  EXPECT_EQ(judge(Mode::on, {}), Verdict::good);
  EXPECT_EQ(judge(Mode::automatic, {}), Verdict::good);
  EXPECT_EQ(judge(Mode::off, {}), Verdict::switched_off);
}

TEST(Conditions, automatic_is_the_default_and_unknown_words_are_off) {
  EXPECT_EQ(mode_of(nullptr), Mode::automatic);
  EXPECT_EQ(mode_of(""), Mode::automatic);
  EXPECT_EQ(mode_of("off"), Mode::off);
  EXPECT_EQ(mode_of("ON"), Mode::off);
  EXPECT_EQ(mode_of("auto"), Mode::automatic);
  EXPECT_EQ(mode_of("on"), Mode::on);
}

TEST(Conditions, what_would_break_a_program_is_off_even_if_asked_for) {
  for (const Mode mode : {Mode::automatic, Mode::on}) {
    EXPECT_EQ(with(&Facts::c_library_next, mode, false), Verdict::other_allocator);
    EXPECT_EQ(with(&Facts::checker, mode), Verdict::checker);
    EXPECT_EQ(with(&Facts::address_limit, mode), Verdict::address_limit);
    EXPECT_EQ(with(&Facts::data_limit, mode), Verdict::data_limit);
    EXPECT_EQ(with(&Facts::file_limit, mode), Verdict::file_limit);
  }
}

TEST(Conditions, what_would_cost_is_off_unless_asked_for) {
  EXPECT_EQ(with(&Facts::strict_memory, Mode::automatic), Verdict::strict_memory);
  EXPECT_EQ(with(&Facts::memory_short, Mode::automatic), Verdict::memory_short);
  EXPECT_EQ(with(&Facts::private_huge, Mode::automatic), Verdict::good_up_to_4_mb);
  EXPECT_EQ(with(&Facts::strict_memory, Mode::on), Verdict::good);
  EXPECT_EQ(with(&Facts::memory_short, Mode::on), Verdict::good);
  EXPECT_EQ(with(&Facts::private_huge, Mode::on), Verdict::good);
}

TEST(Conditions, huge_pages_are_not_lost_where_shared_memory_has_them) {
  Facts facts;
  facts.private_huge = true;
  EXPECT_TRUE(huge_pages_lost(facts));
  facts.shared_huge = true;
  EXPECT_FALSE(huge_pages_lost(facts));
  EXPECT_EQ(judge(Mode::automatic, facts), Verdict::good);
}

TEST(Conditions, two_verdicts_are_good) {
  int good = 0;
  for (int i = 0; i <= static_cast<int>(Verdict::no_file); ++i) {
    good += is_good(static_cast<Verdict>(i)) ? 1 : 0;
  }
  EXPECT_EQ(good, 2);
}

TEST(Conditions, each_verdict_has_a_text_of_its_own) {
  std::string all;
  for (int i = 0; i <= static_cast<int>(Verdict::no_file); ++i) {
    const std::string text = explain(static_cast<Verdict>(i));
    EXPECT_GT(text.size(), 20U) << i;
    EXPECT_EQ(all.find(text), std::string::npos) << text;
    all += text + "\n";
  }
}

TEST(Conditions, memory_is_that_of_the_machine_or_less) {
  const Memory found = memory();
  EXPECT_GT(found.total, 1U << 20U);
  EXPECT_LE(found.available, found.total);
  EXPECT_NE(found.total, UINT64_MAX);
}

TEST(Conditions, the_limit_of_a_parent_group_counts) {
  std::string folder = ::testing::TempDir() + "mh-groups-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto make = [&](const std::string& group, const char* limit, const char* used) {
    std::filesystem::create_directories(folder + group);
    std::ofstream(folder + group + "/memory.max") << limit << "\n";
    std::ofstream(folder + group + "/memory.current") << used << "\n";
  };
  const auto found = [&] {
    char group[] = "/job/step/task";
    return tightest_group(folder.c_str(), group, true);
  };
  make("/job/step/task", "max", "100");
  EXPECT_EQ(found().limit, UINT64_MAX) << "no group has a limit";
  make("/job", "4000", "1000");
  EXPECT_EQ(found().limit, 4000U);
  EXPECT_EQ(found().left(), 3000U);
  make("/job/step", "9000", "8000");
  EXPECT_EQ(found().left(), 1000U);
  make("", "500", "700");
  EXPECT_EQ(found().limit, 500U) << "a container's own group is the root";
  EXPECT_EQ(found().left(), 0U);
  std::filesystem::remove_all(folder);
}

TEST(Conditions, limits_of_this_process_are_seen) {
  struct Limit {
    __rlimit_resource resource;
    bool Facts::*field;
  };
  for (const Limit& limit :
       {Limit{RLIMIT_AS, &Facts::address_limit}, Limit{RLIMIT_DATA, &Facts::data_limit},
        Limit{RLIMIT_FSIZE, &Facts::file_limit}}) {
    test::Child child([&] {
      const rlimit value{1ULL << 45U, RLIM_INFINITY};
      const bool before = gather().*limit.field;
      return !before && ::setrlimit(limit.resource, &value) == 0 && gather().*limit.field ? 0 : 1;
    });
    EXPECT_EQ(child.wait(), 0) << limit.resource;
  }
}

}  // namespace
}  // namespace mh::heap
