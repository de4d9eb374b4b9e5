// SPDX-License-Identifier: BSD-3-Clause
// Light tasks park in until_shared(), and poll(), called by another thread, ends their waits. A
// thread plays each task, and the test's own thread plays the workers.
#include "wait/parking.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "wait/wait.hpp"

namespace mh::wait {
namespace {

// The state of a thread that plays a task.
struct FakeTask {
  std::mutex mutex;
  std::condition_variable changed;
  int signals = 0;
};
thread_local FakeTask* t_task = nullptr;
std::atomic<int> g_parked{0};  // number of times that a task has gone to sleep
std::atomic<int> g_woken{0};
std::atomic<int> g_regions{0};

void park(int (*is_over)(void*), void* of) {
  while (is_over(of) == 0) {
    std::unique_lock hold(t_task->mutex);
    g_parked.fetch_add(1);
    t_task->changed.wait(hold, [] { return t_task->signals != 0; });
    t_task->signals = 0;
  }
}

void signal(FakeTask& task) {
  const std::lock_guard hold(task.mutex);
  task.signals = 1;
  task.changed.notify_one();
}

void wake(void* task) {
  g_woken.fetch_add(1);
  signal(*static_cast<FakeTask*>(task));
}

constexpr mh_light_tasks kLibrary{.current = []() -> void* { return t_task; },
                                  .park = park,
                                  .wake = wake,
                                  .share_cores = [](unsigned /*own*/) {}};

class Nothing : public WaitActions {
 public:
  void progress() override {}
  bool copy_own_chunk() override { return false; }
  bool lend_to_partner() override { return false; }
  bool copy_own_chunk_nested() override { return false; }
  bool help() override {
    helped.fetch_add(1);
    return helps;
  }
  void end() override {}
  void set_idle(bool now) override { idle = now; }
  void set_waiting(std::uint64_t /*since*/) override {}
  void count_wait(std::uint64_t /*waited*/) override {}
  void between_polls() override {}
  bool is_guest() override { return false; }
  bool is_overdue() override { return false; }
  void return_core() override {}
  std::atomic<int> helped{0};
  std::atomic<bool> helps{false};
  std::atomic<bool> idle{false};
};

void see(const std::function<bool()>& thing) {
  while (!thing()) std::this_thread::yield();
}

// A thread that plays a task, which waits for its flag.
class Task {
 public:
  Task() {
    const int before = g_parked;
    thread_ = std::thread([this] {
      t_task = &task;
      const std::thread::id me = std::this_thread::get_id();
      until_shared([this, me] {
        (std::this_thread::get_id() == me ? asked_by_itself : asked_by_others).fetch_add(1);
        return flag.load();
      });
      over = true;
    });
    see([&] { return over || g_parked != before || asked_by_itself > 20; });
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] bool is_parked() const { return !over && asked_by_itself == 1; }

  FakeTask task;
  std::atomic<bool> flag{false};
  std::atomic<bool> over{false};
  std::atomic<int> asked_by_itself{0};
  std::atomic<int> asked_by_others{0};

