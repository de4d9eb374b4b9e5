// SPDX-License-Identifier: BSD-3-Clause
#include "wait/wait.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/atomics.hpp"
#include "wait/polling.hpp"

namespace {
std::atomic<int> g_yields{0};
}

// Replaces sched_yield() of the C library, and counts its calls.
extern "C" int sched_yield() noexcept {
  ++g_yields;
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace mh::wait {
namespace {

// Actions for the wait loop that record its calls, and offer as much work as the test sets.
class Recorder : public WaitActions {
 public:
  void end() override {}
  void progress() override { ++progressed; }
  bool copy_own_chunk() override {
    if (within) within();
    return take(own_chunks, "own");
  }
  bool lend_to_partner() override { return take(loans, "lend"); }
  bool copy_own_chunk_nested() override { return take(own_chunks, "within"); }
  bool help() override {
    inside.fetch_add(1);
    EXPECT_EQ(inside.load(), 1) << "two threads help at once";
    const bool worked = take(help_chunks, "help");
    inside.fetch_sub(1);
    return worked;
  }
  void set_idle(bool now) override { now ? ++became_idle : ++became_active; }
  void set_waiting(std::uint64_t since) override {
    const std::lock_guard<std::mutex> hold(mutex);
    waits_told.push_back(since);
  }
  void count_wait(std::uint64_t ticks) override {
    ++accounted;
    waited += ticks;
  }
  void between_polls() override { ++passed; }
  bool is_guest() override { return guest; }
  bool is_overdue() override { return overdue; }
  void return_core() override { ++went_home; }

  std::function<void()> within;  // called by copy_own_chunk()
  std::mutex mutex;              // several threads wait in some tests
  std::vector<std::uint64_t> waits_told;
  std::atomic<int> own_chunks{0};
  std::atomic<int> loans{0};
  std::atomic<int> help_chunks{0};
  std::atomic<int> progressed{0};
  std::atomic<int> became_idle{0};
  std::atomic<int> became_active{0};
  std::atomic<int> accounted{0};
  std::atomic<std::uint64_t> waited{0};
  std::atomic<int> inside{0};
  std::atomic<int> passed{0};
  std::atomic<int> went_home{0};
  bool guest = false;
  bool overdue = false;
  std::vector<const char*> order;  // written by single-threaded tests only
  bool note = true;

 private:
  bool take(std::atomic<int>& chunks, const char* name) {
    if (chunks.load() <= 0 || chunks.fetch_sub(1) <= 0) return false;
    if (note) order.push_back(name);
    return true;
  }
};

class Wait : public testing::Test {
 protected:
  void start(const WaitRules& rules) { install_actions(&work_, rules); }
  void TearDown() override { install_actions(nullptr, {}); }
  Recorder work_;
};

constexpr WaitRules kAtOnce{.least_spin = 0, .most_spin = 0, .oversubscribed = false};
constexpr WaitRules kNever{
    .least_spin = 1ULL << 60U, .most_spin = 1ULL << 60U, .oversubscribed = false};

// A condition for a wait that is true after `polls` polls.
struct After {
  int polls;
  bool operator()() { return --polls < 0; }
};

TEST_F(Wait, a_wait_that_is_over_does_nothing_else) {
  start(kAtOnce);
  work_.help_chunks = 5;
  until(After{0});
  EXPECT_EQ(work_.progressed, 0);
  EXPECT_EQ(work_.accounted, 0);
  EXPECT_EQ(work_.help_chunks, 5);
}

TEST_F(Wait, own_chunks_come_before_those_of_others) {
  start(kAtOnce);
  work_.own_chunks = 2;
  work_.help_chunks = 2;
  until(After{100});
  ASSERT_EQ(work_.order.size(), 4U);
  EXPECT_STREQ(work_.order[0], "own");
  EXPECT_STREQ(work_.order[1], "own");
  EXPECT_STREQ(work_.order[2], "help");
}

TEST_F(Wait, the_core_goes_to_a_partner_before_others_are_helped_and_without_a_spin) {
  start(kNever);
  work_.own_chunks = 1;
  work_.loans = 1;
  work_.help_chunks = 1;
  until(After{100});
  ASSERT_EQ(work_.order.size(), 2U);
  EXPECT_STREQ(work_.order[0], "own");
  EXPECT_STREQ(work_.order[1], "lend");
}

TEST_F(Wait, a_wait_within_own_work_moves_own_chunks_alone) {
  start(kAtOnce);
  work_.own_chunks = 1;
  work_.help_chunks = 1;
  bool waited = false;
  work_.within = [&] {
    if (std::exchange(waited, true)) return;
    until([&] { return work_.own_chunks == 0; });
    EXPECT_EQ(work_.help_chunks, 1);
    EXPECT_EQ(work_.progressed, 1);
  };
  until(After{100});
  ASSERT_EQ(work_.order.size(), 2U);
  EXPECT_STREQ(work_.order[0], "within");
}

TEST_F(Wait, done_is_looked_at_after_every_chunk) {
  start(kAtOnce);
  work_.help_chunks = 1000;
  until([this] { return work_.help_chunks <= 997; });
  EXPECT_EQ(work_.help_chunks, 997);
}

TEST_F(Wait, others_are_not_helped_before_the_spin_is_over) {
  start(kNever);
  work_.own_chunks = 1;
  work_.help_chunks = 1;
  until(After{1000});
  EXPECT_EQ(work_.own_chunks, 0);
  EXPECT_EQ(work_.help_chunks, 1);
  EXPECT_EQ(work_.became_idle, 0);
}

TEST_F(Wait, with_more_ranks_than_cores_nobody_else_is_helped) {
  start({.least_spin = 0, .most_spin = 0, .oversubscribed = true});
  work_.own_chunks = 1;
  work_.help_chunks = 1;
  until(After{1000});
  EXPECT_EQ(work_.own_chunks, 0);
  EXPECT_EQ(work_.help_chunks, 1);
}

TEST_F(Wait, a_wait_that_lasts_is_told_once_with_its_begin_and_its_end) {
  for (const bool oversubscribed : {false, true}) {
    start({.least_spin = 0, .most_spin = 0, .oversubscribed = oversubscribed});
    work_.waits_told.clear();
    const std::uint64_t before = ticks();
    until(After{100});
    ASSERT_EQ(work_.waits_told.size(), 2U);
    EXPECT_GE(work_.waits_told[0], before);
    EXPECT_LE(work_.waits_told[0], ticks());
    EXPECT_EQ(work_.waits_told[1], 0U);
  }
}

TEST_F(Wait, a_wait_that_ends_within_its_spin_is_not_told) {
  start(kNever);
  until(After{1000});
  EXPECT_TRUE(work_.waits_told.empty());
}

TEST_F(Wait, a_wait_keeps_its_core_unless_another_rank_may_need_it) {
  start(kAtOnce);
  g_yields = 0;
  until(After{1000});
  EXPECT_EQ(g_yields, 0);
  start({.least_spin = 0, .most_spin = 0, .oversubscribed = false, .yields = true});
  until(After{1000});
  EXPECT_GT(g_yields, 900);
  g_yields = 0;
  start({.least_spin = 0, .most_spin = 0, .oversubscribed = true});
  until(After{1000});
  EXPECT_GT(g_yields, 900);
}

TEST_F(Wait, a_rank_is_idle_only_while_it_waits) {
  start(kAtOnce);
  until(After{100});
  EXPECT_EQ(work_.became_idle, 1);
  EXPECT_EQ(work_.became_active, 1);
  EXPECT_EQ(work_.accounted, 1);
}

TEST_F(Wait, a_poll_in_vain_moves_an_own_chunk_and_none_of_others) {
  start(kAtOnce);
  work_.own_chunks = 2;
  work_.help_chunks = 1;
  note_failed_poll();
  EXPECT_EQ(work_.own_chunks, 1);
  EXPECT_EQ(work_.help_chunks, 1);
}

// Polls without success, as a program that calls MPI_Test, until the rank has done a step of help,
// for a second at most. Returns true if the poll inside the last help_if_polling() found something.
bool poll_until_helped(const Recorder& work) {
  const int before = work.help_chunks;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  bool came = false;
  while (work.help_chunks == before && std::chrono::steady_clock::now() < end) {
    // A reading of the clock between two polls would count as work of the program, so many polls
    // follow each reading.
    for (int i = 0; i < 100 && work.help_chunks == before; ++i) {
      for (std::uint32_t poll = 0; poll < PollingStretch::kPolls; ++poll) spin_pause();
      came = help_if_polling([&] {
        spin_pause();
        return work.help_chunks != before;
      });
    }
  }
  return came;
}

TEST_F(Wait, a_rank_that_does_nothing_but_poll_helps_with_a_step_and_polls_again) {
  start(kNever);  // the spin times of waits do not hold for polls
  work_.help_chunks = 1;
  EXPECT_TRUE(poll_until_helped(work_));
  EXPECT_EQ(work_.help_chunks, 0);
  EXPECT_EQ(work_.became_idle, work_.became_active);
  EXPECT_EQ(work_.waits_told.size() % 2, 0U);
}

TEST_F(Wait, a_rank_that_works_between_its_polls_helps_nobody) {
  start(kAtOnce);
  work_.help_chunks = 1;
  for (int look = 0; look < 2000; ++look) {
    for (std::uint32_t poll = 0; poll < 20 * PollingStretch::kPolls; ++poll) spin_pause();
    EXPECT_FALSE(help_if_polling([] {
      spin_pause();
      return false;
    }));
  }
  EXPECT_EQ(work_.help_chunks, 1);
}

TEST_F(Wait, a_guest_gives_its_core_back_and_helps_nobody) {
  start(kAtOnce);
  work_.guest = true;
  work_.own_chunks = 2;
  work_.help_chunks = 5;
  until(After{100});
  EXPECT_EQ(work_.went_home, 1);
  EXPECT_EQ(work_.own_chunks, 0);
  EXPECT_EQ(work_.help_chunks, 5);
  EXPECT_EQ(work_.became_idle, 0);
  EXPECT_EQ(work_.accounted, 0);
}

TEST_F(Wait, a_guest_whose_wait_is_short_keeps_its_core) {
  start(kNever);
  work_.guest = true;
  until(After{100});
  EXPECT_EQ(work_.went_home, 0);
}

TEST_F(Wait, a_guest_that_polls_for_too_long_gives_its_core_back) {
  start(kNever);
  note_failed_poll();
  work_.guest = true;
  note_failed_poll();
  EXPECT_EQ(work_.went_home, 0);
  work_.overdue = true;
  note_failed_poll();
  EXPECT_EQ(work_.went_home, 1);
}

TEST_F(Wait, other_threads_have_their_turn_between_two_looks) {
  start(kNever);
  until(After{kFewPolls + 10});
  EXPECT_EQ(work_.passed, 10);
}

TEST(WaitAlone, without_work_a_wait_still_waits) {
  install_actions(nullptr, {});
  int polls = 0;
  until([&] { return ++polls == 1000; });
  EXPECT_EQ(polls, 1000);
  note_failed_poll();
}

TEST_F(Wait, a_wait_inside_a_wait_does_not_deadlock) {
  start(kAtOnce);
  work_.help_chunks = 3;
  int outer = 0;
  until([&] {
    until(After{20});
    return ++outer == 20;
  });
  EXPECT_EQ(work_.help_chunks, 0);
}

TEST_F(Wait, one_thread_of_a_rank_helps_at_a_time_and_all_of_them_wait) {
  start(kAtOnce);
  work_.note = false;
  work_.help_chunks = 2000;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] { until([this] { return work_.help_chunks <= 0; }); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(work_.help_chunks, 0);
}

// --- tasks of collections that run in waits -----------------------------------------------------

// Offers `tasks` tasks of a collection to waits of this thread, while the object lives.
class Offered {
 public:
  Offered(Recorder& work, int tasks) : left(tasks), work_(work), before_(offer_tasks(of(this))) {}
  ~Offered() { offer_tasks(before_); }
  Offered(const Offered&) = delete;
  Offered& operator=(const Offered&) = delete;

  int left;
  std::function<void()> task;  // called by each task

 private:
  static TaskOffer of(Offered* self) {
    return {.has = [](void* it) { return static_cast<Offered*>(it)->left > 0 ? 1 : 0; },
            .run = [](void* it) { static_cast<Offered*>(it)->run(); },
            .of = self};
  }
  void run() {
    --left;
    work_.order.push_back("task");
    if (task) task();
  }
  Recorder& work_;
  TaskOffer before_;
};

TEST_F(Wait, an_offered_task_runs_when_nothing_else_is_to_be_done) {
  start(kAtOnce);
  work_.own_chunks = 1;
  work_.help_chunks = 1;
  Offered offered(work_, 2);
  until_shared(After{100});
  const std::vector<const char*> wanted{"own", "help", "task", "task"};
  ASSERT_EQ(work_.order.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_STREQ(work_.order[i], wanted[i]);
}

TEST_F(Wait, done_is_looked_at_after_every_task) {
  start(kAtOnce);
  Offered offered(work_, 100);
  until_shared([&] { return offered.left <= 97; });
  EXPECT_EQ(offered.left, 97);
}

TEST_F(Wait, no_task_runs_in_a_wait_of_our_own) {
  start(kAtOnce);
  Offered offered(work_, 1);
  until(After{100});
  EXPECT_EQ(offered.left, 1);
  until(After{100}, kFewPolls, OfferedTasks::may_run);
  EXPECT_EQ(offered.left, 0);
}

TEST_F(Wait, no_task_runs_in_a_wait_within_own_work) {
  start(kAtOnce);
  Offered offered(work_, 1);
  work_.within = [&] {
    until_shared(After{100});
    EXPECT_EQ(offered.left, 1);
  };
  work_.own_chunks = 1;
  until(After{kFewPolls + 1});
  EXPECT_EQ(offered.left, 1);
}

TEST_F(Wait, no_task_runs_before_the_spin_is_over) {
  start(kNever);
  Offered offered(work_, 1);
  until_shared(After{1000});
  EXPECT_EQ(offered.left, 1);
}

TEST_F(Wait, tasks_run_with_more_ranks_than_cores_too) {
  start({.least_spin = 0, .most_spin = 0, .oversubscribed = true});
  Offered offered(work_, 1);
  until_shared(After{100});
  EXPECT_EQ(offered.left, 0);
}

TEST_F(Wait, tasks_of_one_thread_run_in_no_wait_of_another) {
  start(kAtOnce);
  Offered offered(work_, 1);
  std::thread([] { until_shared(After{100}); }).join();
  EXPECT_EQ(offered.left, 1);
}

TEST_F(Wait, a_task_may_wait_and_have_its_wait_helped) {
  start(kAtOnce);
  Offered offered(work_, 1);
  offered.task = [&] {
    work_.own_chunks = 1;
    work_.help_chunks = 1;
    until_shared(After{100});
    EXPECT_EQ(work_.own_chunks, 0);
    EXPECT_EQ(work_.help_chunks, 0);
  };
  until_shared(After{100});
  EXPECT_EQ(work_.accounted, 2);
}

TEST_F(Wait, a_rank_that_runs_a_task_is_not_idle_and_does_not_wait) {
  start(kAtOnce);
  Offered offered(work_, 1);
  std::uint64_t taken = 0;
  offered.task = [&] {
    EXPECT_EQ(work_.became_idle, work_.became_active);
    const std::uint64_t begin = ticks();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    taken = ticks() - begin;
  };
  const std::uint64_t begin = ticks();
  until_shared(After{100});
  EXPECT_LE(work_.waited, ticks() - begin - taken);
}

TEST_F(Wait, a_thread_that_offers_tasks_polls_for_itself_where_waits_are_shared) {
  start({.least_spin = 0, .most_spin = 0, .oversubscribed = false, .cores = 1});
  std::atomic<bool> over{false};
  std::thread server([&] { until_shared([&] { return over.load(); }); });
  Offered offered(work_, 3);
  work_.note = false;
  until_shared([&] { return offered.left == 0; });
  over = true;
  server.join();
}

// --- waits that a caller writes as a loop of its own, with help_once() and end_help() -----------

TEST_F(Wait, a_wait_that_is_spelled_out_helps_as_any) {
  start(kAtOnce);
  work_.own_chunks = 1;
  work_.help_chunks = 1;
  EXPECT_TRUE(help_once());
  EXPECT_TRUE(help_once());
  EXPECT_FALSE(help_once());
  EXPECT_EQ(work_.became_idle, 1);
  EXPECT_EQ(work_.passed, 1);
  EXPECT_EQ(work_.accounted, 0);
  end_help();
  EXPECT_EQ(work_.became_active, 1);
  EXPECT_EQ(work_.accounted, 1);
  end_help();
  EXPECT_EQ(work_.accounted, 1);
}

TEST_F(Wait, a_wait_that_is_spelled_out_spins_first) {
  start(kNever);
  work_.help_chunks = 1;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(help_once());
  end_help();
}

TEST_F(Wait, a_wait_that_is_spelled_out_runs_no_task) {
  start(kAtOnce);
  Offered offered(work_, 1);
  EXPECT_FALSE(help_once());
  end_help();
  EXPECT_EQ(offered.left, 1);
}

TEST(WaitAlone, without_work_nobody_is_helped) {
  install_actions(nullptr, {});
  EXPECT_FALSE(help_once());
  end_help();
}

}  // namespace
}  // namespace mh::wait
