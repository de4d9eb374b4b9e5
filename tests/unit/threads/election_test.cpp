// SPDX-License-Identifier: BSD-3-Clause
// Tests the election of the server among waiting threads, with real threads.
#include "threads/election.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "base/atomics.hpp"
#include "support/sanitizer.hpp"

namespace mh::threads {
namespace {

// Threads of a rank, each with a mailbox in which it waits for messages.
class Office {
 public:
  explicit Office(std::size_t threads) : boxes_(threads) {}

  void send(std::size_t to) { boxes_[to].messages.fetch_add(1, std::memory_order_release); }

  // Waits for a message and removes the message.
  void receive(std::size_t me) {
    Waiter waiter;
    waiter.number = me;
    if (election_.enter(waiter) || Election<RealAtomics>::await(waiter) == Seated::serves)
      serve(me);
    ASSERT_GT(boxes_[me].messages.fetch_sub(1, std::memory_order_acquire), 0);
  }
  [[nodiscard]] std::uint64_t told() const { return told_.load(); }

 private:
  struct Waiter : Seat<RealAtomics> {
    std::size_t number = 0;
  };
  struct alignas(kCacheLine) Box {
    std::atomic<int> messages{0};
  };

  [[nodiscard]] bool has_message(std::size_t number) const {
    return boxes_[number].messages.load(std::memory_order_acquire) > 0;
  }
  void serve(std::size_t me) {
    EXPECT_FALSE(serving_.exchange(true)) << "two threads serve";
    while (!has_message(me)) {
      election_.collect();
      election_.look([this](Seat<RealAtomics>& seat) {
        const bool over = has_message(static_cast<Waiter&>(seat).number);
        told_.fetch_add(over ? 1 : 0);
        return over;
      });
      // After each look, if waits of threads on seats are over, the server tells one of these
      // threads so: by turns the one whose wait was found over last, or first. Every third time it
      // tells nobody; leave() tells all threads that are left.
      if (election_.has_ready() && ++looks_ % 3 != 0) {
        looks_ % 2 == 0 ? election_.tell_newest() : election_.tell_oldest();
      }
      std::this_thread::yield();
    }
    serving_ = false;
    election_.leave([] {});
  }

  Election<RealAtomics> election_;
  unsigned looks_ = 0;  // number of the server's looks
  std::vector<Box> boxes_;
  std::atomic<bool> serving_{false};
  std::atomic<std::uint64_t> told_{0};
};

TEST(Election, pairs_of_threads_play_to_the_end) {
  constexpr std::size_t kPairs = 8;
  const int rounds = test::kSanitized ? 500 : 5000;
  Office office(2 * kPairs);
  std::vector<std::thread> players;
  for (std::size_t me = 0; me < 2 * kPairs; ++me) {
    players.emplace_back([&office, me] {
      for (int round = 0; round < rounds; ++round) {
        if (me % 2 == 0) office.send(me + 1);
        office.receive(me);
        if (me % 2 == 1) office.send(me - 1);
      }
    });
  }
  for (std::thread& player : players) player.join();
  EXPECT_GT(office.told(), 0U) << "nobody ever slept";
}

// The number of messages to send. The long form, MH_ELECTION_STRESS=100000000, takes minutes on two
// cores.
std::int64_t messages() {
  const char* text = std::getenv("MH_ELECTION_STRESS");
  if (text != nullptr) return std::atoll(text);
  return test::kSanitized ? 2'000 : 30'000;
}

// In each round every thread sends a message to some thread and receives one. A lost wake-up is a
// hang, which ends at the time limit of the test.
TEST(Election, messages_to_any_thread_all_arrive) {
  constexpr std::size_t kThreads = 6;
  const std::int64_t rounds = messages() / static_cast<std::int64_t>(kThreads);
  Office office(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t me = 0; me < kThreads; ++me) {
    threads.emplace_back([&office, rounds, me] {
      std::minstd_rand same(7);  // equal numbers in all threads: each gets a message per round
      for (std::int64_t round = 0; round < rounds; ++round) {
        office.send((me + same()) % kThreads);
        office.receive(me);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Threads end right after their waits, and the memory of their seats, on their stacks, goes with
// them.
TEST(Election, threads_come_and_go) {
  const int generations = test::kSanitized ? 20 : 200;
  Office office(8);
  for (int generation = 0; generation < generations; ++generation) {
    std::vector<std::thread> threads;
    for (std::size_t me = 0; me < 8; ++me) {
      threads.emplace_back([&office, me] {
        office.send((me + 3) % 8);
        office.receive(me);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace mh::threads
