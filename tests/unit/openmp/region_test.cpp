// SPDX-License-Identifier: BSD-3-Clause
// Regions as compiled code executes them: the body claims chunks until all are claimed, then merges
// its result. Lenders are threads, so that ThreadSanitizer sees both owner and helpers.
#include "openmp/region.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "support/lenders.hpp"
#include "support/sanitizer.hpp"
#include "support/stage.hpp"

namespace mh::openmp {
namespace {

constexpr std::uint32_t kLenders = 3;
constexpr std::uint64_t kCount = 500;

// A loop with a reduction and a lastprivate variable, in the form into which compilers translate
// it.
struct Work {
  explicit Work(SharedRegion& mine) : region(&mine) {}

  SharedRegion* region;
  Loop loop{.start = 0, .step = 1, .bound = kCount, .count = kCount};
  LoopChunkRule own{.schedule = Schedule::dynamic, .chunk = 4};
  bool in_order = false;

  std::vector<int> seen = std::vector<int>(kCount);  // each element is written by one thread
  std::uint64_t sum = 0;
  std::uint64_t last = 0;
  std::uint64_t by_helpers = 0;
  int merges = 0;
  bool descending = false;  // a thread got a chunk that begins below the end of an earlier one
  std::mutex merging;

  static void body(void* data) { static_cast<Work*>(data)->run(); }

  void run() {
    Participant& me = *current;
    if (me.role == Participant::Role::owner) region->open(loop, own, in_order);
    ++me.loops;
    std::uint64_t mine = 0;
    std::uint64_t at = 0;
    bool fell = false;
    for (IterationRange range = region->next(me); !range.empty(); range = region->next(me)) {
      fell = fell || range.first < at;
      for (at = range.first; at < range.end; ++at) mine += visit(at);
    }
    const std::lock_guard<std::mutex> hold(merging);
    sum += mine;
    ++merges;
    if (at == kCount) last = at - 1;  // compiled code recognises the last iteration by the bound
    if (me.role == Participant::Role::helper) by_helpers += mine;
    descending = descending || fell;
  }

  std::uint64_t visit(std::uint64_t i) {
    const std::uint64_t until = ticks() + ticks_from_ns(1e3);
    while (ticks() < until) spin_pause();
    ++seen[i];
    return i;
  }
};

// A rank with a shared region, and other ranks that lend it their cores until the end of the test.
class Team {
 public:
  Team() : stage_(kLenders + 1), pool_(stage_.node(0), stage_.lendings(0), 3), region_(pool_) {
    for (std::uint32_t rank = 0; rank <= kLenders; ++rank) stage_.enter(rank);
    lenders_.emplace(stage_, kLenders);
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void execute(Site& site, Work& work, const LoopChunkRule& helpers = {}, Body body = Work::body) {
    ASSERT_TRUE(region_.enter(site, body, &work, 1));
    if (helpers.schedule != Schedule::unspecified) region_.set_chunk_rules(work.own, helpers);
    Participant me = region_.member(0);
    current = &me;
    region_.run_body();
    current = nullptr;
    region_.account(me);
    region_.leave();
  }
  SharedRegion& region() { return region_; }

 private:
  test::Stage stage_;
  lend::Pool pool_;
  SharedRegion region_;
  std::optional<test::Lenders> lenders_;
};

// A rank with a shared region that helpers may join, and no lenders.
struct LoneOwner {
  explicit LoneOwner(std::uint32_t helpers) : pool(stage.node(0), stage.lendings(0), helpers) {
    stage.enter(0);
    decide_site(site, Obstacle::none);
  }

