// SPDX-License-Identifier: BSD-3-Clause
// One execution of a parallel region whose loop is shared, and those who take part in it.
//
// The owner runs the region's body as without us, alone or with its team, and hands itself chunks
// from the front of the loop. From the moment the loop is open helpers may join: each runs the same
// body, gets chunks from the end until its unit is over, and leaves through the compiler's own
// epilogue, which merges reductions. Nothing of a helper is kept: it comes as a late member of the
// team each time, and within a unit once more if it did the last iteration, with which it has to
// leave. Source: MPI Workshare, III.
//
// A region that helpers may come to stays exposed in the pool; of each execution there is only an
// offer, and the word of its iterations says who may come in. Before they are in, helpers look at
// nothing else (iterations.hpp).
//
// Limits: one shared region at a time in a process; in others the loop is the owner's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/biased_flag.hpp"
#include "base/tuning.hpp"
#include "lend/pool.hpp"
#include "openmp/iterations.hpp"
#include "openmp/real.hpp"
#include "openmp/sites.hpp"
#include "openmp/surroundings.hpp"

namespace mh::openmp {

static_assert(Iterations::kMostHelpers >= lend::kHelpers);

enum class Schedule : std::uint8_t { unspecified, dynamic, guided };

// How one side cuts its chunks; unspecified: by the time that iterations take.
struct Cut {
  Schedule schedule = Schedule::unspecified;
  std::uint64_t chunk = 1;
};

// What was stored in parts a moment ago is not to be loaded as a whole, as compilers copy
// structures: such a load waits until the stores have left the core.
inline std::uint64_t by_itself(std::uint64_t part) {
  asm("" : "+r"(part));
  return part;
}
inline Cut apart(const Cut& cut) {
  return {.schedule = cut.schedule, .chunk = by_itself(cut.chunk)};
}

// The loop as the compiler's code describes it; index arithmetic is modulo 2^64.
struct Loop {
  std::uint64_t start = 0;
  std::uint64_t step = 0;
  std::uint64_t bound = 0;  // what the last chunk ends with
  std::uint64_t count = 0;
};

// Indices from one to another that lies so far away, both included; most loops do without the
// division.
inline std::uint64_t indices_over(std::uint64_t distance, std::uint64_t step) {
  return (step == 1 ? distance : distance / step) + 1;
}

// A thread's part in one execution of a region.
struct Participant {
  enum class Role : std::uint8_t { watched, owner, helper };

  static constexpr std::uint32_t kStrayed = 2;

  Role role;
  Site* site;
  bool marked = false;                 // by the user: the loop is to be shared
  std::uint32_t number = 0;            // in the team
  std::uint32_t loops = 0;             // begun so far; kStrayed: several, or another kind
  Obstacle obstacle = Obstacle::none;  // met so far
  bool asked_team = false;             // for the number of its threads
  bool over = false;                   // helper: may take no further chunk
  std::uint64_t deadline = 0;          // helper: end of the unit, in ticks
  std::uint64_t review_at = 0;         // owner, in the loop: when `done` is this, it looks around
  std::uint64_t since = 0;             // when the last chunk was given, and of what size
  std::uint64_t size = 0;
  std::uint64_t done = 0;  // iterations given to this thread

  // Is of the owner's team, not in a loop after the shared one, and has nothing to do but to take
  // its next chunk.
  [[nodiscard]] bool goes_on() const { return done < review_at; }

  // Begins a loop that is not the shared one.
  void strays() {
    loops = kStrayed;
    review_at = 0;
  }

  // The region is not one to be shared, for this reason.
  void meets(Obstacle what) {
    if (obstacle == Obstacle::none) obstacle = what;
  }
};

// Of this thread; null outside of regions that are watched or shared.
extern constinit thread_local Participant* current;

// This thread's part, also inside of regions nested in the one it takes part in.
extern constinit thread_local Participant* part;

// Takes the part for the duration.
class Taking {
 public:
  explicit Taking(Participant& me)
      : kept_current_(std::exchange(current, &me)), kept_part_(std::exchange(part, &me)) {}
  ~Taking() {
    current = kept_current_;
    part = kept_part_;
  }
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;

