// SPDX-License-Identifier: BSD-3-Clause
// Tests balancers on ranks that are threads, lists of tasks as bytes, the choice between the
// balancers, and requests for tasks: one of many threads claims each request.
#include "tasks/rebalance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tasks/chooser.hpp"
#include "tasks/node_memory.hpp"
#include "tasks/thread_network.hpp"
#include "tasks/wire.hpp"

namespace mh::tasks {
namespace {

constexpr std::size_t kStride = 24;

std::uint32_t add_task(Arena& arena, std::uint64_t id) {
  std::array<std::byte, kStride> bytes{};
  std::memcpy(bytes.data(), &id, sizeof(id));
  std::memcpy(bytes.data() + 2 * sizeof(id), &id, sizeof(id));
  return arena.add(bytes.data());
}
std::uint64_t id_of(Arena& arena, std::uint32_t number) {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::memcpy(&first, arena.at(number).bytes, sizeof(first));
  std::memcpy(&last, arena.at(number).bytes + 2 * sizeof(first), sizeof(last));
  EXPECT_EQ(first, last);
  return first;
}

TEST(Wire, reports_arrive_as_they_were_sent) {
  Arena there(kStride);
  Report<std::uint32_t> report;
  report.load = 3.5;
  report.ranks = 2;
  report.loads.add(1.5, 2);
  report.loads.add(2, 2);
  for (const std::uint64_t id : {70U, 80U}) {
    report.given.push_back({add_task(there, id), Bin(static_cast<double>(id))});
  }
  WireWriter writer;
  writer.put_report(there, report);
  Arena here(kStride);
  add_task(here, 1);
  const auto got = WireReader(writer.wire()).get_report(here);
  EXPECT_EQ(got.load, 3.5);
  EXPECT_EQ(got.ranks, 2U);
  EXPECT_EQ(got.loads.least(2), report.loads.least(2));
  ASSERT_EQ(got.given.size(), 2U);
  EXPECT_EQ(id_of(here, got.given[1].task), 80U);
  EXPECT_NEAR(got.given[1].bin.seconds(), 80, 0.4);
}

struct Outcome {
  std::vector<double> loads;
  std::vector<std::uint64_t> ids;
  std::uint64_t given = 0;
};
// Runs a balancer on ranks that are threads. Rank r begins with `counts[r]` tasks of 1 to 7 seconds
// each.
Outcome balanced(Scheme scheme, const std::vector<std::uint32_t>& counts) {
  const auto ranks = static_cast<std::uint32_t>(counts.size());
  ThreadJob job(ranks, 4, std::chrono::microseconds(20));
  Outcome outcome;
  outcome.loads.resize(ranks);
  std::mutex mutex;
  job.run([&](std::uint32_t rank) {
    Arena arena(kStride);
    ArenaTasks own;
    for (std::uint32_t i = 0; i < counts[rank]; ++i) {
      own.push_back({add_task(arena, 1000 * rank + i), Bin(1.0 + i % 7)});
    }
    const auto network = job.network(rank);
    const auto given = rebalance(*network, scheme, {}, arena, own);
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(given.ok());
    outcome.given += *given;
    for (const auto& timed : own) {
      outcome.loads[rank] += timed.bin.seconds();
      outcome.ids.push_back(id_of(arena, timed.task));
    }
  });
  EXPECT_EQ(job.unread(), 0U);
  return outcome;
}

class Schemes : public testing::TestWithParam<Scheme> {};
INSTANTIATE_TEST_SUITE_P(Rebalance, Schemes, testing::Values(Scheme::central, Scheme::tree),
                         [](const auto& scheme) {
                           return scheme.param == Scheme::central ? "central" : "tree";
                         });

TEST_P(Schemes, keep_every_task_and_even_out_the_loads) {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 10U, 13U}) {
    std::vector<std::uint32_t> counts(ranks);
    counts[ranks / 2] = 40 * ranks;
    counts[0] += 10;
    const Outcome outcome = balanced(GetParam(), counts);
    std::vector<std::uint64_t> wanted;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint32_t i = 0; i < counts[rank]; ++i) wanted.push_back(1000 * rank + i);
    }
    auto ids = outcome.ids;
    std::ranges::sort(ids);
    EXPECT_EQ(ids, wanted);
    double sum = 0;
    for (const double load : outcome.loads) sum += load;
    EXPECT_LT(std::ranges::max(outcome.loads), 1.06 * sum / ranks) << ranks << " ranks";
  }
}