  test::Stage stage{2};
  lend::Pool pool;
  SharedRegion region{pool};
  Site site;
};

constexpr int kRounds = test::kSanitized ? 30 : 200;

void expect_every_iteration_once(const Work& work, std::uint64_t times = 1) {
  for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(work.seen[i], static_cast<int>(times)) << i;
  ASSERT_EQ(work.sum, times * kCount * (kCount - 1) / 2);
  ASSERT_EQ(work.last, kCount - 1);
}

// A brief loop is offered to lenders as soon as a thread opens it. Other loops are offered once
// thread 0 has reviewed them (estimated their time); a brief loop need not wait until thread 0
// arrives.
TEST(SharedRegion, a_brief_loop_is_offered_whoever_opens_it) {
  for (const std::uint32_t threads : {1U, 2U, 3U}) {
    SCOPED_TRACE(threads);
    test::Stage stage(2);
    stage.enter(0);
    lend::Pool pool(stage.node(0), stage.lendings(0), 3);
    SharedRegion region(pool);
    Site site;
    const double ns = 20e3 * threads / kCount;
    decide_site(site, Obstacle::none);
    site.ticks_per_iteration.store(static_cast<float>(ns * ticks_per_ns()));
    const auto nothing = [](void* /*data*/) {};
    ASSERT_TRUE(region.enter(site, nothing, nullptr, threads));
    region.begins_in_loop();
    region.open({.start = 0, .step = 1, .bound = kCount, .count = kCount},
                {.schedule = Schedule::dynamic, .chunk = 4}, false);
    Participant second = region.member(1);
    if (threads > 1) {
      EXPECT_FALSE(region.next(second).empty());
    }
    Participant first = region.member(0);
    EXPECT_FALSE(region.next(first).empty());
    constexpr auto kLoops = static_cast<std::size_t>(lend::WorkKind::loops);
    EXPECT_NE(stage.lendings(0).offer.ends[kLoops].load(), 0U);
    while (!region.next(first).empty()) continue;
    EXPECT_EQ(stage.lendings(0).offer.ends[kLoops].load(), 0U);
    EXPECT_EQ(first.done + second.done, kCount);
    region.account(first);
    region.leave();
    region.close();
  }
}

// The iterations (rows of a triangle) are so few that the time of the first iteration makes the
// whole loop seem too short to be offered.
constexpr std::uint64_t kRows = 8;

// Runs a loop with increasing iterations, as over the rows of a triangle, on the owner alone.
// Returns the chunk at which the owner first offers the loop to lenders, from 1; 0: at none.
std::uint64_t first_offer_of_ramp(LoneOwner& owner, Site& site) {
  constexpr auto kLoops = static_cast<std::size_t>(lend::WorkKind::loops);
  SharedRegion& region = owner.region;
  const auto nothing = [](void* /*data*/) {};
  EXPECT_TRUE(region.enter(site, nothing, nullptr, 1));
  region.begins_in_loop();
  region.open({.start = 0, .step = 1, .bound = kRows, .count = kRows},
              {.schedule = Schedule::dynamic, .chunk = 1}, false);
  Participant me = region.member(0);
  std::uint64_t offered = 0;
  for (IterationRange at = region.next(me); !at.empty(); at = region.next(me)) {
    const bool is_offered = owner.stage.lendings(0).offer.ends[kLoops].load() != 0;
    if (offered == 0 && is_offered) offered = at.first + 1;
    const std::uint64_t until = ticks() + ticks_from_ns(100e3 * static_cast<double>(at.first));
    while (ticks() < until) spin_pause();
  }
  region.account(me);
  region.leave();
  return offered;
}

// The loop takes 3 ms, its first iteration some nanoseconds.
TEST(SharedRegion, a_loop_that_begins_with_short_iterations_is_offered) {
  LoneOwner owner(3);
  Site other;  // its loop brings the code into the caches
  decide_site(other, Obstacle::none);
  first_offer_of_ramp(owner, other);
  const std::uint64_t at_first = first_offer_of_ramp(owner, owner.site);
  EXPECT_GT(at_first, 0U);
  EXPECT_LE(at_first, kRows / 2 + 2) << "halfway";
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(first_offer_of_ramp(owner, owner.site), 1U) << "its time is known";
  }
}

// In compiled code the thread that has executed the last iteration copies the lastprivate variable
// out, so a helper leaves the loop after that iteration. Helpers begin at the end of the loop:
// their first chunk contains its last iteration. The same unit then enters the loop a second time.
TEST(SharedRegion, a_helper_of_the_last_iteration_comes_back_in_the_same_unit) {
  LoneOwner owner(1);
  SharedRegion& region = owner.region;
  owner.site.ticks_per_iteration.store(static_cast<float>(1e3 * ticks_per_ns()));
  Work work(region);
  ASSERT_TRUE(region.enter(owner.site, Work::body, &work, 1));
  region.begins_in_loop();
  work.own = {.schedule = Schedule::unspecified};  // the owner claims nothing at open()
  region.open(work.loop, work.own, work.in_order);
  EXPECT_TRUE(region.unit(0, ~0ULL));
  expect_every_iteration_once(work);
  EXPECT_EQ(work.merges, 2);
  region.leave();
  region.close();
}

TEST(SharedRegion, helpers_take_part_and_every_iteration_is_done_once) {
  Team team;
  Site site;
  std::uint64_t helped = 0;
  // On a busy machine the lenders may come late, so the loop is executed again until one has
  // helped, for at most 40 s.
  const std::uint64_t patience_ends = ticks() + ticks_from_ns(40e9);
  for (int round = 0; round < kRounds || (helped == 0 && ticks() < patience_ends); ++round) {
    Work work(team.region());
    team.execute(site, work);
    expect_every_iteration_once(work);
    helped += work.by_helpers;
  }
  EXPECT_GT(helped, 0U);
  EXPECT_GT(team.region().exposures(), 0U);
  EXPECT_EQ(site.state.load(), SiteState::shared);
}

// A loop whose time is known from earlier executions, and short enough, is offered at once.
TEST(SharedRegion, loops_that_are_known_to_be_short_are_offered_too) {
  Team team;
  Site site;
  constexpr std::uint64_t kFew = 25;
  const std::uint64_t before = team.region().exposures();
  for (int round = 0; round < kRounds; ++round) {
    Work work(team.region());
    work.loop = {.start = 0, .step = 1, .bound = kFew, .count = kFew};
    team.execute(site, work);
    for (std::uint64_t i = 0; i < kFew; ++i) ASSERT_EQ(work.seen[i], 1) << i;
    ASSERT_EQ(work.sum, kFew * (kFew - 1) / 2);
  }
  EXPECT_GT(team.region().exposures(), before);
}

// A loop with a barrier behind it, at which helpers of the loop wait with the owner.
struct WithBarrier : Work {
  using Work::Work;
  std::atomic<int> too_early{0};

