// SPDX-License-Identifier: BSD-3-Clause
// An execution of a parallel region whose loop is shared with helpers, and the threads that run it.
//
// The owner runs the region's body as without Manyhands, alone or with its team, and claims chunks
// from the front of the loop. While the loop is open, helpers may join. A helper runs the same
// body, claims chunks from the end until its unit is over, and leaves through the compiler's
// epilogue, which merges reductions. A helper keeps no state: it joins as a late member of the team
// each time. Source: MPI Workshare, III.
//
// Compiled code copies a lastprivate variable out in a thread whose last iteration is the last of
// the loop. A helper that has run the last iteration therefore runs no other one in this body. It
// leaves, and may join again within its unit.
//
// A region that helpers may join stays exposed in the pool (lend/pool.hpp). Each execution only
// makes an offer, and the atomic word of its iterations admits helpers; a helper reads nothing else
// before it has joined (iterations.hpp).
//
// Limits: one shared region at a time in a process; the loops of other regions are their owners'
// alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/biased_flag.hpp"
#include "base/tuning.hpp"
#include "lend/pool.hpp"
#include "lend/workers.hpp"
#include "observe/trace.hpp"
#include "openmp/iterations.hpp"
#include "openmp/real.hpp"
#include "openmp/sites.hpp"
#include "openmp/thread_state.hpp"

namespace mh::openmp {

class VirtualTeam;

static_assert(Iterations::kMostHelpers >= lend::kHelpers);

enum class Schedule : std::uint8_t { unspecified, dynamic, guided };

// The rule by which the owner's threads, or the helpers, cut their chunks of a loop; unspecified:
// as many iterations as fit into a certain time.
struct LoopChunkRule {
  Schedule schedule = Schedule::unspecified;
  std::uint64_t chunk = 1;
};

// Returns `part`, and keeps the compiler from merging its load with the load of its neighbour. A
// wide load right after narrow stores waits until the stores have left the core.
inline std::uint64_t load_word(std::uint64_t part) {
  asm("" : "+r"(part));
  return part;
}
inline LoopChunkRule load_apart(const LoopChunkRule& cut) {
  return {.schedule = cut.schedule, .chunk = load_word(cut.chunk)};
}

// The loop as the compiler's code describes it to the run time; index arithmetic is modulo 2^64.
struct Loop {
  std::uint64_t start = 0;
  std::uint64_t step = 0;
  std::uint64_t bound = 0;  // end of the last chunk, for libgomp
  std::uint64_t count = 0;
};

// The number of indices in a closed interval of length `distance`. Most loops have step 1 and need
// no division.
inline std::uint64_t indices_over(std::uint64_t distance, std::uint64_t step) {
  return (step == 1 ? distance : distance / step) + 1;
}

// The state of a thread in one execution of a region, as a thread of the owner's team, as a helper,
// or in the region's first, watched execution.
struct Participant {
  enum class Role : std::uint8_t { watched, owner, helper };

  static constexpr std::uint32_t kStrayed = 2;

  Role role;
  Site* site;
  bool marked = false;       // the user has marked the loop as shared
  std::uint32_t number = 0;  // the thread's number in the team
  std::uint32_t loops = 0;   // begun by this thread; kStrayed: not in the shared loop any more
  Obstacle obstacle = Obstacle::none;  // the first obstacle met
  // only in the region's first execution, whose calls are watched: the first call that only a team
  // of the run time can answer, and the number of the team's threads
  Obstacle needs_team = Obstacle::none;
  std::uint32_t threads = 0;
  bool meets_barrier = false;        // the threads meet at barriers
  bool asked_team = false;           // the region has asked for its number of threads
  bool took_last_iteration = false;  // helper: has the last iteration, may claim no further chunk
  std::uint64_t deadline = 0;        // helper: end of the unit, in ticks
  std::uint64_t review_at = 0;       // owner, in the loop: value of `done` at which to review
  std::uint64_t since = 0;  // helper: ticks at which the last chunk was claimed, and its size
  std::uint64_t size = 0;
  std::uint64_t done = 0;  // iterations claimed by this thread
  // The virtual thread that this thread runs, a call of the region's function for one thread number
  // (virtual_threads.hpp): its team and its number. Null: it runs none.
  VirtualTeam* team = nullptr;
  std::uint32_t virtual_number = 0;

  // True if the thread is of the owner's team, is in the loop that helpers may join, and has only
  // to claim its next chunk. Otherwise the thread must first estimate the loop's end
  // (review_loop()), or is elsewhere.
  [[nodiscard]] bool goes_on() const { return done < review_at; }

  // Records that the thread has begun another loop than the one that helpers may join.
  void begins_other_loop() {
    loops = kStrayed;
    review_at = 0;
  }

