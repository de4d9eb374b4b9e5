// SPDX-License-Identifier: BSD-3-Clause
// Lending between processes: the owner is the test, the lenders are forked children. A unit on a
// lender's core runs in the owner's process and sees its memory.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "lend/lender.hpp"
#include "lend/pool.hpp"
#include "lend/threads.hpp"
#include "support/child.hpp"
#include "support/deny.hpp"
#include "support/sanitizer.hpp"
#include "support/stage.hpp"

namespace mh::lend {
namespace {

using test::Board;
using test::Stage;

bool all(std::uint32_t /*rank*/, WorkKind /*kind*/) { return true; }

constexpr std::uint64_t kLong = ~0ULL;  // an offer without an end
constexpr int kRounds = test::kSanitized ? 200 : 2'000;
constexpr double kPatienceNs = 20e9;

// A loop as work to share: helpers and the owner claim one iteration at a time.
class Loop final : public LendableWork {
 public:
  explicit Loop(std::uint32_t iterations) : left_(static_cast<std::int64_t>(iterations)) {}
  bool unit(std::uint32_t /*helper*/, std::uint64_t deadline) noexcept override {
    if (closed.load()) late.fetch_add(1);
    by_helpers.fetch_add(run(deadline));
    cpu.store(::sched_getcpu());
    process.store(::getpid());
    return true;
  }
  std::uint32_t run(std::uint64_t deadline) noexcept {
    std::uint32_t mine = 0;
    while (ticks() < deadline && left_.fetch_sub(1) > 0) {
      done.fetch_add(1);
      ++mine;
      const std::uint64_t until = ticks() + ticks_from_ns(1e3);
      while (ticks() < until) spin_pause();
    }
    return mine;
  }
  std::atomic<std::uint32_t> done{0};
  std::atomic<std::uint32_t> by_helpers{0};
  std::atomic<std::uint32_t> late{0};
  std::atomic<bool> closed{false};
  std::atomic<int> cpu{-1};
  std::atomic<pid_t> process{0};

 private:
  std::atomic<std::int64_t> left_;
};

// Work with a unit that lasts until the test sets `over` in the test's shared memory (Board). The
// unit records which thread runs it.
class LongUnit final : public LendableWork {
 public:
  explicit LongUnit(Board* board) : board_(board) {}
  bool unit(std::uint32_t /*helper*/, std::uint64_t /*deadline*/) noexcept override {
    thread.store(static_cast<pid_t>(::syscall(SYS_gettid)));
    board_->flag.store(1);
    while (board_->over.load() == 0) ::usleep(100);
    return true;
  }
  std::atomic<pid_t> thread{0};