 private:
  std::thread thread_;
};

class ParkedTasks : public testing::Test {
 protected:
  void SetUp() override {
    g_parked = g_woken = g_regions = 0;
    install_actions(&work_, {.least_spin = 0, .most_spin = 0, .cores = 2});
    set_task_library(&kLibrary, [] { return g_regions.load(); });
  }
  void TearDown() override {
    set_task_library(nullptr, nullptr);
    install_actions(nullptr, {});
  }
  static mh_poll poll(unsigned workers = 1) { return parked_waits().poll(workers); }
  static void end_idle() { parked_waits().end_idle(); }
  Nothing work_;
};

TEST_F(ParkedTasks, a_look_ends_the_wait_whose_message_has_come) {
  Task first;
  Task second;
  ASSERT_TRUE(first.is_parked() && second.is_parked());
  EXPECT_EQ(poll(), MH_POLL_NOTHING);
  EXPECT_EQ(first.asked_by_others, 1);
  EXPECT_EQ(second.asked_by_others, 1);
  second.flag = true;
  EXPECT_EQ(poll(), MH_POLL_FOUND);
  second.join();
  EXPECT_TRUE(second.over && second.asked_by_itself == 1);
  EXPECT_TRUE(first.is_parked());
  EXPECT_EQ(g_woken, 1);
  first.flag = true;
  EXPECT_EQ(poll(), MH_POLL_FOUND);
  end_idle();
}

TEST_F(ParkedTasks, a_task_with_its_message_does_not_park) {
  t_task = reinterpret_cast<FakeTask*>(this);
  int asked = 0;
  until_shared([&] { return ++asked == 1; });
  t_task = nullptr;
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(g_parked, 0);
}

TEST_F(ParkedTasks, a_task_that_wakes_for_another_reason_parks_again) {
  Task task;
  signal(task.task);
  see([] { return g_parked == 2; });
  EXPECT_TRUE(task.is_parked());
  task.flag = true;
  EXPECT_EQ(poll(), MH_POLL_FOUND);
  end_idle();
}

TEST_F(ParkedTasks, a_fruitless_look_helps_other_ranks) {
  Task task;
  EXPECT_EQ(poll(), MH_POLL_NOTHING);  // a wait begins to help after its first look
  see([this] {
    poll();
    return work_.helped > 0;
  });
  EXPECT_TRUE(work_.idle);
  task.flag = true;
  EXPECT_EQ(poll(), MH_POLL_FOUND);
  EXPECT_FALSE(work_.idle);
  end_idle();
}

TEST_F(ParkedTasks, one_worker_looks_until_it_has_a_task) {
  Task task;
  EXPECT_EQ(poll(), MH_POLL_NOTHING);
  const auto of_another = [](unsigned workers) {
    mh_poll seen = MH_POLL_FOUND;
    std::thread([&] {
      seen = poll(workers);
      end_idle();
    }).join();
    return seen;
  };
  EXPECT_EQ(of_another(2), MH_POLL_ELSEWHERE);
  EXPECT_EQ(of_another(0), MH_POLL_ELSEWHERE);
  end_idle();
  EXPECT_EQ(of_another(2), MH_POLL_NOTHING);
  task.flag = true;
  EXPECT_EQ(of_another(2), MH_POLL_FOUND);
}

TEST_F(ParkedTasks, a_worker_with_other_tasks_looks_now_and_then) {
  Task task;
  see([&] {
    poll(0);
    return task.asked_by_others == 2;
  });
  EXPECT_EQ(work_.helped, 0);
  task.flag = true;
  see([] { return poll(0) == MH_POLL_FOUND; });
}

TEST_F(ParkedTasks, a_wait_within_a_look_does_not_park) {
  Task task;
  ASSERT_TRUE(parking::begin_polling());
  t_task = reinterpret_cast<FakeTask*>(this);
  int asked = 0;
  until_shared([&] { return ++asked == 20; });
  t_task = nullptr;
  parking::end_polling();
  EXPECT_EQ(g_parked, 1);
  task.flag = true;
  EXPECT_EQ(poll(), MH_POLL_FOUND);
  end_idle();
}

TEST_F(ParkedTasks, a_task_in_a_region_of_openmp_waits_itself) {
  g_regions = 1;
  Task task;
  EXPECT_GT(task.asked_by_itself, 20);
  EXPECT_EQ(g_parked, 0);
  task.flag = true;
}

TEST_F(ParkedTasks, where_waits_are_not_shared_a_task_waits_itself) {
  share_no_waits();
  Task task;
  EXPECT_GT(task.asked_by_itself, 20);
  EXPECT_EQ(g_parked, 0);
  task.flag = true;
}

}  // namespace
}  // namespace mh::wait
