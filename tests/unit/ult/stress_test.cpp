// SPDX-License-Identifier: BSD-3-Clause
// A stress test for lost wake-ups. Tasks pass tokens to random other tasks; each pass is a signal
// and a wait. Between the passes the tasks yield, spawn, join and lock at random, and an ordinary
// thread sends signals. After a lost wake-up the test hangs until its time limit. MH_ULT_STRESS
// sets the number of operations for each number of workers. The long form is 100000000: two minutes
// on two cores.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "manyhands/ult.hpp"
#include "support/sanitizer.hpp"

namespace mh::ult {
namespace {

std::int64_t operations() {
  const char* text = std::getenv("MH_ULT_STRESS");
  if (text != nullptr) return std::atoll(text);
  return test::kSanitized ? 30'000 : 600'000;
}

class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed * 2654435761U + 1) {}
  std::uint32_t below(std::uint32_t n) {
    state_ = state_ * 1664525U + 1013904223U;
    return static_cast<std::uint32_t>((std::uint64_t{state_} * n) >> 32U);
  }

 private:
  std::uint32_t state_;
};

constexpr std::uint32_t kTasks = 48;
constexpr int kTokens = 12;

struct Player {
  std::atomic<int> inbox{0};
  std::atomic<TaskRef> ref{};
};

struct Game {
  std::array<Player, kTasks> players;
  std::atomic<std::int64_t> left;
  std::atomic<bool> over{false};
  std::atomic<int> ready{0};
  Mutex mutex;
  std::int64_t guarded = 0;  // guarded by `mutex`

  void give(std::uint32_t to) {
    ++players[to].inbox;
    players[to].ref.load().signal();
  }
  void end() {
    over = true;
    for (Player& player : players) player.ref.load().signal();
  }
  // Does an operation other than a pass of a token, chosen at random, or none, so that the workers
  // meet in many states.
  void detour(Random& random) {
    switch (random.below(8)) {
      case 0:
        return yield();
      case 1: {
        const Result<Task> child = spawn([] { yield(); });
        return;  // the destructor joins the child
      }
      case 2: {
        Group group;
        for (int i = 0; i < 3; ++i) group.spawn([] {});
        return;
      }
      case 3:
        mutex.lock();
        ++guarded;
        if (random.below(4) == 0) yield();
        return mutex.unlock();
      default:
        return;
    }
  }
  void play(std::uint32_t me) {
    Random random(me);
    players[me].ref = self();
    ++ready;
    while (!over) {
      if (players[me].inbox.load() == 0) {
        wait();
        continue;
      }
      --players[me].inbox;
      if (left.fetch_sub(1) <= 0) return end();
      detour(random);
      give(random.below(kTasks));
    }
  }
};

class Stress : public testing::TestWithParam<unsigned> {};

INSTANTIATE_TEST_SUITE_P(Ult, Stress, testing::Values(1U, 2U, 5U), [](const auto& workers) {
  return std::to_string(workers.param) + "_workers";
});

TEST_P(Stress, no_wake_up_is_lost) {
  Config config;
  config.workers = GetParam();
  config.tasks_per_worker = 512;
  Result<Scheduler> scheduler = Scheduler::start(config);
  ASSERT_TRUE(scheduler.ok());
  auto game = std::make_unique<Game>();
  game->left = operations();
  std::vector<Task> tasks;
  for (std::uint32_t i = 0; i < kTasks; ++i) {
    tasks.push_back(std::move(*scheduler->spawn([&game = *game, i] { game.play(i); })));
  }
  while (game->ready != kTasks) std::this_thread::yield();
  for (std::uint32_t i = 0; i < kTokens; ++i) game->give(i);
  // An ordinary thread sends signals without passing a token. They must have no effect.
  Random random(77);
  while (!game->over) {
    game->players[random.below(kTasks)].ref.load().signal();
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(200)));
  }
  for (Task& task : tasks) EXPECT_TRUE(task.join().ok());
}

}  // namespace
}  // namespace mh::ult