 private:
  Board* board_;
};

// Work with a unit that has to wait, and therefore gives the lent core back before it waits.
class WaitingUnit final : public LendableWork {
 public:
  bool unit(std::uint32_t /*helper*/, std::uint64_t /*deadline*/) noexcept override {
    guest = lend::guest();
    lent = ::sched_getcpu();
    give_core_back();
    give_core_back();
    ::sched_getaffinity(0, sizeof cpus, &cpus);
    waits.store(true);
    while (!over.load()) ::usleep(100);
    return true;
  }
  Guest guest = Guest::no;  // the unit writes these three members; the test reads them later
  int lent = -1;
  cpu_set_t cpus{};
  std::atomic<bool> waits{false};
  std::atomic<bool> over{false};
};

template <class Done>
bool eventually(Done done) {
  const std::uint64_t end = ticks() + ticks_from_ns(kPatienceNs);
  while (!done()) {
    if (ticks() > end) return false;
    ::sched_yield();
  }
  return true;
}

// Plays rank `me`, which lends its core to rank 0 until the test sets `over` in its shared memory.
int lend_until_over(Stage& stage, std::uint32_t me) {
  stage.enter(me);
  Lender lender(stage.node(me), 0, VictimPolicy::most_work, all);
  stage.board->barrier.wait(2);
  while (stage.board->over.load() == 0) {
    const LendResult result = lender.lend();
    stage.board->lender_cpu.store(::sched_getcpu());
    if (result == LendResult::lent) stage.board->lent.fetch_add(1);
    if (result == LendResult::refused) stage.board->refused.fetch_add(1);
    if (result == LendResult::nothing) ::sched_yield();
  }
  lender.take_back();
  return 0;
}

// Plays rank 0, which offers one long unit until the test sets `over` in its shared memory.
int own_until_over(Stage& stage) {
  stage.enter(0);
  Pool pool(stage.node(0), stage.lendings(0), 3);
  LongUnit unit(stage.board);
  static_cast<void>(pool.expose(WorkKind::loops, unit, kLong));
  while (stage.board->over.load() == 0) ::usleep(1'000);
  pool.withdraw(WorkKind::loops);
  return 7;
}

bool bind_to(std::size_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

TEST(Affinity, a_thread_that_is_not_there_is_not_the_calling_one) {
  test::Child child([] {
    cpu_set_t before;
    cpu_set_t after;
    ::sched_getaffinity(0, sizeof before, &before);
    if (bind_thread(0, ::sched_getcpu())) return 1;
    ::sched_getaffinity(0, sizeof after, &after);
    if (!CPU_EQUAL(&before, &after)) return 2;
    if (!bind_thread(::gettid(), ::sched_getcpu())) return 3;
    ::sched_getaffinity(0, sizeof after, &after);
    return CPU_COUNT(&after) == 1 ? 0 : 4;
  });
  EXPECT_EQ(child.wait(), 0);
}

// Work whose unit records the stack size and the blocked signals of the helper that runs it.
class HelperState final : public LendableWork {
 public:
  bool unit(std::uint32_t /*helper*/, std::uint64_t /*deadline*/) noexcept override {
    pthread_attr_t attributes;
    if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
      std::size_t bytes = 0;
      ::pthread_attr_getstacksize(&attributes, &bytes);
      ::pthread_attr_destroy(&attributes);
      stack.store(bytes);
    }
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    interrupts_blocked.store(::sigismember(&blocked, SIGINT) == 1);
    faults_blocked.store(::sigismember(&blocked, SIGSEGV) == 1);
    return true;
  }
  std::atomic<std::size_t> stack{0};
  std::atomic<bool> interrupts_blocked{false};
  std::atomic<bool> faults_blocked{true};
};

// Lends a core until a helper has recorded its state in `state`.
void record_state(Stage& stage, Pool& pool, WorkKind kind, HelperState& state) {
  ASSERT_TRUE(pool.expose(kind, state, kLong).ok());
  Lender lender(stage.node(1), 0, VictimPolicy::most_work, all);
  EXPECT_TRUE(eventually([&] {
    lender.lend();
    return state.stack.load() != 0;
  }));
  lender.take_back();
  pool.withdraw(kind);
}

TEST(Lend, helpers_have_the_stack_they_are_to_have_and_answer_their_own_faults) {
  constexpr std::size_t kStack = 100U << 20U;
  Stage stage(2);
  stage.enter(0);
  Pool pool(stage.node(0), stage.lendings(0), 1, kStack);
  EXPECT_TRUE(pool.has_stack_space());
  HelperState state;
  record_state(stage, pool, WorkKind::loops, state);
  EXPECT_GE(state.stack.load(), kStack);
  EXPECT_TRUE(state.interrupts_blocked.load());
  EXPECT_FALSE(state.faults_blocked.load());
}

// The owner asks for helpers with stacks of 100 MB, for which its address space (1 GB) has no room.
// Its helpers then have small stacks, and run units of pipelines but not of loops.
TEST(LendUnsanitized, without_room_for_such_stacks_there_are_helpers_but_not_for_loops) {
  test::Child child([] {
    rlimit limit{};
    ::getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 1U << 30U;
    if (::setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    Stage stage(2);
    stage.enter(0);
    Pool pool(stage.node(0), stage.lendings(0), 1, 100U << 20U);
    if (pool.has_stack_space()) return 2;
    HelperState state;
    if (pool.expose(WorkKind::loops, state, kLong).code != Code::unsupported) return 3;
    record_state(stage, pool, WorkKind::pipelines, state);
    return state.stack.load() != 0 ? 0 : 4;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Lend, a_helper_works_in_the_owners_process_on_the_lenders_core) {
  Stage stage(2);
  stage.enter(0);
  test::Child lender([&] { return bind_to(0) ? lend_until_over(stage, 1) : 1; });
  Pool pool(stage.node(0), stage.lendings(0), 3);
  stage.board->barrier.wait(2);
  Loop loop(1'000'000);
  ASSERT_TRUE(pool.expose(WorkKind::loops, loop, kLong).ok());
  EXPECT_TRUE(eventually([&] { return loop.by_helpers.load() > 0; }));
  pool.withdraw(WorkKind::loops);
  stage.board->over.store(1);
  EXPECT_EQ(lender.wait(), 0);
  EXPECT_EQ(loop.process.load(), ::getpid());
  EXPECT_EQ(loop.cpu.load(), 0);
  EXPECT_GT(stage.board->lent.load(), 0U);
  EXPECT_EQ(stage.lendings(0).channels[0].word.load(), kFree);
}

TEST(Lend, every_iteration_is_done_once_and_no_unit_runs_after_the_loop) {
  Stage stage(2);
  stage.enter(0);
  test::Child lender([&] { return lend_until_over(stage, 1); });
  Pool pool(stage.node(0), stage.lendings(0), 3);
  stage.board->barrier.wait(2);
  std::uint32_t helped = 0;
  // On a busy machine the lender may come late, so the rounds go on until it has helped, up to a
  // time limit.
  const std::uint64_t patience_ends = ticks() + ticks_from_ns(kPatienceNs);
  for (int round = 0; round < kRounds || (helped == 0 && ticks() < patience_ends); ++round) {
    Loop loop(100);
    ASSERT_TRUE(pool.expose(WorkKind::loops, loop, kLong).ok());
    loop.run(~0ULL);
    pool.nothing_left(WorkKind::loops);
    pool.withdraw(WorkKind::loops);
    loop.closed.store(true);
    ASSERT_EQ(loop.done.load(), 100U);
    ASSERT_EQ(loop.late.load(), 0U);
    helped += loop.by_helpers.load() > 0 ? 1 : 0;
  }
  stage.board->over.store(1);
  EXPECT_EQ(lender.wait(), 0);
  EXPECT_GT(helped, 0U);
}

TEST(Lend, a_lender_killed_in_the_middle_of_a_unit_costs_only_its_help) {
  Stage stage(2);
  stage.enter(0);
  test::Child lender([&] { return lend_until_over(stage, 1); });
  Pool pool(stage.node(0), stage.lendings(0), 3);
  stage.board->barrier.wait(2);
  LongUnit unit(stage.board);
  ASSERT_TRUE(pool.expose(WorkKind::loops, unit, kLong).ok());
  ASSERT_TRUE(eventually([&] { return stage.board->flag.load() == 1; }));
  lender.kill(SIGKILL);
  EXPECT_EQ(lender.wait(), -SIGKILL);
  stage.board->over.store(1);
  pool.withdraw(WorkKind::loops);
  // An owner looks for dead lenders only in some of its calls, and then frees the channel of the
  // helper that the lender had woken. So the test makes many calls.
  Loop nothing(0);
  for (int i = 0; i < 3'000; ++i) {
    ASSERT_TRUE(pool.expose(WorkKind::loops, nothing, 0).ok());
    pool.withdraw(WorkKind::loops);
  }
  EXPECT_EQ(stage.lendings(0).channels[0].word.load(), kFree);
}

TEST(Lend, an_owner_killed_in_the_middle_of_a_unit_gives_the_core_back) {
  Stage stage(2);
  test::Child owner([&] { return own_until_over(stage); });
  stage.enter(1);
  Lender lender(stage.node(1), 0, VictimPolicy::most_work, all);
  ASSERT_TRUE(eventually([&] { return lender.lend() == LendResult::still_out; }));
  owner.kill(SIGKILL);
  EXPECT_EQ(owner.wait(), -SIGKILL);
  EXPECT_EQ(lender.lend(), LendResult::nothing);
  EXPECT_EQ(lender.lend(), LendResult::nothing);  // the dead owner is not asked again
}

TEST(Lend, a_stopped_owner_does_not_keep_the_core) {
  Stage stage(2);
  test::Child owner([&] { return own_until_over(stage); });
  stage.enter(1);
  Lender lender(stage.node(1), 0, VictimPolicy::most_work, all);
  ASSERT_TRUE(eventually([&] { return lender.lend() == LendResult::still_out; }));
  owner.kill(SIGSTOP);
  EXPECT_EQ(lender.lend(), LendResult::still_out);
  lender.take_back();
  EXPECT_EQ(state_of(stage.lendings(0).channels[0].word.load()), ChannelState::evicted);
  stage.board->over.store(1);
  owner.kill(SIGCONT);
  EXPECT_EQ(owner.wait(), 7);
  EXPECT_EQ(stage.lendings(0).channels[0].word.load(), kFree);
}

TEST(Lend, a_helper_that_may_not_run_on_the_lenders_core_is_refused_once) {
  Stage stage(2);
  stage.enter(0);
  test::Child lender(
      [&] { return test::deny(SYS_sched_setaffinity, EINVAL) ? lend_until_over(stage, 1) : 77; });
  Pool pool(stage.node(0), stage.lendings(0), 3);
  stage.board->barrier.wait(2);
  Loop loop(1'000'000);
  ASSERT_TRUE(pool.expose(WorkKind::loops, loop, kLong).ok());
  EXPECT_TRUE(eventually([&] { return stage.board->refused.load() == 1; }));
  ::usleep(20'000);
  pool.withdraw(WorkKind::loops);
  stage.board->over.store(1);
  EXPECT_EQ(lender.wait(), 0);
  EXPECT_EQ(stage.board->refused.load(), 1U);
  EXPECT_EQ(stage.board->lent.load(), 0U);
  EXPECT_EQ(loop.by_helpers.load(), 0U);
}

TEST(Lend, a_helper_that_stays_long_is_brought_to_the_owners_core) {
  Stage stage(2);
  stage.enter(0);
  test::Child lender([&] { return bind_to(0) ? lend_until_over(stage, 1) : 1; });
  Pool pool(stage.node(0), stage.lendings(0), 3);
  stage.board->barrier.wait(2);
  LongUnit unit(stage.board);
  ASSERT_TRUE(pool.expose(WorkKind::loops, unit, kLong).ok());
  ASSERT_TRUE(eventually([&] { return stage.board->flag.load() == 1; }));
  std::thread later([&] {
    cpu_set_t home;
    cpu_set_t set;
    ::sched_getaffinity(0, sizeof home, &home);
    EXPECT_TRUE(eventually([&] {
      ::sched_getaffinity(unit.thread.load(), sizeof set, &set);
      return CPU_EQUAL(&home, &set) != 0;
    }));
    stage.board->over.store(1);
  });
  pool.withdraw(WorkKind::loops);
  later.join();
  EXPECT_EQ(lender.wait(), 0);
}

// On a busy machine a lender may want its core back before the helper has started to run.
TEST(Lend, a_helper_that_is_evicted_before_it_begins_can_be_lent_a_core_again) {
  Stage stage(2);
  stage.enter(0);
  stage.enter(1);
  Pool pool(stage.node(0), stage.lendings(0), 3);
  Loop nothing(0);
  ASSERT_TRUE(pool.expose(WorkKind::loops, nothing, 0).ok());
  Channel& channel = stage.lendings(0).channels[0];
  ASSERT_TRUE(eventually([&] { return channel.helper_tid.load() != 0; }));
  channel.word.store(word_of(ChannelState::evicted, 1));  // the state after lend() and take_back()
  futex_wake(channel.word);
  EXPECT_TRUE(eventually([&] { return channel.word.load() == kFree; }));
  pool.withdraw(WorkKind::loops);
}

// The unit ends only after the lender has its core back: the test waits for the return of the core,
// not for a length of time.
TEST(Lend, a_helper_that_has_to_wait_gives_the_core_back) {
  Stage stage(2);
  stage.enter(0);
  stage.enter(1);
  cpu_set_t home;
  ::sched_getaffinity(0, sizeof home, &home);
  Pool pool(stage.node(0), stage.lendings(0), 1);
  Lender lender(stage.node(1), 0, VictimPolicy::most_work, all);
  WaitingUnit unit;
  ASSERT_TRUE(pool.expose(WorkKind::loops, unit, kLong).ok());
  LendResult result = LendResult::nothing;  // `nothing` until the helper waits at its channel
  ASSERT_TRUE(eventually([&] {
    result = lender.lend();
    return result != LendResult::nothing;
  }));
  EXPECT_TRUE(eventually([&] { return unit.waits.load(); }));
  // The helper may give the core back during any sleep of the lender, not only the first.
  while (result == LendResult::still_out) result = lender.lend();
  EXPECT_EQ(result, LendResult::lent);
  EXPECT_FALSE(unit.over.load());
  const Channel& channel = stage.lendings(0).channels[0];
  EXPECT_EQ(channel.word.load(), word_of(ChannelState::evicted, 1));
  EXPECT_EQ(channel.cpu.load(), -1);
  if (CPU_COUNT(&home) > 1) CPU_CLR(static_cast<std::size_t>(unit.lent), &home);
  EXPECT_TRUE(CPU_EQUAL(&unit.cpus, &home));
  EXPECT_EQ(pool.given_back(), 1U);
  EXPECT_TRUE(pool.has_waiting_helpers());
  EXPECT_NE(unit.guest, Guest::no);
  EXPECT_EQ(guest(), Guest::no);
  EXPECT_EQ(lender.lend(), LendResult::nothing);  // the only helper is still in its unit
  lender.take_back();                             // no helper is out
  unit.over.store(true);
  pool.withdraw(WorkKind::loops);
  EXPECT_TRUE(eventually([&] { return channel.word.load() == kFree; }));
  EXPECT_FALSE(pool.has_waiting_helpers());
}

// Offers of rank 0, the owner, to rank 1, the lender. Rank 2 never starts.
class Offers : public testing::Test {
 protected:
  Offers() : stage_(3) {
    stage_.enter(0);
    stage_.enter(1);
  }

  Stage stage_;
  Pool pool_{stage_.node(0), stage_.lendings(0), 3};
  Lender lender_{stage_.node(1), 0, VictimPolicy::most_work, all};
};

TEST_F(Offers, of_nearly_finished_or_absent_work_are_not_taken) {
  EXPECT_EQ(lender_.lend(), LendResult::nothing);
  Loop loop(1'000'000);
  ASSERT_TRUE(pool_.expose(WorkKind::loops, loop, 9'999).ok());
  EXPECT_EQ(lender_.lend(), LendResult::nothing);
  pool_.nothing_left(WorkKind::loops);
  EXPECT_EQ(lender_.lend(), LendResult::nothing);
  pool_.withdraw(WorkKind::loops);
  EXPECT_EQ(loop.by_helpers.load(), 0U);
}

// A brief offer says how long the work would take the owner alone. This time counts from the moment
// at which a lender has seen the offer.
TEST_F(Offers, that_are_brief_are_taken_while_they_are_fresh) {
  Loop loop(1U << 30U);
  const auto offer = [&](double ns) {
    ASSERT_TRUE(pool_.expose_briefly(WorkKind::loops, loop, ticks_from_ns(ns)).ok());
  };
  offer(5e3);
  EXPECT_EQ(lender_.lend(), LendResult::nothing) << "not worth it";
  const auto lends = [&] { return lender_.lend() == LendResult::lent; };
  offer(1e9);
  EXPECT_TRUE(eventually(lends));  // once the helper waits at its channel
  pool_.nothing_left(WorkKind::loops);
  EXPECT_EQ(lender_.lend(), LendResult::nothing);
  // A brief offer ends by itself once its time has passed since a lender saw it, unless the owner
  // renews it.
  offer(200e6);
  EXPECT_TRUE(eventually(lends));
  ::usleep(250'000);
  EXPECT_EQ(lender_.lend(), LendResult::nothing);
  offer(200e6);
  EXPECT_TRUE(eventually(lends)) << "another one, though it says the same";
  // With expect_end() the owner replaces the brief offer by the time at which it expects to be
  // done, which is at once.
  pool_.expect_end(WorkKind::loops, ticks());
  EXPECT_EQ(lender_.lend(), LendResult::nothing);
  lender_.take_back();
  pool_.withdraw(WorkKind::loops);
}

// After an owner has exposed work, another rank can suggest the time at which the owner would be
// done. The lender `busy` may not lend to pipelines.
TEST_F(Offers, are_made_by_others_for_what_is_exposed) {
  Loop loop(1U << 30U);
  const std::uint64_t later = ticks() + ticks_from_ns(1e9);
  Pool other(stage_.node(1), stage_.lendings(1), 3);
  other.suggest_end(0, WorkKind::pipelines, later, 0);
  EXPECT_EQ(lender_.lend(), LendResult::nothing) << "nothing is exposed";
  ASSERT_TRUE(pool_.expose(WorkKind::pipelines, loop, 0).ok());
  EXPECT_EQ(lender_.lend(), LendResult::nothing) << "nothing can begin";
  other.suggest_end(0, WorkKind::pipelines, later, 0);
  Lender busy(stage_.node(1), 0, VictimPolicy::most_work,
              [](std::uint32_t, WorkKind kind) { return kind != WorkKind::pipelines; });
  EXPECT_EQ(busy.lend(), LendResult::nothing);
  EXPECT_TRUE(eventually([&] { return lender_.lend() == LendResult::lent; }));
  other.suggest_end(0, WorkKind::pipelines, 0, 0);
  EXPECT_EQ(lender_.lend(), LendResult::nothing);
  other.suggest_end(0, WorkKind::pipelines, later, 0);
  other.suggest_end(0, WorkKind::pipelines, later + 5, 10);
  EXPECT_EQ(stage_.lendings(0).offer.ends[0].load(), later) << "near enough";
  lender_.take_back();
  pool_.withdraw(WorkKind::pipelines);
  other.suggest_end(0, WorkKind::pipelines, later, 0);
  EXPECT_EQ(lender_.lend(), LendResult::nothing);
}

// Work whose units keep a helper for 2 ms each, and record the numbers of the helpers.
class Slow final : public LendableWork {
 public:
  bool unit(std::uint32_t helper, std::uint64_t /*deadline*/) noexcept override {
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      helpers_.insert(helper);
    }
    ::usleep(2'000);
    return true;
  }
  std::size_t helpers() {
    const std::lock_guard<std::mutex> hold(mutex_);
    return helpers_.size();
  }

 private:
  std::mutex mutex_;
  std::set<std::uint32_t> helpers_;
};

// An owner starts with a few helpers, and makes more helpers once lenders have found none free.
TEST(Lend, there_is_a_helper_for_each_core_of_the_node_that_can_be_lent) {
  constexpr std::uint32_t kLenders = 11;
  static_assert(kLenders > kHelpersAtOnce);
  Stage stage(kLenders + 1);
  for (std::uint32_t rank = 0; rank <= kLenders; ++rank) stage.enter(rank);
  Pool pool(stage.node(0), stage.lendings(0), kLenders);
  Slow work;
  ASSERT_TRUE(pool.expose(WorkKind::loops, work, kLong).ok());
  EXPECT_EQ(pool.most_helpers(), kLenders);
  std::atomic<bool> over{false};
  std::vector<std::thread> lenders;
  for (std::uint32_t rank = 1; rank <= kLenders; ++rank) {
    lenders.emplace_back([&, rank] {
      Lender lender(stage.node(rank), 0, VictimPolicy::most_work, all);
      while (!over.load()) {
        if (lender.lend() == LendResult::nothing) ::usleep(100);
      }
      lender.take_back();
    });
  }
  EXPECT_TRUE(eventually([&] { return work.helpers() == kLenders; }));
  over.store(true);
  for (std::thread& lender : lenders) lender.join();
  pool.withdraw(WorkKind::loops);
  EXPECT_EQ(stage.lendings(0).channels[kLenders].helper_tid.load(), 0) << "and no more";
}

TEST(Lend, a_lender_that_finds_no_free_helper_goes_on_to_the_next_rank) {
  Stage stage(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) stage.enter(rank);
  Pool first(stage.node(0), stage.lendings(0), 1);
  Pool second(stage.node(1), stage.lendings(1), 1);
  WaitingUnit occupied;  // the only helper of rank 0 stays in this unit
  Loop loop(1U << 30U);
  ASSERT_TRUE(first.expose(WorkKind::loops, occupied, kLong).ok());
  ASSERT_TRUE(second.expose(WorkKind::loops, loop, ticks() + ticks_from_ns(kPatienceNs)).ok());
  Lender lender(stage.node(2), 0, VictimPolicy::most_work, all);
  ASSERT_TRUE(eventually([&] {
    lender.lend();
    return occupied.waits.load();
  }));
  EXPECT_TRUE(
      eventually([&] { return lender.lend() == LendResult::lent && loop.done.load() > 0; }));
  EXPECT_EQ(lender.last_owner(), 1U);
  EXPECT_EQ(stage.lendings(0).offer.all_at_work.load(), 1U) << "rank 0 is told";
  lender.take_back();
  occupied.over.store(true);
  first.withdraw(WorkKind::loops);
  second.withdraw(WorkKind::loops);
}

// Ranks 0 and 1 are the ends of a message through cells, and rank 2 lends its core. Alone, rank 0
// would be done with its end after 200 s and rank 1 after 150 s. Rank 1 is on another NUMA node.
class Ends : public testing::Test {
 protected:
  Ends() {
    for (std::uint32_t rank = 0; rank < 3; ++rank) stage_.enter(rank);
    stage_.node(1).mine().numa = 1;
    const std::uint64_t now = ticks();
    EXPECT_TRUE(first_.expose(WorkKind::pipelines, loop_, now + ticks_from_ns(200e9)).ok());
    EXPECT_TRUE(second_.expose(WorkKind::pipelines, loop_, now + ticks_from_ns(150e9)).ok());
  }
  ~Ends() override {
    lender_.take_back();
    first_.withdraw(WorkKind::pipelines);
    second_.withdraw(WorkKind::pipelines);
  }
  std::uint32_t lent_to() {
    EXPECT_TRUE(eventually([&] { return lender_.lend() == LendResult::lent; }));
    return lender_.last_owner();
  }

  Stage stage_{3};
  Pool first_{stage_.node(0), stage_.lendings(0), 2};
  Pool second_{stage_.node(1), stage_.lendings(1), 2};
  Loop loop_{1U << 30U};
  Lender lender_{stage_.node(2), 0, VictimPolicy::nearest, all};
};

TEST_F(Ends, get_cores_in_turn_however_far_they_are) {
  // Helpers start in any order. A lender takes the first channel whose helper has no thread yet for
  // the end of the owner's channels, so the test waits for both helpers of each rank.
  const auto has_helpers = [&](std::uint32_t rank) {
    const Channel* channels = stage_.lendings(rank).channels;
    return channels[0].helper_tid.load() != 0 && channels[1].helper_tid.load() != 0;
  };
  ASSERT_TRUE(eventually([&] { return has_helpers(0) && has_helpers(1); }));
  EXPECT_EQ(lent_to(), 0U) << "this end takes longer";
  std::atomic<std::uint32_t>& channel = stage_.lendings(0).channels[1].word;
  channel.store(word_of(ChannelState::held, 1));
  EXPECT_EQ(lent_to(), 1U) << "the other end has a helper";
  channel.store(kFree);
  EXPECT_EQ(lent_to(), 0U);
}

TEST_F(Offers, of_packing_are_for_those_who_may_help_with_it) {
  Loop loop(1U << 30U);
  ASSERT_TRUE(pool_.expose(WorkKind::internode, loop, ticks() + ticks_from_ns(1e9)).ok());
  Lender barred(stage_.node(1), 0, VictimPolicy::most_work,
                [](std::uint32_t, WorkKind kind) { return kind != WorkKind::internode; });
  EXPECT_EQ(barred.lend(), LendResult::nothing);
  EXPECT_TRUE(eventually([&] { return lender_.lend() == LendResult::lent; }));
  lender_.take_back();
  pool_.withdraw(WorkKind::internode);
}

// Work with a unit that keeps the lent core until its deadline, and records the length that it was
// given.
class WholeUnit final : public LendableWork {
 public:
  bool unit(std::uint32_t /*helper*/, std::uint64_t deadline) noexcept override {
    length.store(deadline - ticks());
    while (ticks() < deadline) spin_pause();
    return true;
  }
  std::atomic<std::uint64_t> length{0};
};

// The lender gives units more time while no wait of its own ends during a unit (unit_length.hpp).
TEST_F(Offers, are_taken_for_longer_while_nothing_else_comes) {
  WholeUnit unit;
  ASSERT_TRUE(pool_.expose(WorkKind::loops, unit, kLong).ok());
  const auto lends = [&] {
    LendResult result = lender_.lend();
    while (result == LendResult::still_out) result = lender_.lend();
    return result == LendResult::lent;
  };
  ASSERT_TRUE(eventually(lends));
  for (int i = 0; i < 2'000 && unit.length.load() < ticks_from_ns(700e3); ++i) {
    ASSERT_TRUE(eventually(lends));
  }
  EXPECT_GE(unit.length.load(), ticks_from_ns(700e3));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(eventually(lends));
    lender_.take_back();
  }
  EXPECT_LE(unit.length.load(), ticks_from_ns(400e3));
  // A lender that waits for a message of the owner lends with lend_to(). Its units always have the
  // shortest length, so that it sees the message soon.
  ASSERT_TRUE(eventually([&] { return lender_.lend_to(0) == LendResult::lent; }));
  EXPECT_LE(unit.length.load(), ticks_from_ns(100e3));
  pool_.withdraw(WorkKind::loops);
}

TEST(Pool, counts_as_exposed_only_what_somebody_could_join) {
  Stage stage(1);
  stage.enter(0);
  Pool nobody(stage.node(0), stage.lendings(0), 0);
  Loop loop(1);
  EXPECT_EQ(nobody.expose(WorkKind::loops, loop, kLong).code, Code::unsupported);
  EXPECT_EQ(nobody.exposures(WorkKind::loops), 0U);
  EXPECT_EQ(stage.lendings(0).offer.ends[static_cast<std::size_t>(WorkKind::loops)].load(), 0U);
}

TEST(Lend, helpers_take_no_signal_of_the_program) {
  Stage stage(2);
  stage.enter(0);
  Pool pool(stage.node(0), stage.lendings(0), 3);
  Loop loop(0);
  ASSERT_TRUE(pool.expose(WorkKind::loops, loop, 0).ok());
  pool.withdraw(WorkKind::loops);
  static std::atomic<pid_t> taken{0};
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { taken.store(static_cast<pid_t>(::syscall(SYS_gettid))); };
  ::sigaction(SIGUSR1, &action, &before);
  for (int i = 0; i < 100; ++i) {
    taken.store(0);
    ::kill(::getpid(), SIGUSR1);
    EXPECT_TRUE(eventually([&] { return taken.load() != 0; }));
    // Helpers block SIGUSR1, so the process's first thread, the only other thread, must get it.
    EXPECT_EQ(taken.load(), ::getpid());
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

// Owner and lenders are threads of one process, so that ThreadSanitizer sees both sides.
TEST(Lend, owner_and_lenders_as_threads) {
  constexpr std::uint32_t kLenders = 3;
  Stage stage(kLenders + 1);
  for (std::uint32_t rank = 0; rank <= kLenders; ++rank) stage.enter(rank);
  Pool pool(stage.node(0), stage.lendings(0), 3);
  std::atomic<bool> over{false};
  std::vector<std::thread> lenders;
  for (std::uint32_t rank = 1; rank <= kLenders; ++rank) {
    lenders.emplace_back([&, rank] {
      Lender lender(stage.node(rank), 0, static_cast<VictimPolicy>(rank), all);
      while (!over.load()) {
        if (lender.lend() == LendResult::nothing) ::sched_yield();
      }
      lender.take_back();
    });
  }
  for (int round = 0; round < kRounds / 4; ++round) {
    Loop loop(200);
    std::uint64_t plain = 0;  // not atomic: only the hand-over of cores orders the accesses
    struct Sum final : LendableWork {
      Sum(Loop& what, std::uint64_t& to) : loop(what), total(to) {}
      bool unit(std::uint32_t /*helper*/, std::uint64_t deadline) noexcept override {
        const std::uint32_t mine = loop.run(deadline);
        const std::lock_guard<std::mutex> hold(mutex);
        total += mine;
        return true;
      }
      Loop& loop;
      std::uint64_t& total;
      std::mutex mutex;
    } sum(loop, plain);
    ASSERT_TRUE(pool.expose(WorkKind::loops, sum, kLong).ok());
    const std::uint32_t own = loop.run(~0ULL);
    pool.withdraw(WorkKind::loops);
    ASSERT_EQ(plain + own, 200U);
  }
  over.store(true);
  for (std::thread& lender : lenders) lender.join();
}

TEST(CoreVictimPicker, each_policy_has_its_own_order) {
  const auto asked = [] {
    ADD_FAILURE() << "only fewest-lenders has to count helpers";
    return 0U;
  };
  CoreVictimPicker most(VictimPolicy::most_work, 0);
  EXPECT_GT(most.value(20, false, asked), most.value(10, true, asked));
  CoreVictimPicker nearest(VictimPolicy::nearest, 0);
  EXPECT_GT(nearest.value(10, true, asked), nearest.value(20, false, asked));
  EXPECT_GT(nearest.value(20, true, asked), nearest.value(10, true, asked));
  CoreVictimPicker fewest(VictimPolicy::fewest_lenders, 0);
  const auto count = [](std::uint32_t helpers) { return [helpers] { return helpers; }; };
  EXPECT_GT(fewest.value(10, false, count(0)), fewest.value(20, true, count(1)));
  EXPECT_GT(fewest.value(10, false, count(kHelpers)), 0U);
}

TEST(CoreVictimPicker, at_random_every_offer_is_taken_now_and_then) {
  CoreVictimPicker random(VictimPolicy::random, 3);
  constexpr int kOffers = 4;
  constexpr int kTurns = 4000;
  int taken[kOffers] = {};
  for (int turn = 0; turn < kTurns; ++turn) {
    int best = 0;
    std::uint64_t best_value = 0;
    for (int offer = 0; offer < kOffers; ++offer) {
      const std::uint64_t value = random.value(1, true, [] { return 0U; });
      if (value > best_value) best = offer;
      best_value = std::max(best_value, value);
    }
    ++taken[best];
  }
  for (const int times : taken) EXPECT_NEAR(times, 1.0 * kTurns / kOffers, kTurns / 20.0);
}

// Helpers give cores back, lenders take cores back, and units end, in any order.
TEST(Lend, cores_go_back_from_both_sides) {
  constexpr std::uint32_t kLenders = 3;
  Stage stage(kLenders + 1);
  for (std::uint32_t rank = 0; rank <= kLenders; ++rank) stage.enter(rank);
  struct Restless final : LendableWork {
    bool unit(std::uint32_t /*helper*/, std::uint64_t /*deadline*/) noexcept override {
      const std::uint32_t which = begun.fetch_add(1);
      if (which % 2 == 0) give_core_back();
      if (which % 3 == 0) ::sched_yield();
      if (which % 4 == 0) give_core_back();
      return true;
    }
    std::atomic<std::uint32_t> begun{0};
  } work;
  Pool pool(stage.node(0), stage.lendings(0), 3);
  std::atomic<bool> over{false};
  std::vector<std::thread> lenders;
  for (std::uint32_t rank = 1; rank <= kLenders; ++rank) {
    lenders.emplace_back([&, rank] {
      Lender lender(stage.node(rank), 0, VictimPolicy::most_work, all);
      for (int turn = 0; !over.load(); ++turn) {
        if (lender.lend() == LendResult::nothing) ::sched_yield();
        if (turn % 2 == 0) lender.take_back();
      }
      lender.take_back();
    });
  }
  for (int round = 0; round < 8; ++round) {
    const std::uint32_t before = work.begun.load();
    ASSERT_TRUE(pool.expose(WorkKind::loops, work, kLong).ok());
    ASSERT_TRUE(eventually([&] { return work.begun.load() - before >= kRounds / 8U; }));
    pool.withdraw(WorkKind::loops);
    const std::uint32_t after = work.begun.load();
    ::sched_yield();
    ASSERT_EQ(work.begun.load(), after);
  }
  over.store(true);
  for (std::thread& lender : lenders) lender.join();
  for (std::uint32_t i = 0; i < kLenders; ++i) {
    const Channel& channel = stage.lendings(0).channels[i];
    EXPECT_TRUE(eventually([&] { return channel.word.load() == kFree; })) << i;
  }
}

}  // namespace
}  // namespace mh::lend