 private:
  Participant* kept_current_;
  Participant* kept_part_;
};

// The region of this thread's part does what keeps it from being shared: it is not any more, and
// what has been begun comes to its end.
inline void exclude(Participant& me, Obstacle what) {
  me.meets(what);
  if (me.role != Participant::Role::watched) decide(*me.site, what);
}

class Region final : public lend::Work {
 public:
  // `pool` outlives the region.
  explicit Region(lend::Pool& pool);
  // No helper comes any more. Not while a thread is in the region.
  void close() { pool_.withdraw(lend::Kind::loops); }

  // False if another thread is in the shared region. Else it is this thread's until leave().
  bool enter(Site& site, Body body, void* data, std::uint32_t own_threads) {
    if (!entered_.raise()) return false;
    site_ = &site;
    body_ = body;
    data_ = data;
    own_threads_ = own_threads;
    loops_before_ = 0;
    helpers_ = {};
    marked_ = false;
    known_ = false;
    brief_ = false;
    offered_ = false;
    first_ = 0;
    reviewed_done_ = 0;
    stage_.store(Stage::closed, std::memory_order_relaxed);
    return true;
  }
  // The owner is done with the body; returns when all helpers are.
  void leave() {
    part_from_helpers();
    entered_.lower();
  }

  // A thread of the owner's team; numbered from 0, the thread that entered.
  [[nodiscard]] Participant member(std::uint32_t number) {
    return {.role = Participant::Role::owner,
            .site = site_,
            .marked = marked_,
            .number = number,
            .loops = loops_before_,
            .review_at = looks_around(number) ? 0 : kNever};
  }
  void run_body() const { body_(data_); }
  // Before leave(), with what thread 0 did and met for the first time.
  void account(const Participant& owner) {
    if (teaches(owner)) [[unlikely]]
      learn(owner);
    if (site_->state.load(std::memory_order_relaxed) == Site::State::unseen) {
      decide(*site_, owner.obstacle);
    }
  }

  // The user's own word on how chunks are cut, instead of what open() will say.
  void cuts_as(const Cut& own, const Cut& helpers) {
    own_ = apart(own);
    helpers_ = apart(helpers);
    marked_ = true;
  }
  // The owner's team has come to the loop. Any of its threads; the first describes it. `in_order`:
  // each thread must get its iterations in ascending order.
  void open(const Loop& loop, const Cut& own, bool in_order);
  // The body starts inside the loop. Before open().
  void begins_in_loop() { loops_before_ = 1; }
  // The next chunk of this thread; empty: the loop is over for it.
  Range next(Participant& me) {
    return me.role == Participant::Role::owner ? next_of_owner(me) : next_of_helper(me);
  }
  // Likewise, of one that goes on.
  Range next_at_once(Participant& me);
  [[nodiscard]] const Loop& loop() const { return loop_; }
  [[nodiscard]] std::uint32_t own_threads() const { return own_threads_; }
  // Threads of a team that helpers belong to, whether they come or not.
  [[nodiscard]] std::uint32_t team() const { return own_threads_ + lend::kHelpers; }
  // ---- A barrier of the team, which a helper comes to as well if it has the loop behind it.
  //
  // A region with a barrier in front of its loop is not joined.

  // The first thread of the team waits for helpers before it goes to the others ...
  void before_barrier(const Participant& me);
  // ... and lets them go on after.
  void after_barrier(const Participant& me);
  // A helper waits for the team.
  void await_team();
  // What one thread of the team gives to the others; null if it has none.
  void give_copy(void* data) {
    // release: pairs with await_copy().
    copy_.store(data, std::memory_order_release);
  }
  void* await_copy();

  bool unit(std::uint32_t helper, std::uint64_t deadline) noexcept override;

  // Executions that could be joined so far.
  [[nodiscard]] std::uint64_t exposures() const { return pool_.exposures(lend::Kind::loops); }

 private:
  static constexpr std::uint64_t kNever = ~0ULL;
  enum class Stage : std::uint32_t { closed, opening, open };
  static constexpr std::uint32_t kReviewEvery = 32;  // executions of a tiny or short loop

