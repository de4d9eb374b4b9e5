// SPDX-License-Identifier: BSD-3-Clause
// Two schedulers in one process: a task of one joins tasks of the other. Each task runs on the
// workers of its own scheduler only, before the join and after it.
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "manyhands/ult.hpp"
#include "support/sanitizer.hpp"

namespace mh::ult {
namespace {

Scheduler started(const char* name, unsigned workers, bool steal) {
  Result<Scheduler> scheduler =
      Scheduler::start({.workers = workers, .tasks_per_worker = 512, .steal = steal, .name = name});
  EXPECT_TRUE(scheduler.ok());
  return std::move(*scheduler);
}

// True: a worker of the scheduler `name` runs the caller.
bool runs_on(std::string_view name) {
  std::array<char, 16> thread{};
  ::pthread_getname_np(::pthread_self(), thread.data(), thread.size());
  return std::string_view(thread.data()).starts_with(std::string(name) + '-');
}

Task must(Result<Task> task) {
  EXPECT_TRUE(task.ok());
  return std::move(*task);
}

// The parameter: stealing is on. `few_` has one worker, and `many_` has workers with numbers that
// `few_` lacks.
class TwoSchedulers : public testing::TestWithParam<bool> {
 protected:
  Scheduler few_ = started("few", 1, GetParam());
  Scheduler many_ = started("many", 4, GetParam());
};

INSTANTIATE_TEST_SUITE_P(Ult, TwoSchedulers, testing::Bool(), [](const auto& steal) {
  return std::string(steal.param ? "stealing" : "no_stealing");
});

// A task on worker `at` of `home` joins a task of `other` that has begun. The joined task ends once
// its joiner has had the time to block.
void join_one_that_runs(Scheduler& home, const char* home_name, unsigned at, Scheduler& other,
                        const char* other_name) {
  std::atomic<bool> begun{false};
  std::atomic<bool> joins{false};
  Task joined = must(other.spawn([&] {
    begun = true;
    while (!joins) yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(runs_on(other_name));
  }));
  Task joiner = must(home.spawn_on(at, [&] {
    while (!begun) yield();
    joins = true;
    EXPECT_TRUE(joined.join().ok());
    EXPECT_TRUE(runs_on(home_name));
    yield();
    EXPECT_TRUE(runs_on(home_name));
  }));
  EXPECT_TRUE(joiner.join().ok());
}

TEST_P(TwoSchedulers, a_joiner_goes_on_at_home_after_the_end_of_a_running_task) {
  for (unsigned worker = 0; worker < many_.workers(); ++worker) {
    join_one_that_runs(many_, "many", worker, few_, "few");
    join_one_that_runs(few_, "few", 0, many_, "many");
  }
}

// A task on worker `at` of `home` joins a task of `other` that cannot begin before, because other
// tasks hold all workers of `other`.
void join_one_that_waits_for_a_worker(Scheduler& home, unsigned at, Scheduler& other,
                                      const char* other_name) {
  std::atomic<unsigned> held{0};
  std::atomic<bool> joins{false};
  std::vector<Task> holders;
  for (unsigned worker = 0; worker < other.workers(); ++worker) {
    holders.push_back(must(other.spawn_on(worker, [&] {
      ++held;
      while (!joins) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    })));
  }
  while (held < other.workers()) std::this_thread::yield();
  bool ran_at_home = false;
  Task joined = must(other.spawn([&] { ran_at_home = runs_on(other_name); }));
  Task joiner = must(home.spawn_on(at, [&] {
    joins = true;
    EXPECT_TRUE(joined.join().ok());
  }));
  EXPECT_TRUE(joiner.join().ok());
  EXPECT_TRUE(ran_at_home);
  for (Task& holder : holders) EXPECT_TRUE(holder.join().ok());
}

TEST_P(TwoSchedulers, a_task_that_has_not_begun_is_left_to_its_own_workers) {
  for (unsigned worker = 0; worker < many_.workers(); ++worker) {
    join_one_that_waits_for_a_worker(many_, worker, few_, "few");
    join_one_that_waits_for_a_worker(few_, 0, many_, "many");
  }
}

TEST_P(TwoSchedulers, get_the_results_of_each_other) {
  constexpr int kRounds = test::kSanitized ? 20 : 300;
  std::atomic<int> strays{0};
  const auto ask = [&](Scheduler& home, const char* home_name, Scheduler& other,
                       const char* other_name) {
    return home.spawn([&strays, &other, home_name, other_name] {
      for (int round = 0; round < kRounds; ++round) {
        auto answer = async_on(other, kNoWorker, [&strays, other_name, round] {
          if (round % 3 == 0) yield();
          if (!runs_on(other_name)) ++strays;
          return round;
        });
        ASSERT_TRUE(answer.ok());
        if (round % 2 == 0) yield();
        EXPECT_EQ(*answer->get(), round);
        if (!runs_on(home_name)) ++strays;
      }
    });
  };
  std::vector<Task> tasks;
  for (int task = 0; task < 8; ++task) {
    tasks.push_back(must(ask(few_, "few", many_, "many")));
    tasks.push_back(must(ask(many_, "many", few_, "few")));
  }
  for (Task& task : tasks) EXPECT_TRUE(task.join().ok());
  EXPECT_EQ(strays, 0);
}

}  // namespace
}  // namespace mh::ult
