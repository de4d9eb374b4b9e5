// SPDX-License-Identifier: BSD-3-Clause
// Explores the protocols of libs/ult (light tasks) under all interleavings (checker.hpp). Each
// scenario states the conditions that must hold. Other scenarios break one rule of a protocol on
// purpose, and the checker must find the failure.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ult/bits.hpp"
#include "ult/doorbell.hpp"
#include "ult/join_word.hpp"
#include "ult/model.hpp"
#include "ult/state.hpp"

namespace mh::ult::check {
namespace {

// --- the checker itself -----------------------------------------------------------------------

// Each of two threads stores to one variable, then loads the other thread's. Without fences, both
// loads may return the old values on x86.
template <bool kFenced>
struct StoreBuffers {
  Flag x{0}, y{0};
  std::uint32_t seen_x = 1, seen_y = 1;

  static constexpr auto kOrder = kFenced ? std::memory_order_seq_cst : std::memory_order_release;

  Threads threads() {
    return {[this] {
              x.store(1, kOrder);
              seen_y = y.load();
            },
            [this] {
              y.store(1, kOrder);
              seen_x = x.load();
            }};
  }
  void at_end() { require(seen_x + seen_y != 0, "both missed the other's store"); }
};

TEST(Checker, finds_what_store_buffers_do) {
  EXPECT_EQ(explore<StoreBuffers<false>>().failure, "both missed the other's store");
  expect_holds(explore<StoreBuffers<true>>(), 4);
}

struct SleepsForEver {
  Flag word{0};
  Threads threads() {
    return {[this] { Model::sleep(word, 0, 0); },
            [this] {
              Model::wake(&word);
              word.store(1);
            }};
  }
  void at_end() {}
};

TEST(Checker, finds_a_sleeper_that_nobody_wakes) {
  EXPECT_EQ(explore<SleepsForEver>().failure, "nobody can go on");
}

// --- sets of bits -----------------------------------------------------------------------------

template <std::uint32_t kSlots>
struct Memory {
  std::array<Model::Atomic<std::uint64_t>, BitSetShape{kSlots}.words()> words{};
};

// Two threads set bits in one word of a SharedBits set. Meanwhile the set's owner searches, takes a
// bit and clears the hints for words without bits.
template <std::uint32_t kSlots>
struct SettersAndOwner {
  static constexpr std::uint32_t kFirst = kSlots - 60, kSecond = kSlots - 1;
  Memory<kSlots> memory;
  SharedBits<Model> bits{BitSetShape{kSlots}, memory.words.data()};
  int taken = 0;

  Threads threads() {
    return {[this] { bits.set(kFirst); }, [this] { bits.set(kSecond); },
            [this] {
              for (int look = 0; look < 2; ++look) take_one();
            }};
  }
  void take_one() {
    const std::uint32_t slot = bits.find(0);
    if (slot != kNoSlot && bits.take(slot)) ++taken;
  }
  void at_end() {
    for (int look = 0; look < 2; ++look) take_one();
    require(taken == 2, "a bit was lost, or taken twice");
  }
};

TEST(SharedBitsModel, no_bit_is_lost_while_the_owner_clears_hints) {
  expect_holds(explore<SettersAndOwner<512>>(preempted(3)), 100);
  expect_holds(explore<SettersAndOwner<8192>>(preempted(2)), 100);
}

// Sets and clears bits in the order that the dissertation on FULT prints: when setting, the hint
// before the leaf (the word of bits); when clearing, the leaf before the hint.
struct PublishedOrder {
  Model::Atomic<std::uint64_t> hint{0}, leaf{0};
  bool taken = false;

  void look() {
    if (hint.load() == 0) return;
    if (leaf.exchange(0) != 0) taken = true;
    hint.exchange(0);
  }
  Threads threads() {
    return {[this] {
              hint.fetch_or(1);
              leaf.fetch_or(1);
            },
            [this] { look(); }};
  }
  void at_end() {
    look();
    require(taken, "the bit was lost");
  }
};

TEST(SharedBitsModel, the_order_printed_in_the_dissertation_loses_a_bit) {
  EXPECT_EQ(explore<PublishedOrder>().failure, "the bit was lost");
}

struct TwoTakers {
  Memory<512> memory;
  SharedBits<Model> bits{BitSetShape{512}, memory.words.data()};
  int taken = 0;

