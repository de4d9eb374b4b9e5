// SPDX-License-Identifier: BSD-3-Clause
// Schedulers that share the cores of the machine with other processes (share_cores()). Only as many
// workers as the process has cores run, and they run the tasks of all workers.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "manyhands/ult.hpp"
#include "support/sanitizer.hpp"

namespace mh::ult {
namespace {

class UltShare : public testing::Test {
 protected:
  void SetUp() override {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core cannot be shared";
    detail::share_cores(1);
  }
  void TearDown() override { detail::share_cores(~0U); }
};

Scheduler started(unsigned workers, bool steal = true) {
  Result<Scheduler> scheduler =
      Scheduler::start({.workers = workers, .tasks_per_worker = 512, .steal = steal});
  EXPECT_TRUE(scheduler.ok());
  return std::move(*scheduler);
}

// A task of one worker waits for a signal, and this worker rests (sleeps). A task that runs on the
// other worker then sends the signal. Returns true if the sender's worker ran the signalled task.
bool signaller_runs_it(Scheduler& scheduler) {
  std::atomic<bool> go{false};
  std::atomic<bool> waits{false};
  std::uint64_t slept = 0;
  bool ran_here = false;
  EXPECT_TRUE(scheduler.run([&] {
    // The running task does not yield before the join, so it stays on this worker.
    const unsigned here = this_worker();
    Result<Task> task = spawn_on(1 - here, [&] {
      slept = scheduler.counters(1 - here).slept;
      waits = true;
      while (!go) wait();
      ran_here = this_worker() == here;
    });
    while (!waits) std::this_thread::yield();
    while (scheduler.counters(1 - here).slept == slept) std::this_thread::yield();
    go = true;
    task->ref().signal();
    EXPECT_TRUE(task->join().ok());
  }));
  return ran_here;
}

TEST_F(UltShare, a_worker_runs_the_signalled_tasks_of_a_resting_one) {
  Scheduler scheduler = started(2);
  bool seen = false;
  // The resting worker sometimes wakes and runs the task before the signaller's worker does.
  for (int round = 0; round < 200 && !seen; ++round) seen = signaller_runs_it(scheduler);
  EXPECT_TRUE(seen);
}

TEST_F(UltShare, without_stealing_a_task_stays_where_it_is_put) {
  Scheduler scheduler = started(2, false);
  for (int round = 0; round < 20; ++round) EXPECT_FALSE(signaller_runs_it(scheduler));
}

TEST_F(UltShare, no_signal_between_tasks_of_many_workers_is_lost) {
  constexpr int kPairs = 20;
  const int rounds = test::kSanitized ? 50 : 1000;
  Scheduler scheduler = started(4);
  struct Player {
    std::atomic<int> balls{0};
    std::atomic<TaskRef> task{};
  };
  std::vector<Player> players(std::size_t{2} * kPairs);
  EXPECT_TRUE(scheduler.run([&] {
    const auto play = [&](std::size_t me) {
      players[me].task = self();
      Player& other = players[me ^ 1U];
      for (int round = 0; round < rounds; ++round) {
        if (me % 2 == 1) {
          while (players[me].balls == 0) wait();
          --players[me].balls;
        }
        ++other.balls;
        if (TaskRef task = other.task) task.signal();
        if (me % 2 == 0) {
          while (players[me].balls == 0) wait();
          --players[me].balls;
        }
      }
    };
    std::vector<Task> tasks;
    for (std::size_t me = 0; me < players.size(); ++me) {
      tasks.push_back(
          std::move(*spawn_on(static_cast<unsigned>(me % 4), [&play, me] { play(me); })));
    }
    for (Task& task : tasks) {
      EXPECT_TRUE(task.join().ok());
    }
  }));
}

// A worker whose task keeps the core does not keep the tasks of other workers from running.
TEST_F(UltShare, a_task_that_never_waits_holds_nobody_up) {
  Scheduler scheduler = started(3);
  EXPECT_TRUE(scheduler.run([] {
    std::atomic<int> ran{0};
    std::vector<Task> tasks;
    for (int i = 0; i < 10; ++i) tasks.push_back(std::move(*spawn([&ran] { ++ran; })));
    while (ran < 10) std::this_thread::yield();
    for (Task& task : tasks) {
      EXPECT_TRUE(task.join().ok());
    }
  }));
}

}  // namespace
}  // namespace mh::ult
