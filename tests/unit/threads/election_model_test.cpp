// SPDX-License-Identifier: BSD-3-Clause
// Explores the election of the server among waiting threads, under all interleavings with delayed
// stores (ult/checker.hpp). No wake-up is lost, no thread waits without a server, and there is one
// server at a time. For each rule of the protocol, a scenario breaks the rule, and the checker must
// find the fault.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "threads/election.hpp"
#include "ult/model.hpp"

namespace mh::threads {
namespace {

using ult::check::expect_holds;
using ult::check::explore;
using ult::check::Explorer;
using ult::check::Flag;
using ult::check::Model;
using ult::check::preempted;
using ult::check::require;
using ult::check::Threads;

// Threads that wait for messages; messages[i] is for thread i. If `kTells` is false, the server
// tells sitting threads only when it leaves that their waits are over, otherwise after each look.
template <std::size_t kWaiters, bool kTells = true>
struct World {
  struct Waiter : Seat<Model> {
    std::size_t number = 0;
  };
  Election<Model> election;
  std::array<Flag, kWaiters> messages{};
  std::array<bool, kWaiters> sits{};
  bool serving = false;

  void receive(std::size_t me) {
    Waiter waiter;
    waiter.number = me;
    if (!election.enter(waiter)) {
      sits[me] = true;
      if (Election<Model>::await(waiter) == Seated::told) {
        require(messages[me].load(std::memory_order_relaxed) != 0, "told without a message");
        take(me);
        return;
      }
    }
    sits[me] = false;
    serve(me);
    take(me);
  }
  void take(std::size_t me) { messages[me].store(0, std::memory_order_relaxed); }

  void serve(std::size_t me) {
    require(!serving, "two threads serve");
    serving = true;
    while (messages[me].load(std::memory_order_acquire) == 0) {
      election.collect();
      election.look([this](Seat<Model>& seat) {
        const std::size_t other = static_cast<Waiter&>(seat).number;
        if (messages[other].load(std::memory_order_acquire) == 0) return false;
        sits[other] = false;
        return true;
      });
      if (kTells) {
        while (election.has_ready()) election.tell_newest();
      }
      Explorer::now().await([this, me] { return is_news(me); });
    }
    serving = false;
    election.leave([] {});
  }
  // Returns whether the server's next poll would find a message, for itself or for a sitting
  // thread.
  bool is_news(std::size_t server) const {
    for (std::size_t i = 0; i < kWaiters; ++i) {
      if ((i == server || sits[i]) && messages[i].load() != 0) return true;
    }
    return false;
  }
  void send(std::size_t to) { messages[to].store(1, std::memory_order_release); }
  void at_end() {
    require(!serving && election.try_serve(), "somebody still serves");
    require(!election.has_waiters(), "somebody still sits");
  }
};

// Two threads wait, and a third thread, which does not wait, sends their messages.
template <bool kTells>
struct TwoWaiters : World<2, kTells> {
  Threads threads() {
    return {[this] { this->receive(0); }, [this] { this->receive(1); },
            [this] {
              this->send(1);
              this->send(0);
            }};
  }
};
TEST(ElectionModel, every_waiter_gets_its_message) {
  expect_holds(explore<TwoWaiters<true>>(preempted(2)), 1000);
}

TEST(ElectionModel, a_server_that_leaves_tells_those_whose_waits_are_over) {
  expect_holds(explore<TwoWaiters<false>>(preempted(2)), 1000);
}

// Each thread that has got its message sends the message of the next thread. If it is the server,
// it must have handed that role on before it sends.
struct Chain : World<3> {
  Chain() { send(0); }
  Threads threads() {
    return {[this] {
              receive(0);
              send(1);
            },
            [this] {
              receive(1);
              send(2);
            },
            [this] { receive(2); }};
  }
};

TEST(ElectionModel, a_server_that_leaves_hands_on) {
  expect_holds(explore<Chain>(preempted(2)), 1000);
}

// Two threads wait repeatedly, with seats at the same addresses on their stacks.
struct PingPong : World<2> {
  PingPong() { send(0); }
  Threads threads() {
    return {[this] {
              receive(0);
              send(1);
              receive(0);
            },
            [this] {
              receive(1);
              send(0);
            }};
  }
};

TEST(ElectionModel, a_seat_is_used_again) { expect_holds(explore<PingPong>(preempted(3)), 1000); }

// Breaks a rule on purpose: the server and the list of sitting threads are in two words instead of
// one.
struct TwoWords {
  Flag served{1}, seat{0}, word{0};

  Threads threads() {
    return {[this] {  // the server, whose wait is over
              if (seat.load() == 0) {
                served.store(0);
              } else {
                word.store(1);
                Model::wake(&word);
              }
            },
            [this] {  // a waiter
              if (served.exchange(1) == 0) return;
              seat.store(1);
              while (word.load() == 0) Model::sleep(word, 0, 0);
            }};
  }
  void at_end() {}
};

TEST(ElectionModel, with_two_words_somebody_waits_without_a_server) {
  EXPECT_EQ(explore<TwoWords>().failure, "nobody can go on");
}

// Breaks a rule on purpose: the server looks once more for sitting threads, and then leaves by a
// plain store instead of a compare-and-swap. A thread may sit down in between.
struct LeavesBlindly {
  Flag door{1}, word{0};

  Threads threads() {
    return {[this] {
              if (door.load() == 1) {
                door.store(0);
              } else {
                word.store(1);
                Model::wake(&word);
              }
            },
            [this] {
              std::uint32_t seen = 1;
              if (!door.compare_exchange_strong(seen, 2)) return;  // the server has left
              while (word.load() == 0) Model::sleep(word, 0, 0);
            }};
  }
  void at_end() {}
};

TEST(ElectionModel, a_server_that_leaves_by_a_store_forgets_somebody) {
  EXPECT_EQ(explore<LeavesBlindly>().failure, "nobody can go on");
}

// Breaks a rule on purpose: the server wakes a sitting thread before it has written that the
// thread's wait is over.
struct WakesFirst {
  Flag word{0};
  Threads threads() {
    return {[this] {
              Model::wake(&word);
              word.store(1);
            },
            [this] {
              while (word.load() == 0) Model::sleep(word, 0, 0);
            }};
  }
  void at_end() {}
};

TEST(ElectionModel, waking_before_telling_loses_a_wake_up) {
  EXPECT_EQ(explore<WakesFirst>().failure, "nobody can go on");
}

}  // namespace
}  // namespace mh::threads
