// SPDX-License-Identifier: BSD-3-Clause
// Tests of the public C++ interface of light tasks, on schedulers of all kinds.
#include "manyhands/ult.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <numeric>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace mh::ult {
namespace {

Scheduler started(const Config& config) {
  Result<Scheduler> scheduler = Scheduler::start(config);
  EXPECT_TRUE(scheduler.ok());
  return std::move(*scheduler);
}

template <class F>
void run(Scheduler& scheduler, F&& function) {
  EXPECT_TRUE(scheduler.run(std::forward<F>(function)).ok());
}

Task must(Result<Task> task) {
  EXPECT_TRUE(task.ok());
  return std::move(*task);
}

std::uint64_t total(const Scheduler& scheduler, std::uint64_t Counters::*what) {
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < scheduler.workers(); ++i) sum += scheduler.counters(i).*what;
  return sum;
}

struct Kind {
  const char* name;
  Config config;
};
// GoogleTest prints a Kind by its name. Without this function GoogleTest prints the bytes of the
// structure, including padding.
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

Config with(unsigned workers, std::uint32_t tasks, Order order = Order::depth_first,
            bool inline_joins = true, bool steal = true) {
  Config config;
  config.workers = workers;
  config.tasks_per_worker = tasks;
  config.order = order;
  config.inline_joins = inline_joins;
  config.steal = steal;
  return config;
}

class EveryKind : public testing::TestWithParam<Kind> {
 protected:
  Scheduler scheduler_ = started(GetParam().config);
};

INSTANTIATE_TEST_SUITE_P(
    Ult, EveryKind,
    testing::Values(Kind{"one_worker", with(1, 512)}, Kind{"two_workers", with(2, 512)},
                    Kind{"more_workers_than_cores", with(7, 512)},
                    Kind{"two_levels_of_bits", with(2, 8192)},
                    Kind{"breadth_first", with(2, 512, Order::breadth_first)},
                    Kind{"own_stacks", with(2, 512, Order::depth_first, false)},
                    Kind{"no_stealing", with(2, 512, Order::depth_first, true, false)}),
    [](const auto& kind) { return std::string(kind.param.name); });

// --- spawn and join ---------------------------------------------------------------------------

TEST_P(EveryKind, children_are_joined_in_any_order) {
  run(scheduler_, [] {
    std::vector<int> done(200, 0);
    std::vector<Task> tasks;
    for (int& place : done) tasks.push_back(must(spawn([&place] { place = 1; })));
    for (std::size_t i = 0; i < tasks.size(); i += 2) EXPECT_TRUE(tasks[i].join().ok());
    for (std::size_t i = tasks.size() - 1; i < tasks.size(); i -= 2) {
      EXPECT_TRUE(tasks[i].join().ok());
    }
    EXPECT_EQ(std::accumulate(done.begin(), done.end(), 0), 200);
  });
}

long fib(int n) {
  if (n < 2) return n;
  long left = 0;
  Result<Task> task = spawn([&left, n] { left = fib(n - 1); });
  const long right = fib(n - 2);
  if (!task) {
    left = fib(n - 1);
  } else {
    EXPECT_TRUE(task->join().ok());
  }
  return left + right;
}

TEST_P(EveryKind, recursion_over_handles) {
  run(scheduler_, [] { EXPECT_EQ(fib(16), 987); });
}

long nodes(int depth) {
  std::atomic<long> below{0};
  if (depth > 0) {
    Group group;
    for (int i = 0; i < 5; ++i) group.spawn([&below, depth] { below += nodes(depth - 1); });
    EXPECT_TRUE(group.wait().ok());
  }
  return below + 1;
}

TEST_P(EveryKind, recursion_over_groups) {
  run(scheduler_, [] { EXPECT_EQ(nodes(5), 3906); });
}

TEST_P(EveryKind, a_task_placed_on_each_worker_runs) {
  run(scheduler_, [this] {
    std::vector<Task> tasks;
    std::atomic<int> ran{0};
    for (unsigned worker = 0; worker < scheduler_.workers(); ++worker) {
      tasks.push_back(must(spawn_on(worker, [&ran] { ++ran; })));
    }
    for (Task& task : tasks) EXPECT_TRUE(task.join().ok());
    EXPECT_EQ(ran, static_cast<int>(scheduler_.workers()));
    EXPECT_EQ(spawn_on(scheduler_.workers(), [] {}).status().code, Code::misuse);
  });
}

TEST_P(EveryKind, ordinary_threads_spawn_and_join) {
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        Task task = must(scheduler_.spawn([&ran] {
          yield();
          ++ran;
        }));
        EXPECT_TRUE(task.join().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, 300);
}

TEST_P(EveryKind, detached_tasks_run_before_the_scheduler_ends) {
  std::atomic<int> ran{0};
  {
    Scheduler scheduler = started(GetParam().config);
    run(scheduler, [&ran] {
      for (int i = 0; i < 100; ++i) {
        must(spawn([&ran] {
          yield();
          ++ran;
        })).detach();
      }
    });
  }
  EXPECT_EQ(ran, 100);
}

