// SPDX-License-Identifier: BSD-3-Clause
// Tests of light tasks at their limits: no free slot for a task, no memory for a stack, wrong
// arguments, wrong callers. Also tests the order of tasks, stealing, sleeping, and tasks that wait
// when the scheduler ends.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "manyhands/ult.hpp"
#include "support/sanitizer.hpp"

namespace mh::ult {
namespace {

using namespace std::chrono_literals;

Scheduler started(const Config& config) {
  Result<Scheduler> scheduler = Scheduler::start(config);
  EXPECT_TRUE(scheduler.ok());
  return std::move(*scheduler);
}

Config with(unsigned workers, std::uint32_t tasks = 512) {
  Config config;
  config.workers = workers;
  config.tasks_per_worker = tasks;
  return config;
}

TEST(UltLimits, a_config_out_of_range_is_refused) {
  Config small = with(1, 511);
  Config large = with(1, (1U << 18U) + 1);
  Config thin = with(1);
  thin.stack_bytes = 100;
  Config nameless = with(1);
  nameless.name = nullptr;
  for (const Config& config : {small, large, thin, nameless, with(5000)}) {
    EXPECT_EQ(Scheduler::start(config).status().code, Code::misuse);
  }
}

TEST(UltLimits, calls_that_only_tasks_may_make_are_refused_elsewhere) {
  EXPECT_EQ(spawn([] {}).status().code, Code::misuse);
  EXPECT_EQ(spawn_on(0, [] {}).status().code, Code::misuse);
  EXPECT_EQ(this_worker(), kNoWorker);
  EXPECT_FALSE(self());
  wait();
  yield();
  Scheduler scheduler = started(with(1));
  EXPECT_EQ(scheduler.spawn_on(1, [] {}).status().code, Code::misuse);
  EXPECT_TRUE(scheduler.run([&] {
    EXPECT_EQ(scheduler.run([] {}).code, Code::misuse);
    EXPECT_EQ(Task().join().code, Code::misuse);
  }));
}

// A worker hands out all its task slots, then reports `full`. After the joins, all slots are free
// again.
TEST(UltLimits, a_worker_out_of_slots_says_so_and_recovers) {
  for (const std::uint32_t slots : {512U, 4096U + 64U}) {
    Scheduler scheduler = started(with(1, slots));
    EXPECT_TRUE(scheduler.run([slots] {
      for (int round = 0; round < 3; ++round) {
        std::vector<Task> tasks;
        for (;;) {
          Result<Task> task = spawn([] {});
          if (!task) {
            EXPECT_EQ(task.status().code, Code::full);
            break;
          }
          tasks.push_back(std::move(*task));
        }
        EXPECT_EQ(tasks.size(), slots - 1);  // the running task has one slot
        for (Task& task : tasks) {
          EXPECT_TRUE(task.join().ok());
        }
      }
    }));
    EXPECT_EQ(scheduler.counters(0).refused, 3U);
  }
}

TEST(UltLimits, other_threads_find_seven_eighths_of_the_slots_at_least) {
  Scheduler scheduler = started(with(1, 512));
  EXPECT_TRUE(scheduler.run([] {
    Group group;
    for (int i = 0; i < 400; ++i) group.spawn([] {});
    EXPECT_TRUE(group.wait().ok());
  }));
  Event open;
  std::vector<Task> tasks;
  for (Result<Task> task = scheduler.spawn([&] { open.wait(); }); task.ok();
       task = scheduler.spawn([&] { open.wait(); })) {
    tasks.push_back(std::move(*task));
  }
  EXPECT_GE(tasks.size(), 512U * 7 / 8);
  open.set();
  for (Task& task : tasks) EXPECT_TRUE(task.join().ok());
}

TEST(UltLimits, a_group_needs_no_slots_to_make_progress) {
  Scheduler scheduler = started(with(2, 512));
  EXPECT_TRUE(scheduler.run([] {
    std::atomic<int> ran{0};
    Group group;
    for (int i = 0; i < 5000; ++i) group.spawn([&ran] { ++ran; });
    EXPECT_TRUE(group.wait().ok());
    EXPECT_EQ(ran, 5000);
  }));
}

// The standard error of this process is a pipe while an object of this class exists.
class StderrPipe {
 public:
  StderrPipe() : saved_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe(ends_), 0);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  StderrPipe(const StderrPipe&) = delete;
  StderrPipe& operator=(const StderrPipe&) = delete;
  ~StderrPipe() {
    ::dup2(saved_, STDERR_FILENO);
    for (const int fd : {saved_, ends_[0], ends_[1]}) ::close(fd);
  }
  // Waits until something has been written to stderr, at most `limit`. Returns the text.
  [[nodiscard]] std::string read(std::chrono::milliseconds limit) const {
    pollfd there{.fd = ends_[0], .events = POLLIN, .revents = 0};
    char text[1024];
    if (::poll(&there, 1, static_cast<int>(limit.count())) != 1) return {};
    const auto bytes = ::read(ends_[0], text, sizeof text);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
  }

