// SPDX-License-Identifier: BSD-3-Clause
#include "observe/summary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

namespace mh::observe {
namespace {

RankReport rank(std::uint32_t world_rank, double elapsed_s, double wait_s, double help_s = 0,
                double own_copy_s = 0) {
  RankReport report{};
  report.world_rank = world_rank;
  report.helping = 1;
  report.elapsed_s = elapsed_s;
  report.wait_s = wait_s;
  report.help_s = help_s;
  report.own_copy_s = own_copy_s;
  return report;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Pop, efficiencies_of_a_run_worked_out_by_hand) {
  // Four ranks run for 10 s each and wait for 2, 6, 4 and 8 s. Their useful times are thus 8, 4, 6
  // and 2 s: the mean is 5 s, the longest 8 s.
  const std::vector<RankReport> ranks = {rank(0, 10, 2), rank(1, 10, 6), rank(2, 10, 4),
                                         rank(3, 10, 8)};
  const Totals sum = sum_over_ranks(ranks);
  EXPECT_DOUBLE_EQ(sum.without_help.parallel, 0.5);
  EXPECT_DOUBLE_EQ(sum.without_help.load_balance, 0.625);
  EXPECT_DOUBLE_EQ(sum.without_help.communication, 0.8);
  EXPECT_DOUBLE_EQ(sum.useful_s, 20);
  EXPECT_DOUBLE_EQ(sum.wait_s, 20);
}

TEST(Pop, helping_is_a_third_class_neither_useful_nor_waiting) {
  // Two ranks run for 10 s. Rank 0 waits for 2 s, rank 1 for 6 s, of which it helps for 3 s. The
  // useful times are 8 and 4 s; with the help they are 8 and 7 s.
  const std::vector<RankReport> ranks = {rank(0, 10, 2, 0, 1), rank(1, 10, 6, 3)};
  const Totals sum = sum_over_ranks(ranks);
  EXPECT_DOUBLE_EQ(sum.without_help.parallel, 0.6) << "helping does not count here";
  EXPECT_DOUBLE_EQ(sum.with_help.parallel, 0.75);
  EXPECT_DOUBLE_EQ(sum.with_help.load_balance, 7.5 / 8);
  EXPECT_DOUBLE_EQ(sum.wait_s, 1 + 3) << "what stayed waiting: neither helping nor own copies";
  EXPECT_DOUBLE_EQ(sum.useful_s + sum.wait_s + sum.help_s + sum.own_copy_s, 20)
      << "each second once";
}

TEST(Pop, parallel_efficiency_is_the_product_of_the_other_two) {
  const std::vector<RankReport> ranks = {rank(0, 9, 1, 0.5), rank(1, 10, 6.5, 3), rank(2, 8, 0.1)};
  const Totals sum = sum_over_ranks(ranks);
  for (const Efficiency& e : {sum.without_help, sum.with_help}) {
    EXPECT_NEAR(e.parallel, e.load_balance * e.communication, 1e-12);
    EXPECT_LE(e.parallel, 1);
  }
  EXPECT_GE(sum.with_help.parallel, sum.without_help.parallel);
}

TEST(Pop, a_run_of_no_time_divides_by_nothing) {
  for (const auto& ranks : {std::vector<RankReport>{}, {rank(0, 0, 0)}, {rank(0, 1, 5)}}) {
    const Totals sum = sum_over_ranks(ranks);
    EXPECT_EQ(sum.without_help.parallel, 1);
    EXPECT_EQ(render_summary(ranks, {}, "").find("nan"), std::string::npos);
    EXPECT_EQ(render_summary(ranks, {}, "").find("inf"), std::string::npos);
  }
}

TEST(Summary, counters_become_a_report) {
  RankCounters counters;
  counters.start_tick.set(1000);
  counters.wait_ticks.add(2000);
  counters.help_ticks.add(500);
  counters.own_chunks_received.add(3);
  counters.own_chunks_sent.add(4);
  counters.own_bytes_received.add(30);
  counters.own_bytes_sent.add(40);
  counters.messages_without_slot.add(2);
  const RankReport report = read_counters(counters, 11'000, 1000);
  EXPECT_DOUBLE_EQ(report.elapsed_s, 10);
  EXPECT_DOUBLE_EQ(report.wait_s, 2);
  EXPECT_DOUBLE_EQ(report.help_s, 0.5);
  EXPECT_EQ(report.own_chunks, 7U);
  EXPECT_EQ(report.own_bytes, 70U);
  EXPECT_EQ(report.messages_without_slot, 2U);
}

TEST(Summary, a_rank_that_never_started_has_no_time) {
  EXPECT_EQ(read_counters(RankCounters{}, 11'000, 1000).elapsed_s, 0);
}

TEST(Summary, names_the_helpers_that_did_most) {
  std::vector<RankReport> ranks = {rank(0, 10, 2), rank(1, 10, 6, 2.5), rank(2, 10, 4)};
  ranks[1].others_bytes = 3'500'000;
  ranks[1].others_chunks = 14;
  ranks[0].own_bytes = 6'500'000;
  ranks[0].own_chunks = 26;
  const std::vector<HelpedBytes> helped = {{1, 0, 500'000}, {1, 2, 3'000'000}, {0, 1, 0}};
  const std::string text = render_summary(ranks, helped, "");
  EXPECT_NE(text.find("2.500 s of waiting turned into work for others"), std::string::npos) << text;
  EXPECT_NE(text.find("by others      3.5 MB in 14 chunks (35 %)"), std::string::npos) << text;
  const std::size_t most = text.find("rank 1 copied 3 MB for rank 2");
  const std::size_t less = text.find("rank 1 copied 500 KB for rank 0");
  ASSERT_NE(most, std::string::npos) << text;
  ASSERT_NE(less, std::string::npos) << text;
  EXPECT_LT(most, less);
  EXPECT_EQ(text.find("rank 0 copied"), std::string::npos) << "who did nothing is not named";
}

TEST(Summary, a_shared_heap_is_named_where_there_is_one) {
  std::vector<RankReport> ranks = {rank(0, 1, 0), rank(1, 1, 0)};
  EXPECT_EQ(render_summary(ranks, {}, "").find("shared heap"), std::string::npos);
  ranks[0].heap_peak = 30'000'000;
  ranks[1].heap_peak = 12'000'000;
  ranks[1].heap_kept = 2'000'000;
  ranks[0].bytes_outside_heap = 5'000'000;
  const std::string text = render_summary(ranks, {}, "");
  EXPECT_NE(text.find("shared heap    42 MB at most, 2 MB kept"), std::string::npos) << text;
  EXPECT_NE(text.find("5 MB of messages outside"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(render_json(ranks, {}, ""));
  EXPECT_EQ(json["total"]["heap_peak_bytes"], 42'000'000);
  EXPECT_EQ(json["ranks"][1]["heap_kept_bytes"], 2'000'000);
}

TEST(Summary, a_run_that_helped_nobody_says_why) {
  std::vector<RankReport> ranks = {rank(0, 1, 0), rank(1, 1, 0), rank(2, 1, 0)};
  const auto why = [&](const std::string& why_not = "") {
    return render_summary(ranks, {}, why_not);
  };
  EXPECT_NE(why().find("nobody: no message between ranks of a node reached MH_THRESHOLD"),
            std::string::npos);
  ranks[0].messages_exchanged = 2;
  EXPECT_NE(why().find("nobody: busy ranks exchanged all large messages"), std::string::npos);
  ranks[0].messages_exchanged = 0;
  ranks[0].messages_ended = 1;
  EXPECT_NE(why().find("nobody: rendezvous ended on the node (docs/how-it-works.md says why)\n"),
            std::string::npos);
  EXPECT_NE(why().find("1 (rendezvous has ended on the node)"), std::string::npos);
  ranks[0].messages_ended = 0;
  EXPECT_NE(why("process_vm_readv is refused").find("nobody: process_vm_readv is refused"),
            std::string::npos);
  ranks[0].messages_without_slot = 1;
  EXPECT_NE(why().find("nobody: large messages went by the MPI library: the send table was full"),
            std::string::npos);
  EXPECT_NE(why().find("1 (send table full)"), std::string::npos);
  ranks[0].messages_by_rendezvous = 3;
  EXPECT_NE(why().find("nobody: no third rank was waiting"), std::string::npos);
  ranks.pop_back();
  EXPECT_NE(why().find("nobody: no node has a third rank"), std::string::npos);
  ranks[1].node = 1;
  EXPECT_NE(why().find("nobody: no two ranks are on one node"), std::string::npos);
}

TEST(Summary, cores_lent_to_loops_are_help_and_regions_left_out_are_named) {
  RankReport owner{};
  owner.loops.regions_shared = 2;
  owner.loops.regions_excluded[3] = 1;
  owner.loops.exposures = 10;
  owner.loops.units_by_others = 7;
  RankReport lender{};
  lender.world_rank = 1;
  lender.wait_s = 1;
  lender.lent_s = 0.5;
  lender.loops.units_lent = 7;
  const std::vector<RankReport> ranks{owner, lender};
  const std::string text = render_summary(ranks, {}, "");
  EXPECT_NE(text.find("2 shared, open to helpers 10 times, 7 units done by helpers"),
            std::string::npos);
  EXPECT_NE(text.find("not shared     1 (a barrier)"), std::string::npos);
  EXPECT_NE(text.find("helped         0.500 s"), std::string::npos);
  EXPECT_EQ(text.find("nobody"), std::string::npos);
}

constexpr std::uint32_t kStatic = 0;
constexpr std::uint32_t kBarrier = 3;
constexpr std::uint32_t kListed = kObstacles - 1;

UnsharedRegion region(std::uint32_t rank, std::uint32_t obstacle, const std::string& name,
                      double part, const std::string& at = "app+0x10",
                      const std::string& source = "") {
  UnsharedRegion row{};
  row.world_rank = rank;
  row.obstacle = obstacle;
  row.part = part;
  row.seconds = 10 * part;
  name.copy(row.name, sizeof row.name - 1);
  at.copy(row.at, sizeof row.at - 1);
  source.copy(row.source, sizeof row.source - 1);
  return row;
}

std::string told(const std::vector<UnsharedRegion>& left_out,
                 const std::vector<std::string>& names = {}, std::uint64_t used = 0) {
  std::vector<RankReport> ranks = {rank(0, 10, 2), rank(1, 10, 6)};
  ranks[0].loops.regions_excluded[0] = left_out.size();
  ranks[0].loops.sharing = 1;
  ranks[1].loops.names_used = used;
  return render_summary(ranks, {}, "", {.left_out = left_out, .names = names});
}

TEST(Hot, a_region_is_told_with_the_rank_that_spends_most_of_its_run_there) {
  const std::string text =
      told({region(0, kStatic, "solver::step", 0.1), region(1, kStatic, "solver::step", 0.4)});
  EXPECT_NE(text.find("  rank 1 40 %  solver::step: static or no loop"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 0 10 %"), std::string::npos) << "one region, one line";
  EXPECT_NE(text.find("to share them  static: write schedule(runtime)"), std::string::npos) << text;
}

TEST(Hot, what_takes_little_time_or_was_listed_is_not_told) {
  const std::string text =
      told({region(0, kStatic, "small", 0.04), region(0, kListed, "listed", 0.9, "app+0x20")});
  EXPECT_EQ(text.find("small"), std::string::npos) << text;
  EXPECT_EQ(text.find("listed:"), std::string::npos) << text;
  EXPECT_EQ(text.find("to share them"), std::string::npos) << text;
}

TEST(Hot, regions_of_one_function_are_told_apart) {
  const std::string text = told({region(0, kStatic, "main", 0.1, "app+0x10"),
                                 region(0, kBarrier, "main", 0.2, "app+0x20"),
                                 region(0, kBarrier, "f", 0.3, "app+0x30", "a.c:12")});
  const std::size_t first = text.find("f (a.c:12): a barrier");
  const std::size_t second = text.find("main (app+0x20): a barrier");
  const std::size_t third = text.find("main (app+0x10): static or no loop");
  ASSERT_NE(third, std::string::npos) << text;
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
}

TEST(Hot, names_that_no_region_of_any_rank_has_are_told) {
  const std::vector<std::string> names = {"main", "typo", "absent*"};
  const std::string text = told({}, names, 1);
  EXPECT_NE(text.find("no such region typo, absent* (MH_OPENMP_"), std::string::npos) << text;
  EXPECT_EQ(told({}, names, 7).find("no such region"), std::string::npos);
  const std::vector<RankReport> off = {rank(0, 10, 2)};
  EXPECT_EQ(render_summary(off, {}, "", {.left_out = {}, .names = names}).find("no such region"),
            std::string::npos)
      << "where no loop could be shared nothing is known";
}

TEST(Hot, lines_of_regions_fit_a_terminal) {
  for (std::uint32_t obstacle = 0; obstacle < kListed; ++obstacle) {
    const auto lines = lines_of(told({region(10, obstacle, "solver::step", 1)}));
    std::size_t met = 0;
    for (const std::string& line : lines) {
      const bool of_regions = line.find("rank 10") != std::string::npos || met > 0;
      if (of_regions && line.find("helped") == std::string::npos) {
        EXPECT_LE(line.size(), 80U) << line;
        ++met;
      }
    }
    EXPECT_GE(met, 2U) << "the region and what to change";
  }
}

TEST(Hot, json_has_them_all) {
  const std::vector<RankReport> ranks = {rank(0, 10, 2), rank(1, 10, 6)};
  const std::vector<UnsharedRegion> left_out = {region(0, kStatic, "main", 0.01),
                                                region(1, kStatic, "main", 0.02),
                                                region(1, kListed, "f", 0.5, "app+0x20", "a.c:3")};
  const auto json =
      nlohmann::json::parse(render_json(ranks, {}, "", {.left_out = left_out, .names = {}}));
  ASSERT_EQ(json["not_shared"].size(), 2U);
  EXPECT_EQ(json["not_shared"][0]["region"], "f");
  EXPECT_EQ(json["not_shared"][0]["reason"], "by_user");
  EXPECT_EQ(json["not_shared"][0]["source"], "a.c:3");
  EXPECT_EQ(json["not_shared"][1]["at"], "app+0x10");
  EXPECT_EQ(json["not_shared"][1]["rank"], 1);
  EXPECT_NEAR(json["not_shared"][1]["time_s"].get<double>(), 0.3, 1e-9) << "of both ranks";
}

TEST(Summary, tells_of_windows_where_there_were_any) {
  std::vector<RankReport> ranks = {rank(0, 10, 2), rank(1, 10, 6, 3)};
  EXPECT_EQ(render_summary(ranks, {}, "").find("one-sided"), std::string::npos);
  ranks[0].windows_ours = 2;
  ranks[1].windows_left = 1;
  ranks[0].one_sided_operations = ranks[1].one_sided_operations = 7;
  EXPECT_NE(render_summary(ranks, {}, "")
                .find("one-sided      14 operations on 2 windows; 1 left to the MPI library\n"),
            std::string::npos);
  EXPECT_NE(render_summary(ranks, {}, "").find("no one-sided operation was large"),
            std::string::npos);
  const auto json = nlohmann::json::parse(render_json(ranks, {}, ""));
  EXPECT_EQ(json["total"]["windows_ours"], 2);
  EXPECT_EQ(json["ranks"][1]["windows_left"], 1);
  EXPECT_EQ(json["total"]["one_sided_operations"], 14);
}

TEST(Summary, stays_within_20_lines_of_100_columns_whatever_the_numbers) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max() / 2000;
  std::vector<RankReport> ranks;
  std::vector<HelpedBytes> helped;
  std::vector<UnsharedRegion> left_out;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    RankReport report = rank(i, 1e9, 9e8, 3e8, 3e8);
    report.node = i;
    report.messages_by_rendezvous = report.bytes_by_rendezvous = report.resends = kHuge;
    report.messages_without_slot = report.messages_ended = kHuge;
    report.own_bytes = report.others_bytes = report.own_chunks = report.others_chunks = kHuge;
    report.waits = report.collectives_with_arrival_barrier = kHuge;
    report.windows_ours = report.windows_left = report.one_sided_operations = kHuge;
    helped.push_back({i, i + 1, kHuge});
    std::fill_n(report.loops.regions_excluded, kObstacles, kHuge);
    report.loops.sharing = 1;
    ranks.push_back(report);
    const std::string name(200, static_cast<char>('a' + i % 26));
    left_out.push_back(region(i, static_cast<std::uint32_t>(i % kObstacles), name, 0.9, name));
  }
  const std::vector<std::string> names(100, std::string(50, 'n'));
  const auto lines = lines_of(
      render_summary(ranks, helped, std::string(300, 'x'), {.left_out = left_out, .names = names}));
  EXPECT_LE(lines.size(), 20U);
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 100U) << line;
    EXPECT_EQ(line.rfind("manyhands: ", 0), 0U) << line;
  }
}

TEST(Summary, json_carries_the_same_facts) {
  std::vector<RankReport> ranks = {rank(0, 10, 2), rank(1, 10, 6, 3)};
  ranks[1].others_bytes = 42;
  const std::vector<HelpedBytes> helped = {{1, 0, 42}, {0, 1, 0}};
  const auto json = nlohmann::json::parse(render_json(ranks, helped, "a \"reason\""));
  EXPECT_EQ(json["format"], "manyhands-summary-1");
  EXPECT_EQ(json["not_helping_because"], "a \"reason\"");
  EXPECT_DOUBLE_EQ(json["total"]["efficiency"]["parallel"], 0.6);
  EXPECT_DOUBLE_EQ(json["total"]["efficiency_with_help"]["parallel"], 0.75);
  EXPECT_EQ(json["total"]["others_bytes"], 42);
  ASSERT_EQ(json["ranks"].size(), 2U);
  EXPECT_EQ(json["ranks"][1]["rank"], 1);
  EXPECT_DOUBLE_EQ(json["ranks"][1]["help_s"], 3);
  ASSERT_EQ(json["helped"].size(), 1U);
  EXPECT_EQ(json["helped"][0]["victim"], 0);
}

}  // namespace
}  // namespace mh::observe