  static void body(void* data) {
    auto& work = *static_cast<WithBarrier*>(data);
    work.run();
    if (current->role == Participant::Role::helper) {
      work.region->await_team();
    } else {
      work.region->before_barrier(*current);
      work.region->after_barrier(*current);
    }
    for (const int times : work.seen) work.too_early += times == 1 ? 0 : 1;
  }
};

TEST(SharedRegion, at_a_barrier_behind_the_loop_helpers_wait_with_the_owner) {
  Team team;
  Site site;
  std::uint64_t helped = 0;
  const std::uint64_t patience_ends = ticks() + ticks_from_ns(40e9);
  for (int round = 0; round < kRounds || (helped == 0 && ticks() < patience_ends); ++round) {
    WithBarrier work(team.region());
    team.execute(site, work, {}, WithBarrier::body);
    expect_every_iteration_once(work);
    ASSERT_EQ(work.too_early.load(), 0);
    helped += work.by_helpers;
  }
  EXPECT_GT(helped, 0U);
}

TEST(SharedRegion, a_helper_is_not_kept_at_a_barrier_that_the_owner_does_not_have) {
  Team team;
  Site site;
  struct Alone : Work {
    using Work::Work;
    static void body(void* data) {
      auto& work = *static_cast<Alone*>(data);
      work.run();
      if (current->role == Participant::Role::helper) work.region->await_team();
    }
  };
  for (int round = 0; round < kRounds; ++round) {
    Alone work(team.region());
    team.execute(site, work, {}, Alone::body);
    expect_every_iteration_once(work);
  }
}

TEST(SharedRegion, in_order_nobody_goes_back) {
  Team team;
  Site site;
  for (int round = 0; round < kRounds; ++round) {
    Work work(team.region());
    work.in_order = true;
    team.execute(site, work);
    expect_every_iteration_once(work);
    ASSERT_FALSE(work.descending);
  }
}

TEST(SharedRegion, the_users_word_on_chunks_is_kept) {
  Team team;
  Site site;
  for (const Schedule schedule : {Schedule::dynamic, Schedule::guided}) {
    for (int round = 0; round < kRounds / 4; ++round) {
      Work work(team.region());
      work.own = {.schedule = Schedule::guided, .chunk = 3};
      team.execute(site, work, {.schedule = schedule, .chunk = 5});
      expect_every_iteration_once(work);
    }
  }
}

// Claims the chunks of a loop as a compiled body does, for the owner and for helpers, and records
// them.
class Chunks {
 public:
  struct Chunk {
    Participant::Role role;
    IterationRange range;
    std::uint64_t left;     // iterations left before the claim
    std::uint64_t threads;  // threads in the loop at the claim
  };