 private:
  int saved_;
  int ends_[2] = {-1, -1};
};

// A parent spawns more children than a worker has task slots. The children wait for an event that
// the parent sets after it has spawned all. A child without a slot runs inside the parent's call of
// spawn(), so the first such child stops the parent.
void stop_for_want_of_slots(const Config& config) {
  const StderrPipe pipe;
  Event open;
  std::atomic<int> ended{0};
  Scheduler scheduler = started(config);
  Result<Task> parent = scheduler.spawn([&] {
    Group group;
    for (int i = 0; i < 600; ++i) {
      group.spawn([&] {
        open.wait();
        ++ended;
      });
    }
    open.set();
    EXPECT_TRUE(group.wait().ok());
  });
  EXPECT_EQ(
      pipe.read(20s),
      "manyhands: scheduler ult: every task waits. A child runs inside Group::spawn(), because "
      "its worker has no slot beyond 512 tasks, and the child may wait for its parent. Remedy: "
      "raise Config::tasks_per_worker\n");
  EXPECT_EQ(ended, 0);
  open.set();
  EXPECT_TRUE(parent && parent->join().ok());
  EXPECT_EQ(ended, 600);
  EXPECT_EQ(pipe.read(0s), "");
}

TEST(UltLimits, a_child_without_a_slot_that_stops_its_parent_is_reported) {
  stop_for_want_of_slots(with(1));
  stop_for_want_of_slots(with(3));
  Config config = with(2);
  config.steal = false;
  stop_for_want_of_slots(config);
}

// A worker has 256 K tasks that have not begun (16 K with a sanitizer).
TEST(UltLimits, a_quarter_of_a_million_tasks_exist_at_a_time) {
  static constexpr std::uint32_t kTasks = test::kSanitized ? 1U << 14U : 1U << 18U;
  Scheduler scheduler = started(with(1, kTasks));
  EXPECT_TRUE(scheduler.run([] {
    std::vector<Task> tasks;
    std::uint64_t ran = 0;
    for (std::uint32_t i = 1; i < kTasks; ++i) {
      Result<Task> task = spawn([&ran] { ++ran; });
      ASSERT_TRUE(task.ok());
      tasks.push_back(std::move(*task));
    }
    EXPECT_EQ(spawn([] {}).status().code, Code::full);
    tasks.clear();
    EXPECT_EQ(ran, kTasks - 1);
  }));
}

// All tasks have begun, so there are more stacks than the system permits guard pages, and more than
// a sanitizer permits fibers.
TEST(UltLimitsUnsanitized, forty_thousand_blocked_tasks_have_stacks) {
  static constexpr int kTasks = 40000;
  Config config = with(1, 1U << 16U);
  config.stack_bytes = std::size_t{8} * 1024;
  Scheduler scheduler = started(config);
  EXPECT_TRUE(scheduler.run([] {
    Event open;
    int begun = 0;
    int passed = 0;
    Group group;
    for (int i = 0; i < kTasks; ++i) {
      group.spawn([&] {
        ++begun;
        open.wait();
        ++passed;
      });
    }
    while (begun != kTasks) yield();
    open.set();
    EXPECT_TRUE(group.wait().ok());
    EXPECT_EQ(passed, kTasks);
  }));
  const Counters counters = scheduler.counters(0);
  EXPECT_GE(counters.stacks, 40000U);
  EXPECT_GT(counters.unguarded, 0U);
  EXPECT_LT(counters.unguarded, counters.stacks);
}

// There is no memory for more stacks. The joiner of a task without a stack gets `full`, all other
// tasks run, and no join hangs.
TEST(UltLimitsUnsanitized, a_task_without_a_stack_is_refused_to_its_joiner) {
  Config config = with(1);
  config.stack_bytes = std::size_t{1} << 20U;
  Scheduler scheduler = started(config);
  EXPECT_TRUE(scheduler.run([] {}));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  int refused = 0;
  int ran = 0;
  Event open;
  EXPECT_TRUE(scheduler.run([&] {
    std::vector<Task> tasks;
    tasks.reserve(100);
    const rlimit none{1, before.rlim_max};  // lets every mmap() fail
    ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
    for (int i = 0; i < 100; ++i) {
      tasks.push_back(std::move(*spawn([&] {
        open.wait();
        ++ran;
      })));
    }
    for (int i = 0; i < 20; ++i) yield();  // all tasks with a stack begin
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    open.set();
    for (Task& task : tasks) refused += task.join().code == Code::full ? 1 : 0;
  }));
  EXPECT_GT(refused, 0);
  EXPECT_EQ(refused + ran, 100);
}

// A joined task runs on the joiner's stack only if that stack has space for a whole task. sum_to()
// spawns and joins recursively until the stack of the joiner is full.
int sum_to(int n) {
  volatile char ballast[2048];
  ballast[0] = static_cast<char>(n);
  if (n == 0) return ballast[0];
  int below = 0;
  Result<Task> task = spawn([&below, n] { below = sum_to(n - 1); });
  EXPECT_TRUE(task && task->join().ok());
  return below + n;
}

TEST(UltLimits, deep_recursion_goes_on_on_new_stacks) {
  Config config = with(1, 4096);
  if (test::kSanitized) config.stack_bytes *= 4;
  Scheduler scheduler = started(config);
  EXPECT_TRUE(scheduler.run([] { EXPECT_EQ(sum_to(2000), 2001000); }));
  EXPECT_GT(scheduler.counters(0).inlined, 1000U);
  EXPECT_LT(scheduler.counters(0).inlined, 2000U);
}

TEST(UltLimitsUnsanitizedDeathTest, a_stack_that_is_too_small_faults_at_its_guard_page) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        Config config = with(1);
        config.inline_joins = false;
        Scheduler scheduler = started(config);
        (void)scheduler.run([] {
          volatile char ballast[256 * 1024];
          for (std::size_t i = sizeof ballast; i-- > 0;) ballast[i] = 1;
        });
      },
      testing::KilledBySignal(SIGSEGV), "");
}