  TwoTakers() { bits.set(3); }
  Threads threads() {
    const auto take = [this] { taken += bits.take(3) ? 1 : 0; };
    return {take, take, [this] { taken += bits.take_word(0) != 0 ? 1 : 0; }};
  }
  void at_end() { require(taken == 1, "a bit was taken twice or not at all"); }
};

TEST(SharedBitsModel, one_of_several_takers_gets_a_bit) { expect_holds(explore<TwoTakers>(), 6); }

// --- one task that waits for a condition ------------------------------------------------------

constexpr std::uint32_t kSlot = 7;

// A light task that does `while (!condition) wait();`. The thread that claims the task runs it.
struct OneTask {
  Memory<512> memory;
  SharedBits<Model> signals{BitSetShape{512}, memory.words.data()};
  TaskState<Model> state;
  Flag condition{0}, done{0};
  Watch<Model> watch;
  Doorbell<Model> bell;  // the bell of the task's home
  bool runs = false;

  // Runs the task on the worker that claimed it, until the task blocks or ends.
  void run() {
    require(!runs, "the task runs twice at a time");
    runs = true;
    while (condition.load(std::memory_order_acquire) == 0) {
      if (state.consume()) continue;
      runs = false;  // the task is off its stack
      if (!state.block()) publish();
      return;
    }
    runs = false;
    state.end();
    done.store(1, std::memory_order_seq_cst);
    bell.ring(watch);  // lets the loop in home() end
  }
  void publish() {
    signals.set(kSlot);
    bell.ring(watch);
  }
  bool take() {
    const std::uint32_t slot = signals.first_from(0);
    return slot != kNoSlot && signals.take(slot) && state.claim_signalled();
  }
  void home() {
    while (done.load() == 0) {
      const std::uint32_t slot = signals.find(0);
      if (slot != kNoSlot) {
        if (signals.take(slot) && state.claim_signalled()) run();
      } else {
        bell.rest(watch, Sleep::asleep, 0,
                  [this] { return signals.first_from(0) != kNoSlot || done.load() != 0; });
      }
    }
  }
  void signaller() {
    condition.store(1, std::memory_order_release);
    publish();
  }
  void at_end() const { require(!runs && state.phase() == Phase::free, "the task did not end"); }
};

struct BlockedTask : OneTask {
  BlockedTask() {
    state.start_ready();
    state.claim_ready();
    state.block();
  }
  Threads threads() {
    return {[this] { home(); }, [this] { signaller(); }};
  }
};

TEST(SignalModel, a_blocked_task_is_woken_and_its_sleeping_worker_too) {
  expect_holds(explore<BlockedTask>(preempted(4)), 50);
}

// A thief runs the stolen task while a signal comes for it. The worker at home, which has the
// task's slot, finds the bit of the signal.
struct StolenTask : OneTask {
  StolenTask() {
    state.start_ready();
    state.claim_ready();
  }
  Threads threads() {
    return {[this] { home(); }, [this] { run(); }, [this] { signaller(); }};
  }
};

TEST(SignalModel, a_stolen_task_keeps_the_signal_that_comes_while_it_runs) {
  expect_holds(explore<StolenTask>(preempted(2)), 1000);
}

// A thread sends the task a signal, sets its condition, and sends a second signal. A thief takes
// signal bits as the home worker (which has the task's slot) does.
struct TwoSignals : BlockedTask {
  Threads threads() {
    return {[this] { home(); },
            [this] {
              publish();
              signaller();
            },
            [this] {
              if (take()) run();
            }};
  }
};

TEST(SignalModel, two_signals_and_a_thief_run_the_task_once_at_a_time) {
  expect_holds(explore<TwoSignals>(preempted(2)), 1000);
}

// Breaks a rule on purpose: the home worker, which has the task's slot, takes the signal bit of a
// running task without marking the task as signalled.
struct DroppedSignal : StolenTask {
  Threads threads() {
    return {[this] {
              while (done.load() == 0) {
                const std::uint32_t slot = signals.find(0);
                if (slot != kNoSlot) {
                  const bool blocked = signals.take(slot) && state.phase() == Phase::blocked;
                  if (blocked && state.claim_signalled()) run();
                } else {
                  bell.rest(watch, Sleep::asleep, 0, [this] {
                    return signals.first_from(0) != kNoSlot || done.load() != 0;
                  });
                }
              }
            },
            [this] { run(); }, [this] { signaller(); }};
  }
};

TEST(SignalModel, without_the_signalled_state_a_wake_up_is_lost) {
  EXPECT_EQ(explore<DroppedSignal>().failure, "nobody can go on");
}

// The home worker, which has the task's slot, itself signals the task, with nudge(), while a thief
// runs the task.
struct NudgedTask : StolenTask {
  Threads threads() {
    return {[this] {
              condition.store(1, std::memory_order_release);
              if (state.nudge()) publish();
              home();
            },
            [this] { run(); }};
  }
};

TEST(SignalModel, a_signal_by_the_home_itself_is_kept_too) {
  expect_holds(explore<NudgedTask>(preempted(4)), 20);
}

// The task yields on the thief while its home worker (which has the task's slot) marks it as
// signalled. The task must become ready and then see the condition.
struct YieldingTask : OneTask {
  YieldingTask() {
    state.start_ready();
    state.claim_ready();
  }
  Threads threads() {
    return {[this] { home(); },
            [this] {
              state.make_ready();
              publish();
            },
            [this] { signaller(); }};
  }
};

TEST(SignalModel, a_signal_during_a_yield_is_not_lost) {
  expect_holds(explore<YieldingTask>(preempted(2)), 100);
}

// --- migration of a task to another worker ----------------------------------------------------

// The task migrates to another worker, tests its condition there and blocks. The signaller may have
// read the task's old location. With `kAgain` the signaller reads the location again after its
// signal, as send_signal() does.
template <bool kAgain>
struct MigratingTask {
  std::array<Memory<512>, 2> memory;
  std::array<SharedBits<Model>, 2> signals{
      SharedBits<Model>{BitSetShape{512}, memory[0].words.data()},
      SharedBits<Model>{BitSetShape{512}, memory[1].words.data()}};
  Model::Atomic<std::uint32_t> location{0};
  TaskState<Model> state;
  Flag condition{0};
  bool ended = false;

