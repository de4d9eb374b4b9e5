// SPDX-License-Identifier: BSD-3-Clause
// Workers of one rank lend its spare cores to another rank of the same process.
#include "lend/workers.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <mutex>
#include <set>

#include "base/clock.hpp"
#include "lend/pool.hpp"
#include "support/stage.hpp"

namespace mh::lend {
namespace {

using test::Stage;

bool all(std::uint32_t /*rank*/, WorkKind /*kind*/) { return true; }
constexpr std::uint64_t kLong = ~0ULL;
constexpr double kPatienceNs = 40e9;

node::CpuSet cpus(std::initializer_list<std::size_t> numbers) {
  node::CpuSet set;
  for (const std::size_t number : numbers) set.set(number);
  return set;
}
using Cpus = std::vector<std::int32_t>;

TEST(Workers, the_core_the_rank_waits_on_is_its_own_to_lend) {
  EXPECT_EQ(cpus_for_workers(cpus({2, 3, 5}), 3), (Cpus{2, 5}));
  EXPECT_EQ(cpus_for_workers(cpus({3}), 3), Cpus{});
  EXPECT_EQ(cpus_for_workers(cpus({}), 3), Cpus{});
}

TEST(Workers, one_core_is_left_to_a_rank_that_waits_anywhere) {
  EXPECT_EQ(cpus_for_workers(cpus({2, 3, 5}), 7), (Cpus{3, 5}));
  EXPECT_EQ(cpus_for_workers(cpus({2, 3, 5}), -1), (Cpus{3, 5}));
}

TEST(Workers, are_never_more_than_an_owner_has_helpers_for) {
  EXPECT_EQ(cpus_for_workers(node::CpuSet().set(), 0).size(), Workers::kMost);
}

// Work that never ends, and records which helpers run its units.
class Endless final : public LendableWork {
 public:
  bool unit(std::uint32_t helper, std::uint64_t deadline) noexcept override {
    units.fetch_add(1);
    inside.fetch_add(1);
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      helpers_.insert(helper);
    }
    while (ticks() < deadline || stay.load()) ::sched_yield();
    inside.fetch_sub(1);
    return true;
  }
  std::size_t helpers() {
    const std::lock_guard<std::mutex> hold(mutex_);
    return helpers_.size();
  }
  std::atomic<std::uint32_t> units{0};
  std::atomic<std::uint32_t> inside{0};
  std::atomic<bool> stay{false};

 private:
  std::mutex mutex_;
  std::set<std::uint32_t> helpers_;
};

class WorkersTest : public testing::Test {
 protected:
  WorkersTest() {
    stage_.enter(0);
    stage_.enter(1);
  }
  // Calls start() of the workers repeatedly, as a waiting rank does, until done() is true. Returns
  // false at a time limit.
  template <class Done>
  bool started_until(Done done) {
    const std::uint64_t end = ticks() + ticks_from_ns(kPatienceNs);
    while (!done()) {
      if (ticks() > end) return false;
      workers_.start();
      ::sched_yield();
    }
    return true;
  }
  template <class Done>
  static bool eventually(Done done) {
    const std::uint64_t end = ticks() + ticks_from_ns(kPatienceNs);
    while (!done()) {
      if (ticks() > end) return false;
      ::sched_yield();
    }
    return true;
  }