  // Whether a member of the team has to, at its first chunk. What is brief was offered by a team of
  // one when it was opened; of another team somebody may be opening the loop just now.
  [[nodiscard]] bool looks_around(std::uint32_t number) const {
    return number == 0 && (own_threads_ > 1 || !brief_);
  }
  Range next_of_owner(Participant& me) {
    const bool is_due = !me.goes_on();
    const Range range = next_at_once(me);
    if (is_due && !range.empty()) consider(me);
    return range;
  }
  Range next_of_helper(Participant& me);
  bool takes_part(std::uint32_t helper, std::uint64_t deadline);
  void look_at_loop();
  [[nodiscard]] bool may_be_joined() const;
  // Times are in ticks, and floats: nothing is converted on the way to an open loop.
  [[nodiscard]] float in_ticks(float ns) const { return ns * ticks_per_ns_; }
  [[nodiscard]] float rate() const {
    return site_->ticks_per_iteration.load(std::memory_order_relaxed);
  }
  [[nodiscard]] float alone(float rate, std::uint64_t iterations) const;
  [[nodiscard]] bool is_to_open();
  void consider(Participant& me);
  void offer(std::uint64_t ends);
  [[nodiscard]] bool is_brief() const;
  void offer_briefly();
  [[nodiscard]] float rate_now(std::uint64_t now, std::uint64_t done);
  // One execution in some is looked at even if all is known.
  [[nodiscard]] bool has_its_turn() const { return site_->outlook.executions % kReviewEvery == 0; }
  [[nodiscard]] bool teaches(const Participant& owner) const {
    if (!known_) return owner.done != 0;
    return offered_ && (reviewed_done_ != 0 || has_its_turn());
  }
  [[nodiscard]] std::uint64_t next_review(std::uint64_t done, float rest, float whole) const;
  void learn(const Participant& owner);
  void part_from_helpers() {
    if (offered_) pool_.nothing_left(lend::Kind::loops);
    offered_ = false;
    if (!iterations_.settled()) [[unlikely]]
      await_helpers();
    // relaxed: settled() has acquired what they wrote.
    if (raised_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      FloatingPoint::raise(raised_.exchange(0, std::memory_order_relaxed));
  }
  void await_helpers();
  void let_go_on();
  [[nodiscard]] std::uint64_t chunk_of(const Cut& cut, float most_ns) const;

  lend::Pool& pool_;
  const float ticks_per_ns_;
  Site* site_ = nullptr;
  Body body_ = nullptr;
  void* data_ = nullptr;
  std::uint32_t own_threads_ = 1;
  std::uint32_t loops_before_ = 0;  // begun when the body starts
  Loop loop_;
  Cut own_;
  Cut helpers_;
  std::uint64_t first_ = 0;  // iterations taken when the loop was opened, by a team of one
  float whole_ = 0;          // ticks that the loop takes without helpers, as far as known
  bool in_order_ = false;
  bool marked_ = false;
  bool known_ = false;  // what iterations take, and that helpers may do them
  bool brief_ = false;  // known to need no look at the clock
  // Of the thread that entered, and of no other: whether helpers were told to come, and what this
  // execution teaches of the site.
  bool offered_ = false;
  std::uint64_t begin_ = 0;        // ticks, of the first chunk
  std::uint64_t reviewed_at_ = 0;  // ticks and iterations at the last review
  std::uint64_t reviewed_done_ = 0;

  // Of the thread that lets helpers in, before it does: published with the word of iterations_.
  Surroundings surroundings_{};
  std::atomic<std::uint32_t> raised_{0};  // floating-point exceptions, by helpers

  // Released by the thread that describes the loop, acquired by the rest of its team. Helpers learn
  // of it by coming in (iterations.hpp).
  std::atomic<Stage> stage_{Stage::closed};
  // Helpers at a barrier (release: pairs with before_barrier(); what they did is done), how often
  // such helpers were let go on (release: pairs with await_team()), what the team gives to each of
  // its threads there.
  std::atomic<std::uint32_t> at_barrier_{0};
  std::atomic<std::uint32_t> passed_{0};
  std::atomic<void*> copy_{nullptr};
  std::atomic<bool> leaving_{false};  // relaxed: ends a wait for what will not come
  // By the thread that is in the region: most programs have one that ever is.
  BiasedFlag<> entered_;
  Iterations iterations_;
};

// Here, since it is what a chunk costs.
inline Range Region::next_at_once(Participant& me) {
  Range range{.end = first_};
  if (range.end != 0) {
    first_ = 0;
  } else {
    const bool as_given = own_.schedule == Schedule::dynamic;
    range =
        iterations_.from_front(as_given ? own_.chunk : chunk_of(own_, tuning::kLeastLoopChunkNs));
  }
  if (range.empty()) {
    if (me.number == 0 && offered_) pool_.nothing_left(lend::Kind::loops);
    return range;
  }
  me.size = range.size();
  me.done += me.size;
  return range;
}

}  // namespace mh::openmp
