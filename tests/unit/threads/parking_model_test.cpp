// SPDX-License-Identifier: BSD-3-Clause
// Explores how light tasks park in waits, under all interleavings with delayed stores
// (ult/checker.hpp). Each task gets its message, one thread looks at a time, and no thread touches
// a seat that its task has left. For each rule of the protocol, a scenario breaks the rule, and the
// checker must find the fault.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "threads/parking.hpp"
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

// Light tasks that wait for messages. A thread of the checker plays each task. A task sleeps until
// it has a signal, and consumes the signal.
template <std::size_t kTasks>
struct World {
  struct Seat : ParkedSeat<Model> {
    std::size_t task = 0;
  };
  Parking<Model> parking;
  std::array<Flag, kTasks> messages{};
  std::array<Flag, kTasks> signals{};
  std::array<bool, kTasks> sits{};
  std::uint32_t found = 0;
  bool looking = false;

  void signal(std::size_t task) {
    signals[task].store(1, std::memory_order_seq_cst);
    Model::wake(&signals[task]);
  }
  void send(std::size_t task) { messages[task].store(1, std::memory_order_release); }

  void receive(std::size_t me, Seat& seat) {
    seat.task = me;
    parking.sit(seat);
    sits[me] = true;
    while (!seat.is_told()) {
      while (signals[me].exchange(0) == 0) Model::sleep(signals[me], 0, 0);
    }
    Explorer::now().await([&seat] { return seat.is_left(); });
    require(messages[me].exchange(0) != 0, "told without a message");
  }
  void receive(std::size_t me) {
    Seat seat;
    receive(me, seat);
  }

  // Plays a worker: looks at the seats of the parked tasks until `all` waits are over.
  void look_until(std::uint32_t all) {
    while (found < all) {
      Explorer::now().await([this, all] { return found >= all || (!looking && is_news()); });
      if (!parking.enter()) continue;
      require(!looking, "two threads look");
      looking = true;
      found += parking.poll(
          [this](ParkedSeat<Model>& seat) {
            const std::size_t task = static_cast<Seat&>(seat).task;
            if (messages[task].load(std::memory_order_acquire) == 0) return false;
            sits[task] = false;
            return true;
          },
          [this](ParkedSeat<Model>& seat) { signal(static_cast<Seat&>(seat).task); });
      looking = false;
      parking.leave();
    }
  }
  // Returns whether another look at the parked tasks would find a message.
  bool is_news() const {
    for (std::size_t task = 0; task < kTasks; ++task) {
      if (sits[task] && messages[task].load() != 0) return true;
    }
    return false;
  }
  void at_end() { require(parking.enter(), "a thread still looks"); }
};

struct OneTask : World<1> {
  Threads threads() {
    return {[this] { receive(0); },
            [this] {
              send(0);
              look_until(1);
            }};
  }
};

TEST(ParkingModel, a_task_gets_its_message) { expect_holds(explore<OneTask>(preempted(3)), 1000); }

struct TwoTasks : World<2> {
  Threads threads() {
    return {[this] { receive(0); }, [this] { receive(1); },
            [this] {
              send(1);
              send(0);
              look_until(2);
            }};
  }
};

TEST(ParkingModel, every_task_gets_its_message) {
  expect_holds(explore<TwoTasks>(preempted(0)), 1000);
}

struct TwoLookers : World<1> {
  Threads threads() {
    return {[this] {
              send(0);
              receive(0);
            },
            [this] { look_until(1); }, [this] { look_until(1); }};
  }
};

TEST(ParkingModel, one_thread_looks_at_a_time) {
  expect_holds(explore<TwoLookers>(preempted(2)), 1000);
}

// The task waits twice, each time in a seat at the same address, and gets a signal that says
// nothing about its wait.
struct SameMemory : World<1> {
  Threads threads() {
    return {[this] {
              alignas(Seat) std::byte memory[sizeof(Seat)];
              for (int wait = 0; wait < 2; ++wait) {
                auto* seat = ::new (static_cast<void*>(memory)) Seat;
                send(0);
                receive(0, *seat);
              }
            },
            [this] { look_until(2); }, [this] { signal(0); }};
  }
};

TEST(ParkingModel, a_task_that_wakes_for_another_reason_keeps_its_seat) {
  expect_holds(explore<SameMemory>(preempted(0)), 1000);
}

// Breaks a rule on purpose: the seat has a single word for `told` (by the looking thread) and
// `left` (by its task). The looking thread reads the seat's task after it has written the word,
// when the seat may be gone.
struct ReadsAfterTelling {
  Flag word{0}, signal{0};
  bool gone = false;
  Threads threads() {
    return {[this] {
              while (word.load() == 0) {
                while (signal.exchange(0) == 0) Model::sleep(signal, 0, 0);
              }
              gone = true;
            },
            [this] {
              word.store(1);
              Explorer::now().step();
              require(!gone, "the seat is gone");
              signal.store(1);
              Model::wake(&signal);
            },
            [this] {
              signal.store(1);
              Model::wake(&signal);
            }};
  }
  void at_end() {}
};

TEST(ParkingModel, a_seat_with_one_word_is_gone_too_early) {
  EXPECT_EQ(explore<ReadsAfterTelling>().failure, "the seat is gone");
}

// Breaks a rule on purpose: the looking thread wakes the task before it has written that the wait
// is over.
struct WakesFirst {
  Flag word{0}, signal{0};
  Threads threads() {
    return {[this] {
              signal.store(1);
              Model::wake(&signal);
              word.store(1);
            },
            [this] {
              while (word.load() == 0) {
                while (signal.exchange(0) == 0) Model::sleep(signal, 0, 0);
              }
            }};
  }
  void at_end() {}
};

TEST(ParkingModel, waking_before_telling_loses_a_task) {
  EXPECT_EQ(explore<WakesFirst>().failure, "nobody can go on");
}

}  // namespace
}  // namespace mh::threads