  // Records why helpers cannot join the region; the first reason counts.
  void meets(Obstacle what) {
    if (obstacle == Obstacle::none) obstacle = what;
  }
  // Records why the region needs a team of the run time, so that virtual threads
  // (virtual_threads.hpp) cannot run it; the first reason counts.
  void meets_team_call(Obstacle what) {
    if (needs_team == Obstacle::none) needs_team = what;
  }
};

// The calling thread's state in the region that it executes, if that is the process's shared
// region, or a region in its first, watched execution. Null in every other region, even in one that
// is nested in such a region, and outside of regions.
extern constinit thread_local Participant* current;

// The calling thread's state in the shared region around it, or in the region whose first execution
// is watched. Like `current`, but not null inside of regions that are nested in such a region.
extern constinit thread_local Participant* current_or_outer;

// Makes `me` the calling thread's state (`current` and `current_or_outer`) while this object lives.
class ParticipantScope {
 public:
  explicit ParticipantScope(Participant& me)
      : saved_current_(std::exchange(current, &me)),
        saved_current_or_outer_(std::exchange(current_or_outer, &me)) {}
  ~ParticipantScope() {
    current = saved_current_;
    current_or_outer = saved_current_or_outer_;
  }
  ParticipantScope(const ParticipantScope&) = delete;
  ParticipantScope& operator=(const ParticipantScope&) = delete;

 private:
  Participant* saved_current_;
  Participant* saved_current_or_outer_;
};

// Lets no helper join the region of `me`, because of `what`, from the next execution on; the
// current execution is completed.
inline void exclude_region(Participant& me, Obstacle what) {
  me.meets(what);
  if (me.role != Participant::Role::watched) decide_site(*me.site, what);
}

class SharedRegion final : public lend::LendableWork {
 public:
  // `pool` has the process's helpers. `spare`: the workers on the rank's spare cores; null: there
  // are none. Both outlive the region.
  explicit SharedRegion(lend::Pool& pool, lend::Workers* spare = nullptr);
  // Withdraws the region from the pool, so no helper joins it any more. Precondition: no thread is
  // in the region.
  void close() { pool_.withdraw(lend::WorkKind::loops); }

  // Called by the thread that encounters the region, which is in it until leave(). Returns false if
  // another thread is in the process's shared region, so that this execution cannot be shared.
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
    admits_ = false;
    offered_ = false;
    first_ = 0;
    reviewed_done_ = 0;
    stage_.store(Stage::closed, std::memory_order_relaxed);
    return true;
  }
  // Called when the owner has finished the region's body; returns when all helpers have finished
  // theirs.
  void leave() {
    part_from_helpers();
    if (spare_called_) [[unlikely]]
      dismiss_spare();
    entered_.lower();
  }

  // Returns the state with which the thread `number` of the owner's team begins the region. Number
  // 0 is the thread that called enter().
  [[nodiscard]] Participant member(std::uint32_t number) {
    return {.role = Participant::Role::owner,
            .site = site_,
            .marked = marked_,
            .number = number,
            .loops = loops_before_,
            .review_at = must_review_first(number) ? 0 : kNever};
  }
  void run_body() const { body_(data_); }
  // Records the times of this execution in the region's entry (Site), for later executions. Called
  // before leave(), with the state of thread 0.
  void account(const Participant& owner) {
    if (teaches(owner)) [[unlikely]]
      learn(owner);
    if (site_->state.load(std::memory_order_relaxed) == SiteState::unseen) {
      decide_site(*site_, owner.obstacle);
    }
  }