  MigratingTask() {
    state.start_ready();
    state.claim_ready();
  }
  void run() {
    while (condition.load() == 0) {
      if (state.consume()) continue;
      if (!state.block()) signals[1].set(kSlot);
      return;
    }
    ended = true;
  }
  void send() {
    const auto set = [this](std::uint32_t at) { signals[at].set(kSlot); };
    condition.store(1, std::memory_order_relaxed);
    if constexpr (kAgain) {
      send_signal(location, set);
    } else {
      set(location.load());
    }
  }
  Threads threads() {
    return {[this] {
              location.store(1, std::memory_order_seq_cst);
              run();
            },
            [this] { send(); }};
  }
  void at_end() {
    if (!ended && signals[1].take(kSlot) && state.claim_signalled()) run();
    require(ended, "the signal went to the old place");
  }
};

TEST(SignalModel, a_task_that_migrates_meanwhile_is_found) {
  expect_holds(explore<MigratingTask<true>>(preempted(4)), 20);
  EXPECT_EQ(explore<MigratingTask<false>>().failure, "the signal went to the old place");
}

// --- join: a parent waits for its child -------------------------------------------------------

struct Joining {
  JoinWord<Model> word;
  TaskState<Model> parent;  // running at the start
  bool went_on = false;
  bool released = false;