  Chunks(std::uint64_t count, const LoopChunkRule& own, const LoopChunkRule& helpers)
      : stage_(2), pool_(stage_.node(0), stage_.lendings(0), 3), region_(pool_), count_(count) {
    stage_.enter(0);
    decide_site(site_, Obstacle::none);
    EXPECT_TRUE(region_.enter(site_, body, this, 1));
    region_.set_chunk_rules(own, helpers);
    region_.begins_in_loop();
  }
  ~Chunks() {
    region_.leave();
    region_.close();
  }
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;

  void set_rate(double ns) {
    site_.ticks_per_iteration.store(static_cast<float>(ns * ticks_per_ns()));
  }
  void open() {
    region_.open({.start = 0, .step = 1, .bound = count_, .count = count_}, {}, false);
  }
  // Claims a chunk for the owner, and spends `ns` on each iteration.
  void own_chunk(double ns) {
    const IterationRange range = region_.next(owner_);
    add(owner_.role, range, 1);
    const std::uint64_t until = ticks() + ticks_from_ns(ns) * range.size();
    while (ticks() < until) spin_pause();
  }
  void run_helper(std::uint32_t number) { region_.unit(number, ~0ULL); }

  // If true, a second helper joins the loop once the first helper has a chunk.
  bool second_joins = false;
  // If true, iterations of helpers seem to take no time, even if a thread loses its core meanwhile.
  bool is_timeless = false;
  std::vector<Chunk> chunks;

 private:
  static void body(void* data) { static_cast<Chunks*>(data)->run_as_helper(); }

  void run_as_helper() {
    ++inside_;
    for (;;) {
      if (is_timeless) current->since = ticks();
      const IterationRange range = region_.next(*current);
      if (range.empty()) break;
      add(current->role, range, 1 + inside_);
      if (second_joins && inside_ == 1) run_helper(1);
    }
    --inside_;
  }
  void add(Participant::Role role, const IterationRange& range, std::uint64_t threads) {
    chunks.push_back({role, range, left_, threads});
    left_ -= range.size();
  }