  // Sets the chunk rules with which the user has marked the loop. They are used instead of the rule
  // that open() gets.
  void set_chunk_rules(const LoopChunkRule& own, const LoopChunkRule& helpers) {
    own_ = load_apart(own);
    helpers_ = load_apart(helpers);
    marked_ = true;
  }
  // Opens the loop. Called by every thread of the owner's team when it comes to the loop; the first
  // to come describes the loop. `own`: the rule by which the owner's threads cut chunks.
  // `in_order`: each thread must get its iterations in ascending order.
  void open(const Loop& loop, const LoopChunkRule& own, bool in_order);
  // Call before open(): helpers may join from the beginning, however short the loop is expected to
  // be.
  void admits_at_once() { admits_ = true; }
  // Call before open(): the region is one loop and nothing else, so its body starts inside the
  // loop.
  void begins_in_loop() { loops_before_ = 1; }
  // Claims the next chunk of the loop for the calling thread, whose state is `me`. Empty: the loop
  // is over for this thread.
  IterationRange next(Participant& me) {
    return me.role == Participant::Role::owner ? next_of_owner(me) : next_of_helper(me);
  }
  // Claims the next chunk as next() does, but faster, for a thread of the owner's team that
  // goes_on().
  IterationRange next_at_once(Participant& me);
  [[nodiscard]] const Loop& loop() const { return loop_; }
  [[nodiscard]] std::uint32_t own_threads() const { return own_threads_; }
  // Makes all iterations claimable once more, after the virtual threads of the region have met at a
  // barrier (virtual_threads.hpp). Precondition: no iteration is left.
  void reopen() { iterations_.reopen(); }
  // Called after a claim: makes visible to the caller the work that other threads did before
  // reopen().
  void see_all() const { iterations_.see_all(); }
  // Called by thread 0 of the owner's team after reopen(). At its next chunk, thread 0 offers the
  // iterations to helpers again.
  void offer_again(Participant& me) {
    offered_ = false;
    me.review_at = 0;
  }
  // Waits until over() is true, which helpers bring about. Called by thread 0 of the owner's team.
  void await(const std::function<bool()>& over) { pool_.await_helpers(over); }
  // A number that changes with each claim of iterations; 0 if no iteration is left. Any thread may
  // call, at any time.
  [[nodiscard]] std::uint64_t progress() const { return iterations_.progress(); }
  // The number of threads in the owner's team if all helpers that the process can have were
  // members.
  [[nodiscard]] std::uint32_t team() const { return own_threads_ + pool_.most_helpers(); }
  // ---- Barriers of the team ---------------------------------------------------------------------
  //
  // A helper that has finished the loop waits at barriers with the team. Limit: helpers do not join
  // a region with a barrier before its loop.

  // Called by each thread of the owner's team before a barrier of the run time: thread 0 waits
  // until all helpers in the region wait in await_team().
  void before_barrier(const Participant& me);
  // Called by each thread of the owner's team after a barrier of the run time: thread 0 lets the
  // helpers go on from await_team().
  void after_barrier(const Participant& me);
  // Called by a helper at a barrier: gives the lent core back, and waits until the owner's team has
  // passed the barrier.
  void await_team();
  // Called by the thread that executed a `single` construct with copyprivate: gives its data to the
  // helpers. await_copy() returns the data, or null if the team gives none.
  void give_copy(void* data) {
    // release: publishes the data of the `single` construct, pairs with the acquire in
    // await_copy().
    copy_.store(data, std::memory_order_release);
  }
  void* await_copy();

  bool unit(std::uint32_t helper, std::uint64_t deadline) noexcept override;

  // The number of executions of regions that helpers could join.
  [[nodiscard]] std::uint64_t exposures() const { return pool_.exposures(lend::WorkKind::loops); }

 private:
  static constexpr std::uint64_t kNever = ~0ULL;
  enum class Stage : std::uint32_t { closed, opening, open };
  static constexpr std::uint32_t kReviewEvery = 32;  // executions of a brief or short loop

