// SPDX-License-Identifier: BSD-3-Clause
// Tests the simulator of task collections: its input alone determines its results, and no task is
// lost.
#include "tasks/sim/simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "tasks/sim/beryllium.hpp"
#include "tasks/sim/iterations.hpp"

namespace mh::tasks::sim {
namespace {

struct Timed {
  std::uint64_t time;
  int order;
};

TEST(EventQueue, gives_events_in_the_order_of_time_and_then_of_coming) {
  EventQueue<Timed> queue;
  std::multimap<std::uint64_t, int> wanted;  // equal keys: in the order of insertion
  std::mt19937 random(1);
  std::uint64_t now = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (queue.empty() || random() % 3 != 0) {
      const std::uint64_t time = now + random() % (random() % 2 == 0 ? 4 : 100'000);
      queue.push({time, i});
      wanted.emplace(time, i);
    } else {
      const Timed event = queue.pop();
      ASSERT_EQ(event.time, wanted.begin()->first);
      ASSERT_EQ(event.order, wanted.begin()->second);
      wanted.erase(wanted.begin());
      now = event.time;
    }
  }
}

TEST(Workload, has_as_many_tasks_as_the_paper_and_the_given_work) {
  const auto problem = kProblems[0];
  const std::vector<float> durations = durations_of(problem, {});
  EXPECT_NEAR(static_cast<double>(durations.size()), problem.tasks, 0.05 * problem.tasks);
  const double sum = std::accumulate(durations.begin(), durations.end(), 0.0);
  EXPECT_NEAR(sum, problem.work_s, 1e-3 * problem.work_s);
}

TEST(Workload, null_tasks_are_those_that_are_missing_otherwise) {
  const Problem problem{"test", 64, 24, 6'000, 3'000};
  const std::vector<float> all = all_durations_of(problem, {});
  EXPECT_EQ(all.size(), std::size_t{24} * 24 * 24 * 24);
  std::vector<float> kept;
  std::ranges::copy_if(all, std::back_inserter(kept), [](float one) { return one > 0; });
  EXPECT_EQ(kept, durations_of(problem, {}));
}

// Table 1 of the paper (Lifflander et al., HPDC 2012) gives 470 K tasks; the test expects the exact
// number. Each index of the tensor C has 37 tiles, in four symmetry blocks of 12, 9, 5 and 11.
// Symmetry allows (37^4 + 5^4 + 3^4 + 9^4) / 4 of the tiles of C, each a task.
TEST(Workload, the_contraction_has_the_tasks_of_table_1) {
  const std::vector<float> durations = durations_of(kProblems[3], {});
  EXPECT_EQ(durations.size(), 470'357U);
  EXPECT_GT(*std::ranges::min_element(durations), 0);
}

// The bound of a pair of shells decides the duration of simulated Hartree-Fock tasks. The mirrored
// chain of shells has the same bounds, so the order of a pair must not matter.
TEST(Workload, bounds_of_shells_are_symmetric) {
  for (std::uint32_t a = 0; a < 40; ++a) {
    for (std::uint32_t b = 0; b < 40; ++b) EXPECT_EQ(shell_bound(a, b), shell_bound(b, a));
  }
  EXPECT_EQ(shell_bound(0, 3 * (kReach + 1)), kNoBound);
}

TEST(Workload, favoured_ranks_get_many) {
  const Seeds seeds = favoured({5, 1, 4, 2, 3}, 2, 2, 2);
  EXPECT_EQ(seeds[0], (std::vector<TaskId>{0, 2, 3, 1}));
  EXPECT_EQ(seeds[1], (std::vector<TaskId>{4}));
}

struct Setting {
  MachineModel machine;
  Rules rules;
};
Setting setting(std::uint32_t ranks, bool server, VictimChoice choice = VictimChoice::random) {
  Setting s;
  s.machine.server = server;
  s.machine.cores_per_node = 8;
  s.rules.places = {ranks, s.machine.cores_per_node, 4};
  s.rules.choice = choice;
  return s;
}

std::vector<TaskId> sorted(const Seeds& seeds) {
  std::vector<TaskId> all;
  for (const auto& own : seeds) all.insert(all.end(), own.begin(), own.end());
  std::ranges::sort(all);
  return all;
}

const std::vector<float>& durations() {
  static const std::vector<float> drawn = durations_of({"test", 64, 24, 6'000, 3'000}, {});
  return drawn;
}

TEST(Simulation, runs_every_task_once_whoever_serves_and_whomever_thieves_ask) {
  const auto count = static_cast<std::uint32_t>(durations().size());
  for (const bool server : {true, false}) {
    for (const auto choice :
         {VictimChoice::random, VictimChoice::hierarchical, VictimChoice::nearest}) {
      const Setting s = setting(100, server, choice);
      Simulation simulation(s.machine, s.rules, {durations()}, in_blocks(count, 100));
      const SimulatedRun outcome = simulation.run();
      EXPECT_EQ(outcome.run, count);
      EXPECT_EQ(sorted(simulation.take_executed()), sorted(in_blocks(count, 100)));
      EXPECT_GT(outcome.end_s, outcome.last_task_s);
      EXPECT_GT(outcome.efficiency(), 0.8);
      EXPECT_LE(outcome.efficiency(), 1);
    }
  }
}

TEST(Simulation, all_tasks_on_one_rank_spread) {
  const Setting s = setting(64, true);
  Seeds seeds(64);
  seeds[17].resize(durations().size());
  std::iota(seeds[17].begin(), seeds[17].end(), 0);
  Simulation simulation(s.machine, s.rules, {durations()}, seeds);
  EXPECT_GT(simulation.run().efficiency(), 0.9);
}

TEST(Simulation, repeats_exactly) {
  const Setting s = setting(50, true);
  const Seeds seeds = in_blocks(static_cast<std::uint32_t>(durations().size()), 50);
  Simulation one(s.machine, s.rules, {durations()}, seeds);
  Simulation two(s.machine, s.rules, {durations()}, seeds);
  const SimulatedRun first = one.run();
  const SimulatedRun second = two.run();
  EXPECT_EQ(first.events, second.events);
  EXPECT_EQ(first.end_s, second.end_s);
  EXPECT_EQ(one.take_executed(), two.take_executed());
}

TEST(Simulation, without_steals_it_takes_what_the_fullest_rank_has) {
  Setting s = setting(10, false);
  s.rules.steal = false;
  s.machine.take_ns = 0;
  Simulation simulation(s.machine, s.rules, {durations()},
                        Seeds{{0, 1, 2}, {}, {3}, {}, {}, {}, {}, {}, {}, {}});
  const SimulatedRun outcome = simulation.run();
  const double first = static_cast<double>(durations()[0]) + static_cast<double>(durations()[1]) +
                       static_cast<double>(durations()[2]);
  EXPECT_NEAR(outcome.last_task_s, std::max(first, static_cast<double>(durations()[3])), 1e-6);
  EXPECT_EQ(outcome.attempts.mean, 0);
}

// Retention must lead to fewer steals and a shorter time than the first iteration has.
TEST(SimulatedIterations, tasks_that_are_retained_need_few_steals) {
  const Setting s = setting(200, true);
  const auto count = static_cast<std::uint32_t>(durations().size());
  SimulatedIterations iterations(s.machine, s.rules, {}, Balancer::retain, in_blocks(count, 200));
  const SimulatedRun before = iterations.next({durations()});
  const SimulatedRun after = iterations.next({durations()});
  EXPECT_LT(after.successes.mean, before.successes.mean);
  EXPECT_LT(after.end_s, before.end_s);
}

// A long task keeps rank 0 busy. Its idle neighbour, rank 1, answers the thieves of the other node.
// Without rank 1, the other node would not get rank 0's other tasks.
TEST(Simulation, an_idle_rank_answers_for_a_busy_neighbour) {
  Setting s = setting(4, false);
  s.machine.cores_per_node = 2;
  s.rules.places = {4, 2, 2};
  const std::vector<float> seconds{0.1F, 0.1F, 0.1F, 0.1F, 1.0F};
  Simulation simulation(s.machine, s.rules, {seconds}, Seeds{{0, 1, 2, 3, 4}, {}, {}, {}});
  const SimulatedRun outcome = simulation.run();
  EXPECT_NEAR(outcome.last_task_s, 1.0, 0.01);
  const Seeds executed = simulation.take_executed();
  EXPECT_EQ(executed[0].size(), 1U);
  EXPECT_GT(executed[2].size() + executed[3].size(), 0U);
}

// A busy rank that is alone on its node answers thieves only between its tasks, unless it has a
// server thread.
TEST(Simulation, a_busy_rank_lets_thieves_wait_unless_it_has_a_server) {
  for (const bool server : {false, true}) {
    Setting s = setting(2, server);
    s.machine.cores_per_node = 1;
    s.rules.places = {2, 1, 1};
    const std::vector<float> seconds{0.5F, 1.0F};
    Simulation simulation(s.machine, s.rules, {seconds}, Seeds{{0, 1}, {}});
    EXPECT_NEAR(simulation.run().last_task_s, server ? 1.03 : 1.5, 0.02) << server;
  }
}

TEST(Simulation, tasks_add_tasks) {
  const Setting s = setting(4, false);
  const std::vector<float> seconds(7, 0.1F);
  const std::vector<TaskId> children{1, 3, 5, 7, 7, 7, 7, 7};
  Simulation simulation(s.machine, s.rules, {seconds, children}, Seeds{{0}, {}, {}, {}});
  const SimulatedRun outcome = simulation.run();
  EXPECT_EQ(outcome.run, 7U);
  EXPECT_NEAR(outcome.last_task_s, 0.3, 0.01);
  EXPECT_EQ(sorted(simulation.take_executed()), std::vector<TaskId>{0});
}

TEST(SimulatedIterations, tasks_that_prune_themselves_run_once) {
  const Setting s = setting(4, false);
  const std::vector<float> seconds{0.1F, -0.001F, 0.1F, -0.001F, 0.1F};
  SimulatedIterations iterations(s.machine, s.rules, {}, Balancer::retain, in_blocks(5, 4));
  EXPECT_EQ(iterations.next({seconds}).run, 5U);
  EXPECT_EQ(iterations.next({seconds}).run, 3U);
}

TEST(SimulatedIterations, a_seeded_iteration_steals_nothing_and_the_balancer_follows) {
  const Setting s = setting(50, false);
  const auto count = static_cast<std::uint32_t>(durations().size());
  SimulatedIterations iterations(s.machine, s.rules, {}, Balancer::plb_tree, in_blocks(count, 50));
  iterations.only_seeded();
  EXPECT_GT(iterations.next({durations()}).attempts.mean, 0);
  EXPECT_EQ(iterations.balanced().moved, 0U);
  const SimulatedRun seeded = iterations.next({durations()});
  EXPECT_EQ(seeded.attempts.mean, 0);
  EXPECT_GT(iterations.balanced().moved, 0U);
  EXPECT_GT(iterations.next({durations()}).efficiency(), seeded.efficiency());
}

TEST(SimulatedIterations, the_automatic_balancer_tries_both) {
  const Setting s = setting(500, false);
  const auto count = static_cast<std::uint32_t>(durations().size());
  SimulatedIterations iterations(s.machine, s.rules, {}, Balancer::automatic,
                                 in_blocks(count, 500));
  std::vector<Balancer> used;
  for (int i = 0; i < 4; ++i) {
    (void)iterations.next({durations()});
    used.push_back(iterations.used());
  }
  EXPECT_EQ(used[0], Balancer::retain);
  EXPECT_TRUE(std::ranges::count(used, Balancer::plb_tree) > 0);
}

TEST(Simulation, a_slow_node_gets_less) {
  Setting s = setting(16, true);
  s.machine.slow_node = 2;
  const auto count = static_cast<std::uint32_t>(durations().size());
  Simulation simulation(s.machine, s.rules, {durations()}, in_blocks(count, 16));
  EXPECT_GT(simulation.run().efficiency(), 0.9);
  const Seeds executed = simulation.take_executed();
  EXPECT_GT(executed[15].size(), executed[0].size());
}

}  // namespace
}  // namespace mh::tasks::sim
