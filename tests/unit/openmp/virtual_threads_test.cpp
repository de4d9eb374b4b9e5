// SPDX-License-Identifier: BSD-3-Clause
// Virtual threads are the thread numbers of a team that has no threads of its own; fibres run them.
// Each number runs once in each phase (up to a barrier), with and without helpers.
#include "openmp/virtual_threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "openmp/participation.hpp"
#include "support/lenders.hpp"
#include "support/sanitizer.hpp"
#include "support/stage.hpp"

namespace mh::openmp {
namespace {

constexpr std::uint32_t kLenders = 2;
constexpr std::uint32_t kSize = 24;

struct Work {
  std::vector<int> ran = std::vector<int>(kSize);  // each element is written by one virtual thread
  std::atomic<std::uint64_t> by_helpers{0};
  std::atomic<std::uint32_t> met{0};
  std::atomic<int> early{0};
  std::uint32_t phases = 1;

  static void body(void* data) { static_cast<Work*>(data)->run(); }

  [[gnu::noinline]] void step() {
    const std::uint64_t until = ticks() + ticks_from_ns(5e3);
    while (ticks() < until) spin_pause();
    ++ran[current->virtual_number];
    if (current->role == Participant::Role::helper) by_helpers.fetch_add(1);
    met.fetch_add(1);
  }
  [[gnu::noinline]] static void meet() { virtual_team()->meet(current->virtual_number); }

  void run() {
    for (std::uint32_t phase = 0; phase < phases; ++phase) {
      if (phase != 0) meet();
      if (met.load() < phase * kSize) early.fetch_add(1);
      step();
    }
  }
};

class Process {
 public:
  Process() : stage_(kLenders + 1), pool_(stage_.node(0), stage_.lendings(0), 2), region_(pool_) {
    for (std::uint32_t rank = 0; rank <= kLenders; ++rank) stage_.enter(rank);
    detail::region.store(&region_);
    lenders_.emplace(stage_, kLenders);
  }
  ~Process() {
    lenders_->stop();
    region_.close();
    detail::region.store(nullptr);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void execute(Site& site, Work& work) {
    TeamFibre* const fibres = work.phases > 1 ? TeamFibres::with_stacks(kSize) : nullptr;
    ASSERT_EQ(fibres != nullptr, work.phases > 1);
    VirtualTeam team(Work::body, &work, kSize, 1, kSize, fibres);
    ASSERT_TRUE(region_.enter(site, VirtualTeam::run_claimed, &team, 1));
    region_.begins_in_loop();
    region_.admits_at_once();
    region_.open(team.loop(), {}, false);
    Participant me = region_.member(0);
    {
      const ParticipantScope scope(me);
      region_.run_body();
    }
    region_.account(me);
    region_.leave();
  }

 private:
  test::Stage stage_;
  lend::Pool pool_;
  SharedRegion region_;
  std::optional<test::Lenders> lenders_;
};

void expect_each_ran(const Work& work, int times) {
  EXPECT_EQ(std::count(work.ran.begin(), work.ran.end(), times), std::int64_t{kSize});
  EXPECT_EQ(work.early.load(), 0) << "a thread went on before all had met";
}

TEST(VirtualThreads, each_number_runs_once) {
  Process process;
  Site site;
  decide_site(site, Obstacle::none);
  std::uint64_t by_helpers = 0;
  for (int times = 0; times < 2000 && by_helpers == 0; ++times) {
    Work work;
    process.execute(site, work);
    expect_each_ran(work, 1);
    by_helpers += work.by_helpers.load();
  }
  EXPECT_GT(by_helpers, 0U);
}

// ThreadSanitizer does not know that another thread may continue a fibre, so this test does not run
// with it.
TEST(VirtualThreadsUnsanitized, all_meet_before_one_goes_on) {
  Process process;
  Site site;
  decide_site(site, Obstacle::none);
  std::uint64_t by_helpers = 0;
  for (int times = 0; times < 2000 && by_helpers == 0; ++times) {
    Work work;
    work.phases = 5;
    process.execute(site, work);
    expect_each_ran(work, 5);
    by_helpers += work.by_helpers.load();
  }
  EXPECT_GT(by_helpers, 0U);
}

}  // namespace
}  // namespace mh::openmp