  // True if the thread `number` of the owner's team must estimate the loop's end (review_loop()) at
  // its first chunk: only thread 0 does. Thread 0 of a team of one need not if the loop is brief,
  // because open() has already offered it to lenders. In a larger team, another thread may still be
  // opening the loop.
  [[nodiscard]] bool must_review_first(std::uint32_t number) const {
    return number == 0 && (own_threads_ > 1 || !brief_);
  }
  IterationRange next_of_owner(Participant& me) {
    const bool is_due = !me.goes_on();
    const IterationRange range = next_at_once(me);
    if (is_due && !range.empty()) review_loop(me);
    return range;
  }
  IterationRange next_of_helper(Participant& me);
  bool takes_part(std::uint32_t helper, std::uint64_t deadline);
  void estimate_loop();
  [[nodiscard]] bool may_be_joined() const;
  // Converts ns to ticks. Times are floats, so that nothing is converted on the way to an open
  // loop.
  [[nodiscard]] float in_ticks(float ns) const { return ns * ticks_per_ns_; }
  [[nodiscard]] float rate() const {
    return site_->ticks_per_iteration.load(std::memory_order_relaxed);
  }
  [[nodiscard]] float alone(float rate, std::uint64_t iterations) const;
  [[nodiscard]] bool is_to_open();
  void review_loop(Participant& me);
  void offer(std::uint64_t ends);
  void call_spare(float rest);
  void dismiss_spare();
  [[nodiscard]] bool is_brief() const;
  void offer_briefly();
  [[nodiscard]] float rate_now(std::uint64_t now, std::uint64_t done);
  // True if the loop is timed in this execution although its time is known. This is so in one of
  // kReviewEvery executions.
  [[nodiscard]] bool has_its_turn() const { return site_->estimate.executions % kReviewEvery == 0; }
  [[nodiscard]] bool teaches(const Participant& owner) const {
    if (!known_) return owner.done != 0;
    return offered_ && (reviewed_done_ != 0 || has_its_turn());
  }
  [[nodiscard]] std::uint64_t next_review(std::uint64_t done, float rest, float whole) const;
  void learn(const Participant& owner);
  void part_from_helpers() {
    if (offered_) end_offer();
    if (!iterations_.is_settled()) [[unlikely]]
      await_helpers();
    // relaxed: is_settled() has acquired the helpers' writes, among them raised_, their
    // floating-point exceptions.
    if (raised_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      FloatingPoint::raise(raised_.exchange(0, std::memory_order_relaxed));
  }
  void end_offer() {
    pool_.nothing_left(lend::WorkKind::loops);
    offered_ = false;
    if (observe::trace() != nullptr) [[unlikely]]
      trace_offer();
  }
  void trace_offer() const;
  void await_helpers();
  void let_go_on();
  [[nodiscard]] std::uint64_t chunk_of(const LoopChunkRule& cut, float most_ns) const;
  [[nodiscard]] std::uint64_t guided_chunk(std::uint64_t left, std::uint64_t least) const;
  // The number of iterations that take `ns` nanoseconds, at least 1. `rate`: ticks per iteration,
  // not 0.
  [[nodiscard]] std::uint64_t iterations_in(float ns, float rate) const;

  lend::Pool& pool_;
  lend::Workers* const spare_;
  const float ticks_per_ns_;
  Site* site_ = nullptr;
  Body body_ = nullptr;
  void* data_ = nullptr;
  std::uint32_t own_threads_ = 1;
  std::uint32_t loops_before_ = 0;  // loops begun when the body starts
  Loop loop_;
  LoopChunkRule own_;
  LoopChunkRule helpers_;
  std::uint64_t first_ = 0;  // iterations claimed at open(), by a team of one
  float whole_ = 0;          // ticks that the loop takes without helpers, if known
  bool in_order_ = false;
  bool marked_ = false;
  bool known_ = false;   // the time of an iteration is known, and helpers may join
  bool brief_ = false;   // known_, and the loop needs no review
  bool admits_ = false;  // admits_at_once() was called
  // Used only by the thread that entered the region: whether the loop was offered to lenders,
  // whether the rank's workers were called, and the times that this execution measures.
  bool offered_ = false;
  bool spare_called_ = false;
  std::uint64_t offered_at_ = 0;   // ticks, for the trace; 0: no trace
  std::uint64_t begin_ = 0;        // ticks, of the first chunk
  std::uint64_t reviewed_at_ = 0;  // ticks and iterations at the last review
  std::uint64_t reviewed_done_ = 0;

  // The floating-point state, locale and errno that helpers adopt while they run the body. Written
  // by the thread that admits helpers; published by the word of iterations_.
  ThreadState owner_state_{};
  std::atomic<std::uint32_t> raised_{0};  // floating-point exceptions raised by helpers

  // Tells whether the loop's description (loop_ and the rules) is complete. release by the thread
  // that writes the description, acquire by the other threads of the owner's team. Helpers see the
  // description by joining (iterations.hpp).
  std::atomic<Stage> stage_{Stage::closed};
  // The number of helpers that wait at a barrier. release: publishes their work, pairs with the
  // acquire in before_barrier().
  std::atomic<std::uint32_t> at_barrier_{0};
  // The number of times that the owner let helpers go on from a barrier. release: pairs with the
  // acquire in await_team().
  std::atomic<std::uint32_t> passed_{0};
  std::atomic<void*> copy_{nullptr};  // data that the team gives to the helpers at a barrier
  std::atomic<bool> leaving_{false};  // relaxed: ends a wait for a copy that will not come
  // Raised while a thread is in the shared region. Biased to one thread, for which raising it is
  // cheap, because in most programs only one thread ever enters a region.
  BiasedFlag<> entered_;
  Iterations iterations_;
};

// Defined in the header, so that it is inlined: every chunk of a loop needs this function.
inline IterationRange SharedRegion::next_at_once(Participant& me) {
  IterationRange range{.end = first_};
  if (range.end != 0) {
    first_ = 0;
  } else {
    const bool as_given = own_.schedule == Schedule::dynamic;
    range =
        iterations_.from_front(as_given ? own_.chunk : chunk_of(own_, tuning::kLeastLoopChunkNs));
  }
  if (range.empty()) {
    if (me.number == 0 && offered_) pool_.nothing_left(lend::WorkKind::loops);
    return range;
  }
  me.size = range.size();
  me.done += me.size;
  return range;
}

}  // namespace mh::openmp