TEST_P(Schemes, leave_alone_what_is_even) {
  EXPECT_EQ(balanced(GetParam(), {14, 14, 14, 14, 14}).given, 0U);
}

TEST_P(Schemes, have_nothing_to_do_without_tasks) {
  EXPECT_TRUE(balanced(GetParam(), {0, 0, 0}).ids.empty());
}

// Returns the times of an iteration with an average load of one second for each rank. `cost` is the
// time outside of tasks, in seconds.
IterationTimes iteration(double cost, double growth = 0, double imbalance = 0.1) {
  return {.average_task_s = 1,
          .process_s = 1 + cost,
          .average_load_s = 1,
          .longest_load_s = 1 + imbalance,
          .growth_s = growth,
          .ranks = 2'000};
}

TEST(Chooser, goes_by_the_costs_of_iterations) {
  Chooser chooser;
  EXPECT_EQ(chooser.after(Balancer::retain, iteration(0.2, -1)), Balancer::retain);
  EXPECT_EQ(chooser.after(Balancer::retain, iteration(0.2)), Balancer::plb_tree);
  EXPECT_EQ(chooser.after(Balancer::plb_tree, iteration(0.3)), Balancer::retain);
  EXPECT_EQ(chooser.after(Balancer::retain, iteration(0.9)), Balancer::plb_tree);
}

TEST(Chooser, leaves_even_loads_alone) {
  Chooser chooser;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(chooser.after(Balancer::retain, iteration(0.2, 0, 0.001)), Balancer::retain);
  }
}

TEST(Chooser, tries_no_balancer_where_durations_do_not_persist) {
  Chooser chooser;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(chooser.after(Balancer::retain, iteration(0.1, 0.3)), Balancer::retain);
  }
}

TEST(Chooser, tries_the_central_balancer_after_a_better_tree_in_small_jobs) {
  for (const std::uint32_t ranks : {8U, 100'000U}) {
    Chooser chooser;
    auto times = iteration(0.2);
    times.ranks = ranks;
    EXPECT_EQ(chooser.after(Balancer::retain, times), Balancer::plb_tree);
    times.process_s = 1.1;
    const Balancer wanted = ranks == 8 ? Balancer::plb_central : Balancer::plb_tree;
    EXPECT_EQ(chooser.after(Balancer::plb_tree, times), wanted);
  }
}

TEST(Chooser, tries_others_again_when_their_excess_is_small_beside_the_time_since) {
  for (const double excess : {0.01, 1.0}) {
    Chooser chooser;
    EXPECT_EQ(chooser.after(Balancer::retain, iteration(0.1)), Balancer::plb_tree);
    EXPECT_EQ(chooser.after(Balancer::plb_tree, iteration(0.1 + excess)), Balancer::retain);
    int iterations = 1;
    while (chooser.after(Balancer::retain, iteration(0.1)) == Balancer::retain) {
      ASSERT_LT(++iterations, 1000);
    }
    EXPECT_NEAR(iterations, excess < 0.1 ? 16 : 334, 2);
  }
}

TEST(Claims, one_of_many_answers_each_request_and_none_an_old_one) {
  const NodeShape shape{.rank = 0, .ranks = 6, .first = 0, .count = 2, .capacity = 4};
  const std::size_t bytes = NodeMemory::bytes(shape);
  struct Free {
    void operator()(void* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };
  const std::unique_ptr<void, Free> raw(::operator new (bytes, std::align_val_t{64}));
  NodeMemory memory(static_cast<std::byte*>(raw.get()), shape);
  constexpr std::uint32_t kRequests = 2'000;
  std::atomic<std::uint32_t> claimed{0};
  const auto claim_all = [&] {
    for (std::uint32_t number = 1; number <= kRequests; ++number) {
      if (memory.claim(4, number)) ++claimed;
    }
  };
  std::thread other(claim_all);
  claim_all();
  other.join();
  EXPECT_GT(claimed, 0U);
  EXPECT_LE(claimed, kRequests);
  EXPECT_FALSE(memory.claim(4, kRequests));
  EXPECT_FALSE(memory.claim(4, 3));
  EXPECT_TRUE(memory.claim(4, kRequests + 1));
  EXPECT_TRUE(memory.claim(5, 1));
}

}  // namespace
}  // namespace mh::tasks