// --- the order in which tasks run -------------------------------------------------------------

std::vector<int> order_of_ten(Order order) {
  Config config = with(1);
  config.order = order;
  config.inline_joins = false;
  Scheduler scheduler = started(config);
  std::vector<int> ran;
  EXPECT_TRUE(scheduler.run([&] {
    Group group;
    for (int i = 0; i < 10; ++i) group.spawn([&ran, i] { ran.push_back(i); });
    EXPECT_TRUE(group.wait().ok());
  }));
  return ran;
}

// Counts the numbers that directly follow a smaller number. Tasks have ascending numbers, so the
// count is 0 if the newest task always ran first.
int out_of_order(const std::vector<int>& ran) {
  int count = 0;
  for (std::size_t i = 1; i < ran.size(); ++i) count += ran[i] > ran[i - 1] ? 1 : 0;
  return count;
}

TEST(UltOrder, breadth_first_runs_the_oldest_first) {
  EXPECT_EQ(order_of_ten(Order::breadth_first), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

// For fairness, every kFairTurns-th choice of a worker may take the oldest task. A worker without
// tasks chooses, too, so one of the ten choices in this test may take an oldest task.
TEST(UltOrder, depth_first_runs_the_newest_first) {
  for (int round = 0; round < 100; ++round) {
    const std::vector<int> ran = order_of_ten(Order::depth_first);
    ASSERT_EQ(ran.size(), 10U);
    EXPECT_LE(out_of_order(ran), 1) << testing::PrintToString(ran);
  }
}

// --- stealing and sleeping --------------------------------------------------------------------

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(UltIdle, idle_workers_sleep) {
  Scheduler scheduler = started(with(3));
  EXPECT_TRUE(scheduler.run([] {}));
  std::this_thread::sleep_for(100ms);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(cpu_seconds() - before, 0.1);
}

// The parent keeps its worker busy until the child has run. The sleeping worker must therefore wake
// and steal the child.
TEST(UltIdle, a_sleeping_worker_is_woken_to_steal_from_a_busy_one) {
  Scheduler scheduler = started(with(2));
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(2ms);
    EXPECT_TRUE(scheduler.run([] {
      std::atomic<bool> ran{false};
      Result<Task> child = spawn([&ran] { ran = true; });
      while (!ran.load()) std::this_thread::yield();
      EXPECT_TRUE(child && child->join().ok());
    }));
  }
  EXPECT_GE(scheduler.counters(0).stolen + scheduler.counters(1).stolen, 20U);
}

// The parent signals its child and then keeps its worker busy until the child has run. The other
// worker must therefore steal the child.
TEST(UltIdle, a_signalled_task_of_a_busy_worker_is_stolen) {
  Scheduler scheduler = started(with(2));
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(scheduler.run([] {
      std::atomic<bool> go{false};
      std::atomic<bool> ran{false};
      Result<Task> child = spawn([&] {
        while (!go.load()) wait();
        ran = true;
      });
      ASSERT_TRUE(child.ok());
      for (int i = 0; i < 3; ++i) yield();
      go = true;
      child->ref().signal();
      while (!ran.load()) std::this_thread::yield();
      EXPECT_TRUE(child->join().ok());
    }));
  }
}

