// SPDX-License-Identifier: BSD-3-Clause
// Light tasks that park in calls of another library, by the interface base/light_tasks.h. The tests
// play that library.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "base/light_tasks.h"
#include "manyhands/ult.hpp"

namespace mh::ult {
namespace {

// Workers call this function to look for waits that have ended. Each test sets its own function.
std::function<mh_poll(unsigned)> g_poll;
std::atomic<int> g_ended_idle{0};

constexpr mh_parked_waits kWaits{.poll = [](unsigned workers) { return g_poll(workers); },
                                 .end_idle = [] { g_ended_idle.fetch_add(1); }};

const mh_light_tasks& library() {
  static const mh_light_tasks* const found = __mh_light_tasks(MH_LIGHT_TASKS_VERSION, &kWaits);
  return *found;
}

// A message, and the task that waits for it.
struct Message {
  std::atomic<bool> has_come{false};
  std::atomic<void*> reader{nullptr};

  void await() {
    reader = library().current();
    library().park([](void* of) { return static_cast<Message*>(of)->has_come ? 1 : 0; }, this);
  }
  void come() {
    has_come = true;
    if (void* task = reader) library().wake(task);
  }
};

Scheduler started(unsigned workers, bool steal = true) {
  (void)library();
  Result<Scheduler> scheduler =
      Scheduler::start({.workers = workers, .tasks_per_worker = 512, .steal = steal});
  EXPECT_TRUE(scheduler.ok());
  return std::move(*scheduler);
}

TEST(UltParking, another_version_is_refused) {
  EXPECT_EQ(__mh_light_tasks(MH_LIGHT_TASKS_VERSION + 1, &kWaits), nullptr);
}

TEST(UltParking, an_ordinary_thread_runs_no_task) { EXPECT_EQ(library().current(), nullptr); }

TEST(UltParking, the_worker_of_a_parked_task_runs_other_tasks) {
  g_poll = [](unsigned) { return MH_POLL_NOTHING; };
  Scheduler scheduler = started(1);
  std::vector<int> order;
  const Status ran = scheduler.run([&] {
    Message message;
    Group group;
    group.spawn([&] {
      order.push_back(1);
      message.await();
      order.push_back(3);
    });
    yield();
    group.spawn([&] {
      order.push_back(2);
      message.come();
    });
    (void)group.wait();
  });
  EXPECT_TRUE(ran.ok());
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_EQ(scheduler.counters(0).parked, 1U);
}

TEST(UltParking, a_worker_without_tasks_looks_until_it_has_one) {
  Message message;
  int looks = 0;
  g_ended_idle = 0;
  g_poll = [&](unsigned workers) {
    if (workers == 0) return MH_POLL_NOTHING;  // an occasional look of a busy worker
    EXPECT_EQ(workers, 1U);
    EXPECT_EQ(library().current(), nullptr) << "the worker is on its own stack";
    if (++looks < 5) return MH_POLL_NOTHING;
    message.come();
    return MH_POLL_FOUND;
  };
  Scheduler scheduler = started(1);
  int ended_before = -1;
  EXPECT_TRUE(scheduler.run([&] {
    message.await();
    ended_before = g_ended_idle;
  }));
  EXPECT_EQ(looks, 5);
  EXPECT_EQ(ended_before, 1) << "before the task goes on";
}

TEST(UltParking, a_worker_with_other_tasks_looks_now_and_then) {
  Message message;
  g_poll = [&](unsigned workers) {
    EXPECT_EQ(workers, 0U);
    message.come();
    return MH_POLL_FOUND;
  };
  Scheduler scheduler = started(1);
  EXPECT_TRUE(scheduler.run([&] {
    Group group;
    group.spawn([&] { message.await(); });
    while (!message.has_come) yield();
    (void)group.wait();
  }));
}

// A worker without tasks dozes while another worker looks for parked tasks whose waits are over.
// The dozing worker looks itself once the other worker is busy with a long task.
TEST(UltParking, another_worker_looks_when_the_looking_one_has_a_long_task) {
  std::atomic<bool> elsewhere{true};
  std::atomic<bool> dozed{false};
  Message message;
  g_poll = [&](unsigned workers) {
    if (workers == 0) return MH_POLL_NOTHING;
    dozed = dozed || elsewhere;
    if (elsewhere) return MH_POLL_ELSEWHERE;
    message.come();
    return MH_POLL_FOUND;
  };
  Scheduler scheduler = started(2);
  EXPECT_TRUE(scheduler.run([&] {
    Group group;
    group.spawn([&] { message.await(); });
    group.spawn([&] {
      while (!dozed) yield();
      elsewhere = false;
      while (!message.has_come) continue;  // keeps its worker
    });
    (void)group.wait();
  }));
}

// Two workers have one core together (share_cores()). While one of them runs tasks, the other does
// not compete for the core by looks. It may look while the first worker does not get the core.
TEST(UltParking, a_worker_beyond_the_share_does_not_look_beside_a_running_one) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core cannot be shared";
  constexpr int kYields = 200'000;
  detail::share_cores(1);
  std::atomic<int> yields{0};
  std::atomic<int> seen{0};
  std::atomic<int> looks_beside{0};  // looks between which tasks of the other worker have run
  Message message;
  g_poll = [&](unsigned workers) {
    if (workers != 0 && seen.exchange(yields) != yields) ++looks_beside;
    return MH_POLL_NOTHING;
  };
  {
    Scheduler scheduler = started(2, false);  // each task stays on its worker
    EXPECT_TRUE(scheduler.run([&] {
      Result<Task> reader = spawn_on(1 - this_worker(), [&] { message.await(); });
      while (message.reader == nullptr) std::this_thread::yield();
      Group group;
      for (int task = 0; task < 2; ++task) {
        group.spawn([&] {
          while (++yields < kYields) yield();
        });
      }
      (void)group.wait();
      message.come();
      EXPECT_TRUE(reader->join().ok());
    }));
  }
  detail::share_cores(~0U);
  EXPECT_LT(looks_beside, kYields / 100);
}

TEST(UltParking, a_scheduler_ends_after_its_parked_tasks) {
  constexpr int kTasks = 20;
  Message messages[kTasks];
  std::atomic<int> over{0};
  std::atomic<int> looks{0};
  g_poll = [&](unsigned) {
    if (++looks % 4 != 0 || looks / 4 > kTasks) return MH_POLL_NOTHING;
    messages[looks / 4 - 1].come();
    return MH_POLL_FOUND;
  };
  {
    Scheduler scheduler = started(1);
    for (Message& message : messages) {
      scheduler
          .spawn([&] {
            message.await();
            ++over;
          })
          ->detach();
    }
  }
  EXPECT_EQ(over, kTasks);
}

}  // namespace
}  // namespace mh::ult