  test::Stage stage_;
  lend::Pool pool_;
  SharedRegion region_;
  Site site_;
  std::uint64_t count_;
  std::uint64_t left_ = count_;
  std::uint64_t inside_ = 0;
  Participant owner_{.role = Participant::Role::owner, .site = &site_, .loops = 1};
};

constexpr LoopChunkRule kGuidedByTwo{.schedule = Schedule::guided, .chunk = 2};

TEST(SharedRegion, dynamic_chunks_are_as_long_as_the_user_says) {
  Chunks loop(100, {.schedule = Schedule::dynamic, .chunk = 7},
              {.schedule = Schedule::dynamic, .chunk = 5});
  loop.set_rate(1e3);
  loop.open();
  loop.own_chunk(0);
  loop.own_chunk(0);
  loop.run_helper(0);
  ASSERT_EQ(loop.chunks.size(), 20U);
  std::uint64_t end = 100;
  for (std::size_t i = 0; i < loop.chunks.size(); ++i) {
    const IterationRange range = loop.chunks[i].range;
    if (i < 2) {
      EXPECT_EQ(range.first, 7 * i);
      EXPECT_EQ(range.size(), 7U);
      continue;
    }
    EXPECT_EQ(range.end, end) << "helpers take from the end";
    EXPECT_EQ(range.size(), std::min<std::uint64_t>(5, end - 14));
    end = range.first;
  }
}

// The loop's time per iteration is set so low that the limit on a chunk's time does not shorten the
// chunks.
TEST(SharedRegion, guided_chunks_are_half_of_a_fair_share_for_all_in_the_loop) {
  for (const bool two : {false, true}) {
    SCOPED_TRACE(two);
    Chunks loop(40'000, kGuidedByTwo, kGuidedByTwo);
    loop.second_joins = two;
    loop.is_timeless = true;
    loop.set_rate(1);
    loop.open();
    loop.own_chunk(0);
    loop.run_helper(0);
    std::uint64_t most_threads = 0;
    for (const Chunks::Chunk& chunk : loop.chunks) {
      const std::uint64_t share = std::max<std::uint64_t>(chunk.left / (2 * chunk.threads), 2);
      EXPECT_EQ(chunk.range.size(), std::min(share, chunk.left)) << chunk.left;
      most_threads = std::max(most_threads, chunk.threads);
    }
    EXPECT_EQ(most_threads, two ? 3U : 2U);
    EXPECT_GT(loop.chunks.size(), 20U);
  }
}

TEST(SharedRegion, a_guided_chunk_lasts_a_limited_time) {
  Chunks loop(400, kGuidedByTwo, kGuidedByTwo);
  loop.set_rate(5e3);
  loop.open();
  loop.own_chunk(0);
  loop.run_helper(0);
  ASSERT_GE(loop.chunks.size(), 2U);
  const auto most = static_cast<std::uint64_t>(tuning::kMostGuidedChunkNs / 5e3);
  EXPECT_LE(loop.chunks[0].range.size(), most + 1);
  EXPECT_LE(loop.chunks[1].range.size(), most + 1);
  EXPECT_GE(loop.chunks[1].range.size(), most - 1);
}

// The time of an iteration is unknown until the owner has done some iterations, here of 1 ms each.
// A helper comes after these iterations: the limit on a chunk's time gives it only one iteration.
TEST(SharedRegion, the_first_helper_of_a_new_loop_takes_no_more_than_the_limit) {
  Chunks loop(400, {.schedule = Schedule::guided, .chunk = 1},
              {.schedule = Schedule::guided, .chunk = 1});
  loop.open();
  loop.own_chunk(1e6);
  loop.own_chunk(1e6);
  loop.run_helper(0);
  ASSERT_GE(loop.chunks.size(), 3U);
  EXPECT_EQ(loop.chunks[0].range.size(), 1U);
  EXPECT_EQ(loop.chunks[2].role, Participant::Role::helper);
  EXPECT_EQ(loop.chunks[2].range.size(), 1U) << "an iteration of a millisecond";
}

// No other rank waits and lends here: the rank's own workers lend its spare cores.
TEST(SharedRegion, a_long_loop_calls_the_spare_cores_of_its_rank) {
  test::Stage stage(2);
  stage.enter(0);
  lend::Pool pool(stage.node(0), stage.lendings(0), 3);
  lend::Workers spare(
      stage.node(0), 0, lend::VictimPolicy::most_work,
      [](std::uint32_t, lend::WorkKind) { return true; }, {0, 1}, 40e9);
  SharedRegion region(pool, &spare);
  Site site;
  std::uint64_t helped = 0;
  const std::uint64_t patience_ends = ticks() + ticks_from_ns(40e9);
  while (helped == 0 && ticks() < patience_ends) {
    Work work(region);
    ASSERT_TRUE(region.enter(site, Work::body, &work, 1));
    Participant me = region.member(0);
    current = &me;
    region.run_body();
    current = nullptr;
    region.account(me);
    region.leave();
    expect_every_iteration_once(work);
    helped += work.by_helpers;
  }
  EXPECT_GT(helped, 0U);
  region.close();
}

TEST(SharedRegion, a_region_that_met_an_obstacle_is_not_opened_to_helpers) {
  Team team;
  Site site;
  struct Asking : Work {
    using Work::Work;
    static void body(void* data) {
      current->meets(Obstacle::thread_number);
      static_cast<Asking*>(data)->run();
    }
  };
  Asking work(team.region());
  ASSERT_TRUE(team.region().enter(site, Asking::body, &work, 1));
  Participant me = team.region().member(0);
  current = &me;
  team.region().run_body();
  current = nullptr;
  team.region().account(me);
  team.region().leave();
  expect_every_iteration_once(work);
  EXPECT_EQ(work.by_helpers, 0U);
  EXPECT_EQ(team.region().exposures(), 0U);
  EXPECT_EQ(site.state.load(), SiteState::excluded);
  EXPECT_EQ(site.obstacle.load(), Obstacle::thread_number);
}

TEST(SharedRegion, one_thread_at_a_time_has_it) {
  Team team;
  Site site;
  Work work(team.region());
  ASSERT_TRUE(team.region().enter(site, Work::body, &work, 1));
  EXPECT_FALSE(team.region().enter(site, Work::body, &work, 1));
  team.region().leave();
  EXPECT_TRUE(team.region().enter(site, Work::body, &work, 1));
  team.region().leave();
}

TEST(SharedRegion, a_loop_of_nothing_ends_at_once) {
  Team team;
  Site site;
  Work work(team.region());
  work.loop = {};
  team.execute(site, work);
  EXPECT_EQ(work.sum, 0U);
}

}  // namespace
}  // namespace mh::openmp