TEST_P(EveryKind, slots_are_used_again) {
  run(scheduler_, [] {
    std::atomic<int> ran{0};
    for (int round = 0; round < 100; ++round) {
      Group group;
      for (int i = 0; i < 100; ++i) {
        group.spawn([&ran] {
          yield();
          ++ran;
        });
      }
      EXPECT_TRUE(group.wait().ok());
    }
    EXPECT_EQ(ran, 10000);
  });
}

TEST_P(EveryKind, an_exception_reaches_the_joiner) {
  run(scheduler_, [] {
    Task task = must(spawn([] { throw std::runtime_error("lost"); }));
    EXPECT_THROW((void)task.join(), std::runtime_error);
    Group group;
    for (int i = 0; i < 10; ++i) {
      group.spawn([i] {
        if (i == 3) throw std::runtime_error("lost");
      });
    }
    EXPECT_THROW((void)group.wait(), std::runtime_error);
    EXPECT_TRUE(group.wait().ok());
  });
  EXPECT_THROW((void)scheduler_.run([] { throw 7; }), int);
}

// The C++ runtime keeps the exceptions that are being handled for each thread, not for each task. A
// light task that switches inside a handler must not see the exceptions of other tasks.
TEST_P(EveryKind, a_task_may_yield_while_it_handles_an_exception) {
  run(scheduler_, [] {
    Group group;
    for (int i = 0; i < 50; ++i) {
      group.spawn([i] {
        try {
          throw i;
        } catch (const int& mine) {
          for (int turn = 0; turn < 5; ++turn) {
            yield();
            try {
              throw std::to_string(i);
            } catch (const std::string& inner) {
              EXPECT_EQ(inner, std::to_string(i));
            }
          }
          EXPECT_EQ(mine, i);
          EXPECT_EQ(std::uncaught_exceptions(), 0);
        }
      });
    }
    EXPECT_TRUE(group.wait().ok());
  });
}

TEST_P(EveryKind, large_and_move_only_functions) {
  run(scheduler_, [] {
    std::array<char, 1000> large{};
    large[999] = 'x';
    char seen = 0;
    auto owned = std::make_unique<int>(5);
    int value = 0;
    Task one = must(spawn([large, &seen] { seen = large[999]; }));
    Task two = must(spawn([owned = std::move(owned), &value] { value = *owned; }));
    EXPECT_TRUE(one.join().ok() && two.join().ok());
    EXPECT_EQ(seen, 'x');
    EXPECT_EQ(value, 5);
  });
}

TEST_P(EveryKind, a_future_gives_the_value) {
  run(scheduler_, [] {
    auto future = async([] {
      yield();
      return std::string("value");
    });
    ASSERT_TRUE(future.ok());
    EXPECT_EQ(*future->get(), "value");
  });
  auto outside = async_on(scheduler_, kNoWorker, [] { return 6 * 7; });
  ASSERT_TRUE(outside.ok());
  EXPECT_EQ(*outside->get(), 42);
}

// --- wait and signal --------------------------------------------------------------------------

TEST_P(EveryKind, two_tasks_pass_a_token) {
  run(scheduler_, [] {
    constexpr int kRounds = 2000;
    std::atomic<int> turn{0};
    std::array<std::atomic<TaskRef>, 2> refs{};
    const auto player = [&](int me) {
      refs[static_cast<std::size_t>(me)] = self();
      for (int i = 0; i < kRounds; ++i) {
        while (turn.load() != me) wait();
        turn = 1 - me;
        const TaskRef other = refs[static_cast<std::size_t>(1 - me)].load();
        if (other) other.signal();
      }
    };
    Task one = must(spawn([&] { player(0); }));
    Task two = must(spawn([&] { player(1); }));
    EXPECT_TRUE(one.join().ok() && two.join().ok());
  });
}

TEST_P(EveryKind, a_premature_signal_is_kept) {
  run(scheduler_, [] {
    self().signal();
    self().signal();
    wait();  // without a kept signal, wait() would block forever
  });
}

TEST_P(EveryKind, a_thread_signals_a_task) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> flag{false};
    std::promise<TaskRef> ref;
    Task task = must(scheduler_.spawn([&] {
      ref.set_value(self());
      while (!flag.load()) wait();
    }));
    const TaskRef waiter = ref.get_future().get();
    flag = true;
    waiter.signal();
    EXPECT_TRUE(task.join().ok());
  }
}

TEST_P(EveryKind, signals_to_tasks_that_have_ended_are_harmless) {
  run(scheduler_, [] {
    TaskRef old;
    Task task = must(spawn([&old] { old = self(); }));
    EXPECT_TRUE(task.join().ok());
    for (int i = 0; i < 100; ++i) {
      old.signal();
      std::atomic<int> ran{0};
      Task next = must(spawn([&ran] { ++ran; }));
      old.signal();
      EXPECT_TRUE(next.join().ok());
      EXPECT_EQ(ran, 1);
    }
  });
}