  Joining() {
    parent.start_ready();
    parent.claim_ready();
  }
  // Plays the parent's loop in join(), on the worker that runs the parent, until the child has
  // ended.
  void go_on() {
    while (!word.ended()) {
      if (parent.consume()) continue;
      if (parent.block()) return;
      require(parent.claim_ready(), "a ready parent that nobody else knows of");
    }
    require(!went_on, "the parent went on twice");
    went_on = true;
  }
  void child() {
    const std::uintptr_t waiter = word.end();
    if (waiter == JoinWord<Model>::kNobody) return;
    if (parent.resume() || parent.claim_signalled()) go_on();
  }
  void join() {
    if (!word.ended() && word.enlist(64)) return go_on();
    require(!went_on, "the parent went on twice");
    went_on = true;
  }
  Threads threads() {
    return {[this] { join(); }, [this] { child(); }};
  }
  void at_end() const { require(went_on, "the parent waits for ever"); }
};

TEST(JoinModel, the_parent_goes_on_once) { expect_holds(explore<Joining>(preempted(5)), 10); }

struct Detaching {
  JoinWord<Model> word;
  int released = 0;
  Threads threads() {
    return {[this] { released += word.detach() ? 0 : 1; },
            [this] { released += word.end() == JoinWord<Model>::kDetached ? 1 : 0; }};
  }
  void at_end() const { require(released == 1, "the record was given back not once"); }
};

TEST(JoinModel, a_detached_record_is_given_back_once) { expect_holds(explore<Detaching>(), 2); }

// --- sleeping and waking of thieves -----------------------------------------------------------

// A policy whose heavy fence drains only the caller's own stores, like an ordinary fence. A real
// heavy fence drains those of all threads.
struct WeakFence : Model {
  static bool heavy_fence() {
    Explorer::now().step();
    Explorer::now().drain();
    return true;
  }
};

// A busy worker spawns kThieves tasks and runs none of them. Each thief, which may sleep, must run
// one of them.
template <class A, int kThieves>
struct SpawnerAndThieves {
  Memory<512> memory;
  OwnBits<A> fresh{BitSetShape{512}, memory.words.data()};
  std::array<TaskState<A>, kThieves> tasks;
  Watch<A> watch;
  std::array<Doorbell<A>, kThieves> bells;
  int run = 0;

  void ring_a_sleeper() {
    for (auto& bell : bells) {
      if (bell.ring_sleeper(watch)) return;
    }
  }
  void spawner() {
    for (std::uint32_t i = 0; i < kThieves; ++i) {
      tasks[i].start_ready();
      fresh.set(i);
      if (watch.wants_thief()) ring_a_sleeper();
    }
  }
  bool steal() {
    for (std::uint32_t slot = fresh.first_from(0); slot != kNoSlot;
         slot = fresh.first_from(slot + 1)) {
      if (tasks[slot].claim_ready()) return true;
    }
    return false;
  }
  bool prey() const {
    for (std::uint32_t slot = fresh.first_from(0); slot != kNoSlot;
         slot = fresh.first_from(slot + 1)) {
      if (tasks[slot].phase() == Phase::ready) return true;
    }
    return false;
  }
  // Plays a worker that looks for a task to steal and then sleeps, as Worker::spin_for_task() and
  // Worker::nap() do.
  void thief(std::size_t me) {
    for (;;) {
      watch.seekers.fetch_add(1);
      const bool found = steal();
      const bool last = watch.seekers.fetch_sub(1) == 1;
      if (found) {
        if (last && watch.sleepers.load() != 0) ring_a_sleeper();
        ++run;
        return;
      }
      bells[me].rest(watch, Sleep::asleep, 0, [this] { return prey(); });
    }
  }
  Threads threads() {
    Threads all{[this] { spawner(); }};
    for (std::size_t i = 0; i < kThieves; ++i) all.push_back([this, i] { thief(i); });
    return all;
  }
  void at_end() const { require(run == kThieves, "a task was left, or run twice"); }
};

TEST(DoorbellModel, a_sleeping_thief_is_rung_for_a_task_of_a_busy_worker) {
  expect_holds(explore<SpawnerAndThieves<Model, 1>>(preempted(2)), 100);
}

TEST(DoorbellModel, two_thieves_and_two_tasks_meet) {
  expect_holds(explore<SpawnerAndThieves<Model, 2>>(preempted(0)), 1000);
}

TEST(DoorbellModel, an_ordinary_fence_of_the_sleeper_is_not_enough) {
  EXPECT_EQ((explore<SpawnerAndThieves<WeakFence, 1>>().failure), "nobody can go on");
}

}  // namespace
}  // namespace mh::ult::check
