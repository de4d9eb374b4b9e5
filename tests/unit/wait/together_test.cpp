// SPDX-License-Identifier: BSD-3-Clause
// Threads of a rank that wait together in until_shared(), where one polls for all.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"
#include "wait/wait.hpp"

namespace mh::wait {
namespace {

// Actions for the wait loop that do nothing, except that progress() calls the function `within`,
// which the test sets.
class Nothing : public WaitActions {
 public:
  void progress() override {
    if (within) within();
  }
  bool copy_own_chunk() override { return false; }
  bool lend_to_partner() override { return false; }
  bool copy_own_chunk_nested() override { return false; }
  bool help() override {
    helped.fetch_add(1);
    return false;
  }
  void end() override {}
  void set_idle(bool /*now*/) override {}
  void set_waiting(std::uint64_t /*since*/) override {}
  void count_wait(std::uint64_t /*waited*/) override { accounted.fetch_add(1); }
  void between_polls() override { polls.fetch_add(1); }
  bool is_guest() override { return guest; }
  bool is_overdue() override { return false; }
  void return_core() override {}

  std::function<void()> within;
  std::atomic<int> helped{0};
  std::atomic<int> polls{0};  // failed polls by servers
  std::atomic<int> accounted{0};
  std::atomic<bool> guest{false};
};

constexpr WaitRules on_cores(std::uint32_t cores) {
  return {.least_spin = 0, .most_spin = 0, .oversubscribed = false, .cores = cores};
}

// A thread that waits for its flag, and records which thread polled the flag.
class Sleeper {
 public:
  Sleeper()
      : thread_([this] {
          const std::thread::id me = std::this_thread::get_id();
          until_shared([this, me] {
            (std::this_thread::get_id() == me ? asked_by_itself : asked_by_others).fetch_add(1);
            return flag.load();
          });
          over = true;
        }) {}
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() { end(); }

  void end() {
    flag = true;
    if (thread_.joinable()) thread_.join();
  }
  // Waits until `thing` is true, which is sure to happen.
  static void see(const std::function<bool()>& thing) {
    while (!thing()) std::this_thread::yield();
  }

  std::atomic<bool> flag{false};
  std::atomic<bool> over{false};
  std::atomic<int> asked_by_itself{0};
  std::atomic<int> asked_by_others{0};

 private:
  std::thread thread_;
};

class Together : public testing::Test {
 protected:
  void start(const WaitRules& rules) { install_actions(&work_, rules); }
  void TearDown() override { install_actions(nullptr, {}); }