// Every ready task runs at some time, even if other tasks spawn and yield forever.
TEST_P(EveryKind, no_ready_task_starves) {
  run(scheduler_, [] {
    std::atomic<bool> stop{false};
    std::vector<Task> busy;
    for (int i = 0; i < 4; ++i) {
      busy.push_back(must(spawn([&stop] {
        while (!stop.load()) {
          Result<Task> child = spawn([] {});
          yield();
          EXPECT_TRUE(!child || child->join().ok());
        }
      })));
    }
    Task last = must(spawn([&stop] {
      for (int i = 0; i < 20; ++i) yield();
      stop = true;
    }));
    EXPECT_TRUE(last.join().ok());
    for (Task& task : busy) EXPECT_TRUE(task.join().ok());
  });
}

// --- locks, barrier, semaphore, event, variables of a task, counters --------------------------

TEST_P(EveryKind, a_mutex_excludes_and_is_fair_enough) {
  run(scheduler_, [] {
    Mutex mutex;
    int plain = 0;
    Group group;
    for (int i = 0; i < 20; ++i) {
      group.spawn([&] {
        for (int j = 0; j < 200; ++j) {
          mutex.lock();
          const int seen = plain;
          if (j % 16 == 0) yield();
          plain = seen + 1;
          mutex.unlock();
        }
      });
    }
    EXPECT_TRUE(group.wait().ok());
    EXPECT_EQ(plain, 4000);
    EXPECT_TRUE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock());
    mutex.unlock();
  });
}

TEST_P(EveryKind, threads_and_tasks_share_a_mutex) {
  Mutex mutex;
  int plain = 0;
  const auto work = [&] {
    for (int i = 0; i < 500; ++i) {
      mutex.lock();
      ++plain;
      mutex.unlock();
    }
  };
  std::thread thread(work);
  Task one = must(scheduler_.spawn(work));
  Task two = must(scheduler_.spawn(work));
  EXPECT_TRUE(one.join().ok() && two.join().ok());
  thread.join();
  EXPECT_EQ(plain, 1500);
}

TEST_P(EveryKind, a_spin_lock_excludes) {
  run(scheduler_, [] {
    SpinLock lock;
    int plain = 0;
    Group group;
    for (int i = 0; i < 8; ++i) {
      group.spawn([&] {
        for (int j = 0; j < 500; ++j) {
          lock.lock();
          ++plain;
          lock.unlock();
        }
      });
    }
    EXPECT_TRUE(group.wait().ok());
    EXPECT_EQ(plain, 4000);
  });
}

TEST_P(EveryKind, a_barrier_holds_all_back_and_is_used_again) {
  run(scheduler_, [] {
    constexpr std::uint32_t kTasks = 30;
    Barrier barrier(kTasks);
    std::atomic<int> arrived{0};
    std::atomic<int> last{0};
    Group group;
    for (std::uint32_t i = 0; i < kTasks; ++i) {
      group.spawn([&] {
        for (int round = 1; round <= 20; ++round) {
          ++arrived;
          if (barrier.wait()) ++last;
          EXPECT_GE(arrived.load(), round * static_cast<int>(kTasks));
        }
      });
    }
    EXPECT_TRUE(group.wait().ok());
    EXPECT_EQ(last, 20);
  });
}

TEST_P(EveryKind, a_semaphore_lets_its_number_in) {
  run(scheduler_, [] {
    Semaphore semaphore(3);
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    Group group;
    for (int i = 0; i < 40; ++i) {
      group.spawn([&] {
        semaphore.acquire();
        const int now = ++inside;
        int seen = most.load();
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        yield();
        --inside;
        semaphore.release();
      });
    }
    EXPECT_TRUE(group.wait().ok());
    EXPECT_LE(most, 3);
    EXPECT_TRUE(semaphore.try_acquire());
  });
}

TEST_P(EveryKind, an_event_wakes_tasks_and_threads) {
  Event event;
  std::atomic<int> woken{0};
  const auto waiter = [&] {
    event.wait();
    ++woken;
  };
  std::thread thread(waiter);
  std::vector<Task> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(must(scheduler_.spawn(waiter)));
  event.set();
  for (Task& task : tasks) EXPECT_TRUE(task.join().ok());
  thread.join();
  EXPECT_EQ(woken, 11);
  EXPECT_TRUE(event.is_set());
}

struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int value = 0;
  static inline std::atomic<int> alive{0};
};
Local<Counted> local_value;

TEST_P(EveryKind, each_task_has_its_own_storage) {
  EXPECT_EQ(local_value.get(), nullptr);
  run(scheduler_, [] {
    Group group;
    for (int i = 0; i < 50; ++i) {
      group.spawn([i] {
        local_value.get()->value = i;
        yield();
        EXPECT_EQ(local_value.get()->value, i);
      });
    }
    EXPECT_TRUE(group.wait().ok());
  });
  EXPECT_EQ(Counted::alive, 0);
}

TEST_P(EveryKind, counters_add_up) {
  run(scheduler_, [] { EXPECT_EQ(fib(12), 144); });
  EXPECT_EQ(total(scheduler_, &Counters::spawned) + 1, total(scheduler_, &Counters::finished));
  EXPECT_EQ(std::string(scheduler_.name(0)), "ult-0");
}

}  // namespace
}  // namespace mh::ult