  Stage stage_{2};
  Pool pool_{stage_.node(0), stage_.lendings(0), 3};
  Workers workers_{stage_.node(1), 0, VictimPolicy::most_work, all, {0, 0}, kPatienceNs};
  Endless work_;
};

TEST_F(WorkersTest, each_lends_a_core_of_its_own) {
  ASSERT_TRUE(pool_.expose(WorkKind::loops, work_, kLong).ok());
  EXPECT_TRUE(started_until([&] { return work_.helpers() == 2; }));
  workers_.stop();
  pool_.withdraw(WorkKind::loops);
  EXPECT_TRUE(eventually([&] { return workers_.units() > 0; }));
}

TEST_F(WorkersTest, nothing_is_lent_before_the_start_or_after_the_stop) {
  ASSERT_TRUE(pool_.expose(WorkKind::loops, work_, kLong).ok());
  ::usleep(20'000);
  EXPECT_EQ(work_.units.load(), 0U);
  ASSERT_TRUE(started_until([&] { return work_.units.load() > 0; }));
  workers_.stop();
  // A worker may have found the work just before stop(), so a last unit may run.
  std::uint32_t before = 0;
  EXPECT_TRUE(eventually([&] {
    before = work_.units.load();
    ::usleep(20'000);
    return work_.units.load() == before && work_.inside.load() == 0;
  }));
  pool_.withdraw(WorkKind::loops);
}

TEST_F(WorkersTest, the_stop_takes_cores_back_in_the_middle_of_a_unit) {
  work_.stay.store(true);
  ASSERT_TRUE(pool_.expose(WorkKind::loops, work_, kLong).ok());
  ASSERT_TRUE(started_until([&] { return work_.inside.load() == 2; }));
  workers_.stop();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(eventually([&] {
      return state_of(stage_.lendings(0).channels[i].word.load()) == ChannelState::evicted;
    }));
  }
  work_.stay.store(false);
  pool_.withdraw(WorkKind::loops);
  EXPECT_TRUE(eventually([&] { return stage_.lendings(0).channels[0].word.load() == kFree; }));
}

TEST_F(WorkersTest, they_end_with_a_core_lent) {
  ASSERT_TRUE(pool_.expose(WorkKind::loops, work_, kLong).ok());
  {
    Workers others(stage_.node(1), 0, VictimPolicy::most_work, all, {0}, kPatienceNs);
    const std::uint64_t end = ticks() + ticks_from_ns(kPatienceNs);
    while (work_.units.load() == 0 && ticks() < end) {
      others.start();
      ::sched_yield();
    }
  }
  EXPECT_GT(work_.units.load(), 0U);
  pool_.withdraw(WorkKind::loops);
}

// Two threads of a rank wait. The workers of the rank may lend because the first waits (start())
// while the end of the second's wait stops them (stop()).
TEST_F(WorkersTest, a_stop_beside_a_start_is_harmless) {
  ASSERT_TRUE(pool_.expose(WorkKind::loops, work_, kLong).ok());
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over.load()) workers_.stop();
  });
  EXPECT_TRUE(started_until([&] { return work_.units.load() > 5; }));
  over.store(true);
  other.join();
  workers_.stop();
  std::uint32_t before = 0;
  EXPECT_TRUE(eventually([&] {
    before = work_.units.load();
    ::usleep(20'000);
    return work_.units.load() == before && work_.inside.load() == 0;
  }));
  pool_.withdraw(WorkKind::loops);
}

// The spare cores of a rank that computes also help with its own long loop.
TEST_F(WorkersTest, their_own_rank_is_helped_like_any_other) {
  Pool own(stage_.node(1), stage_.lendings(1), 3);
  ASSERT_TRUE(own.expose(WorkKind::loops, work_, kLong).ok());
  EXPECT_TRUE(started_until([&] { return work_.helpers() == 2; }));
  workers_.stop();
  own.withdraw(WorkKind::loops);
  EXPECT_EQ(own.units(WorkKind::loops), 0U) << "no other rank did them";
  EXPECT_EQ(workers_.units(), 0U);
}

TEST_F(WorkersTest, the_core_on_which_the_rank_waits_is_not_lent_to_itself) {
  Pool own(stage_.node(1), stage_.lendings(1), 3);
  ASSERT_TRUE(own.expose(WorkKind::loops, work_, kLong).ok());
  Lender waiting(stage_.node(1), 0, VictimPolicy::most_work, all);
  EXPECT_EQ(waiting.lend(), LendResult::nothing);
  own.withdraw(WorkKind::loops);
}

TEST_F(WorkersTest, none_that_were_never_needed_are_made) {
  workers_.stop();
  EXPECT_EQ(workers_.units(), 0U);
}

TEST(Channel, lenders_of_one_rank_are_told_apart) {
  EXPECT_NE(lender_id(5, 0), lender_id(5, 1));
  EXPECT_EQ(rank_of(lender_id(5, 3)), 5U);
  const std::uint32_t last = lender_id(node::kMaxRanks - 1, kMostCores - 1);
  EXPECT_EQ(lender_of(word_of(ChannelState::lent, last)), last);
}

}  // namespace
}  // namespace mh::lend