TEST(UltIdle, a_stolen_task_that_yields_becomes_the_thiefs_own) {
  Scheduler scheduler = started(with(2));
  EXPECT_TRUE(scheduler.run([] {
    std::atomic<bool> stop{false};
    const unsigned home = this_worker();
    Result<Task> child = spawn([&] {
      // The child migrates only when yield() switches to another task, so there has to be one.
      Result<Task> other = spawn([&stop] {
        while (!stop.load()) yield();
      });
      while (this_worker() == home) yield();
      for (int i = 0; i < 100; ++i) yield();
      stop = true;
      EXPECT_TRUE(other && other->join().ok());
    });
    while (!stop.load()) std::this_thread::yield();
    EXPECT_TRUE(child && child->join().ok());
  }));
  EXPECT_GE(scheduler.counters(0).migrated + scheduler.counters(1).migrated, 1U);
}

TEST(UltIdle, without_stealing_a_task_stays_where_it_is_put) {
  Config config = with(2);
  config.steal = false;
  Scheduler scheduler = started(config);
  EXPECT_TRUE(scheduler.run([] {
    for (unsigned worker = 0; worker < 2; ++worker) {
      Result<Task> task = spawn_on(worker, [worker] {
        for (int i = 0; i < 100; ++i) {
          EXPECT_EQ(this_worker(), worker);
          yield();
        }
      });
      EXPECT_TRUE(task && task->join().ok());
    }
  }));
}

TEST(UltEnd, tasks_that_nobody_wakes_are_reported_at_the_end) {
  testing::internal::CaptureStderr();
  {
    Scheduler scheduler = started(with(2));
    EXPECT_TRUE(scheduler.run([] {
      for (int i = 0; i < 3; ++i) {
        Result<Task> task = spawn([] {
          for (;;) wait();
        });
        ASSERT_TRUE(task.ok());
        task->detach();
      }
      for (int i = 0; i < 10; ++i) yield();
    }));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "manyhands: scheduler ult ended while 3 of its tasks still waited for a signal\n");
}

}  // namespace
}  // namespace mh::ult