  // Returns a thread that is the server, and has polled for a while before other threads start to
  // wait.
  std::unique_ptr<Sleeper> server() {
    auto made = std::make_unique<Sleeper>();
    Sleeper::see([&] { return made->asked_by_itself > 20; });
    return made;
  }
  // Returns a thread that sleeps on a seat: the server polls its flag.
  static std::unique_ptr<Sleeper> seated() {
    auto made = std::make_unique<Sleeper>();
    Sleeper::see([&] { return made->asked_by_others > 0; });
    return made;
  }
  // Lets a thread sleep on a seat, be told by the server that its wait is over, and end.
  void seated_and_ended() {
    const auto first = server();
    const auto second = seated();
    second->end();
  }
  Nothing work_;
};

TEST_F(Together, with_more_threads_than_cores_one_polls_for_the_others) {
  start(on_cores(1));
  const auto first = server();
  const auto second = seated();
  const int alone = second->asked_by_itself;
  second->end();
  EXPECT_TRUE(second->over);
  EXPECT_EQ(second->asked_by_itself, alone) << "it slept until it was told";
  EXPECT_FALSE(first->over);
}

TEST_F(Together, a_server_whose_wait_is_over_passes_the_role_on) {
  start(on_cores(1));
  const auto first = server();
  std::vector<std::unique_ptr<Sleeper>> others;
  for (int i = 0; i < 5; ++i) others.push_back(seated());
  first->end();
  for (const auto& other : others) other->end();
  EXPECT_EQ(work_.accounted, 6);
}

TEST_F(Together, others_get_their_messages_while_the_server_waits_on) {
  start(on_cores(1));
  const auto first = server();
  std::vector<std::unique_ptr<Sleeper>> others;
  for (int i = 0; i < 20; ++i) others.push_back(seated());
  for (const auto& other : others) other->flag = true;  // all waits end at once
  for (const auto& other : others) other->end();
  EXPECT_FALSE(first->over);
}

TEST_F(Together, where_each_thread_has_a_core_each_polls_for_itself) {
  start(on_cores(8));
  const auto first = server();
  const auto second = server();
  second->end();
  EXPECT_EQ(second->asked_by_others, 0);
}

TEST_F(Together, where_threads_do_not_wait_together_each_polls_for_itself) {
  start(on_cores(0));
  const auto first = server();
  const auto second = server();
  second->end();
  EXPECT_EQ(second->asked_by_others, 0);
}

TEST_F(Together, after_share_no_waits_no_thread_sits_and_seated_threads_are_woken) {
  start(on_cores(1));
  const auto first = server();
  const auto second = seated();
  share_no_waits();
  const auto third = server();
  third->end();
  EXPECT_EQ(third->asked_by_others, 0);
  second->end();
}

TEST_F(Together, a_guest_polls_for_itself) {
  start(on_cores(1));
  const auto first = server();
  work_.guest = true;
  const auto second = server();
  second->end();
  EXPECT_EQ(second->asked_by_others, 0);
}

TEST_F(Together, a_wait_within_the_servers_own_work_does_not_sit_down) {
  start(on_cores(1));
  int within = 0;
  work_.within = [&] {
    if (within++ != 10) return;
    int polls = 0;
    until_shared([&] { return ++polls == 20; });
  };
  const auto first = server();
  first->end();
  EXPECT_GT(within, 10);
}

TEST_F(Together, nobody_else_is_helped_while_a_thread_of_the_rank_may_run) {
  start(on_cores(1));
  const auto first = server();
  const auto second = seated();
  const auto third = seated();
  Sleeper::see([&] { return work_.helped > 0; });  // all three threads wait
  second->end();                                   // the second thread ends and does not return
  // A step of the wait loop that began before the second thread ended may still help another rank
  // once.
  const int before = work_.helped;
  const int polls = first->asked_by_itself;
  Sleeper::see([&] { return first->asked_by_itself > polls + 20; });
  EXPECT_LE(work_.helped, before + 1);
}

TEST_F(Together, others_are_helped_when_a_thread_that_waited_has_ended) {
  start(on_cores(1));
  seated_and_ended();
  const auto alone = server();
  const int before = work_.helped;
  Sleeper::see([&] { return work_.helped > before; });
}

// Binds this thread, and the threads that it starts later, to a single core.
class OneCore {
 public:
  OneCore() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;
  ~OneCore() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

// Two threads on one core wait in turn, each for a number that only the other thread raises. The
// server, the thread that polls for both, wakes the other thread when the wait of that thread is
// over, and yields the core to it. A server that kept the core would poll tens of thousands of
// times in each round, until the end of its time slice.
TEST_F(Together, a_server_gives_its_core_to_a_thread_whose_wait_has_ended) {
  constexpr int kRounds = 200;
  start(on_cores(1));
  const OneCore here;
  std::atomic<int> turn{0};
  auto play = [&turn](int me) {
    for (int round = 0; round < kRounds; ++round) {
      until_shared([&] { return turn.load() % 2 == me; });
      turn.fetch_add(1);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_LT(work_.polls, kRounds * 5000);
}

// Pairs of threads wait in one rank. Each thread sends to its partner and waits for the partner's
// message.
TEST_F(Together, messages_between_many_threads_all_arrive) {
  constexpr int kPairs = 40;
  const int rounds = test::kSanitized ? 30 : 500;
  start(on_cores(1));
  std::vector<std::atomic<int>> boxes(std::size_t{2} * kPairs);
  std::vector<std::thread> threads;
  for (int me = 0; me < 2 * kPairs; ++me) {
    threads.emplace_back([&boxes, me] {
      const int other = me ^ 1;
      for (int round = 0; round < rounds; ++round) {
        if (me % 2 == 0) boxes[static_cast<std::size_t>(other)].fetch_add(1);
        until_shared([&] { return boxes[static_cast<std::size_t>(me)].load() > 0; });
        boxes[static_cast<std::size_t>(me)].fetch_sub(1);
        if (me % 2 == 1) boxes[static_cast<std::size_t>(other)].fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace mh::wait
