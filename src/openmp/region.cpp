// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/region.hpp"

#include <sched.h>

#include <algorithm>
#include <limits>

#include "base/clock.hpp"
#include "base/emulated.hpp"
#include "base/tuning.hpp"

namespace mh::openmp {
namespace {

constexpr float kTinyNs = tuning::kLeastLoopNs / 4;  // a shorter loop is never worth sharing
constexpr std::uint64_t kShareOfRest = 8;  // a chunk is 1 / kShareOfRest of the iterations left
constexpr float kMostReviews = 16;         // of a loop in one execution
// Length of a loop, in ns, from which on the owner estimates the loop's end anew while helpers may
// join it (a review). A shorter loop would end before its second review.
constexpr float kBriefNs = 2 * tuning::kReviewNs;

// Converts by way of a signed number: signed 64-bit numbers take one instruction, unsigned ones
// several and a branch.
float as_float(std::uint64_t count) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<float>(static_cast<std::int64_t>(std::min(count, kMost)));
}
std::uint64_t as_whole(float amount) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::min(amount, 1e18F)));
}

// Returns the ticks that an iteration takes, from the ticks spent on some iterations. Never 0,
// which would mean that the time is not known.
float rate_of(std::uint64_t spent, std::uint64_t iterations) {
  return std::max(as_float(spent) / as_float(iterations), 1e-3F);
}

}  // namespace

constinit thread_local Participant* current = nullptr;
constinit thread_local Participant* current_or_outer = nullptr;

SharedRegion::SharedRegion(lend::Pool& pool, lend::Workers* spare)
    : pool_(pool),
      spare_(spare),
      ticks_per_ns_(static_cast<float>(mh::ticks_per_ns() * emulated::dilation)) {}

// Returns the ticks that the owner's team needs for this many iterations without helpers. `rate`:
// ticks per iteration on one thread.
float SharedRegion::alone(float rate, std::uint64_t iterations) const {
  const float together = rate * as_float(iterations);
  return own_threads_ == 1 ? together : together / static_cast<float>(own_threads_);
}

void SharedRegion::before_barrier(const Participant& me) {
  if (me.number != 0) return;
  if (offered_) end_offer();
  if (iterations_.is_settled()) return;
  iterations_.refuse();
  // acquire: pairs with the release in await_team(). Once all helpers in the region wait at the
  // barrier, their work is visible to this thread.
  pool_.await_helpers(
      [this] { return at_barrier_.load(std::memory_order_acquire) == iterations_.helpers(); });
}

void SharedRegion::after_barrier(const Participant& me) {
  if (me.number == 0) let_go_on();
}

void SharedRegion::let_go_on() {
  // relaxed, this and the next access: a helper arrives at a barrier again only after it has seen
  // the new passed_.
  if (at_barrier_.exchange(0, std::memory_order_relaxed) == 0) return;
  copy_.store(nullptr, std::memory_order_relaxed);
  passed_.fetch_add(1, std::memory_order_release);
}

void SharedRegion::await_team() {
  const std::uint32_t before = passed_.load(std::memory_order_relaxed);
  lend::give_core_back();
  at_barrier_.fetch_add(1, std::memory_order_release);
  while (passed_.load(std::memory_order_acquire) == before) ::sched_yield();
}

void* SharedRegion::await_copy() {
  lend::give_core_back();
  void* copy = nullptr;
  // acquire: pairs with the release in give_copy(). The helper stops waiting if the owner leaves
  // the region (leaving_), because the owner's team then gives no data (give_copy()) any more.
  while ((copy = copy_.load(std::memory_order_acquire)) == nullptr &&
         !leaving_.load(std::memory_order_relaxed))
    ::sched_yield();
  return copy;
}

// True for the one thread of the owner's team that opens the loop; in the other threads the
// function returns once the loop is open.
bool SharedRegion::is_to_open() {
  if (own_threads_ == 1) return true;
  Stage closed = Stage::closed;
  if (stage_.compare_exchange_strong(closed, Stage::opening, std::memory_order_acquire))
    return true;
  while (stage_.load(std::memory_order_acquire) != Stage::open) spin_pause();
  return false;
}

void SharedRegion::open(const Loop& loop, const LoopChunkRule& own, bool in_order) {
  if (!is_to_open()) return;
  loop_ = {.start = load_word(loop.start),
           .step = load_word(loop.step),
           .bound = load_word(loop.bound),
           .count = load_word(loop.count)};
  if (!marked_) own_ = load_apart(own);
  in_order_ = in_order && !marked_;  // the iterations of a marked loop have no order
  estimate_loop();
  const bool by_one = own_threads_ == 1 && own_.schedule == Schedule::dynamic;
  const bool admitting = admits_ || whole_ >= in_ticks(tuning::kLeastLoopNs);
  if (admitting) owner_state_ = ThreadState::now();
  first_ = iterations_.open(loop_.count, by_one ? own_.chunk : 0, admitting).end;
  stage_.store(Stage::open, std::memory_order_release);
  if (!brief_ || own_threads_ > 1) return;
  offer_briefly();
  if (current != nullptr) current->review_at = kNever;
}

// Called by the thread that opens the loop: sets known_ (the time of an iteration is known), whole_
// (ticks of the whole loop without helpers) and brief_ (the loop needs no review_loop() while it
// runs). A loop that was brief at its last estimate, with the same team and count, stays brief.
// Once in kReviewEvery executions it is estimated anew.
void SharedRegion::estimate_loop() {
  LoopEstimate& seen = site_->estimate;
  ++seen.executions;
  const bool joins = may_be_joined();
  if (joins && seen.threads == own_threads_ && seen.count == loop_.count && !has_its_turn()) {
    known_ = true;
    brief_ = true;
    whole_ = seen.whole;
    return;
  }
  known_ = joins && rate() != 0;
  whole_ = known_ ? alone(rate(), loop_.count) : 0;
  brief_ = is_brief();
  seen.count = loop_.count;
  seen.threads = brief_ ? own_threads_ : 0;
  seen.whole = whole_;
}

bool SharedRegion::may_be_joined() const {
  return site_->state.load(std::memory_order_relaxed) == SiteState::shared &&
         (current == nullptr || current->obstacle == Obstacle::none);
}

// Reviews the loop: decides whether helpers may join it, and estimates when it would end without
// them. Called by thread 0 of the owner's team, at its first chunk and at intervals. If the time of
// an iteration is known from earlier executions, the function decides at the first chunk, otherwise
// at the second. The first chunk has then shown that time, and whether the loop makes calls that a
// helper cannot make.
void SharedRegion::review_loop(Participant& me) {
  const std::uint64_t before = me.done - me.size;
  if (brief_) {  // the team is larger than one, else open() had offered the loop
    me.review_at = kNever;
    return offer_briefly();
  }
  const std::uint64_t now = ticks();
  if (before == 0) {
    begin_ = now;
    reviewed_at_ = now;
    if (!known_) return;  // the next review is at the next chunk
  }
  if (me.obstacle != Obstacle::none || is_excluded(*site_)) return;
  const float rate = rate_now(now, before);
  const float rest = alone(rate, iterations_.left());
  const std::uint64_t ends = now + as_whole(rest);
  me.review_at = next_review(before, rest, alone(rate, iterations_.count()));
  if (offered_) {
    pool_.expect_end(lend::WorkKind::loops, ends);
  } else if (rest >= in_ticks(tuning::kLeastLoopNs)) {
    offer(ends);
  }
  if (offered_) call_spare(rest);
}

// Lets cores of the rank that its own team leaves idle take part in a long loop, by the rank's
// workers. `rest`: ticks that the loop still takes. A core on which another thread of the program
// works is not used (workers.hpp).
void SharedRegion::call_spare(float rest) {
  if (spare_ == nullptr || own_threads_ > spare_->count()) return;
  if (rest < in_ticks(tuning::kWorthCallingNs)) return;
  spare_called_ = true;
  spare_->start();
}

void SharedRegion::dismiss_spare() {
  spare_called_ = false;
  spare_->stop();
}

// Admits helpers to the loop, and tells lenders that the owner would finish the loop alone at
// `ends` (ticks).
void SharedRegion::offer(std::uint64_t ends) {
  if (!iterations_.is_admitting()) owner_state_ = ThreadState::now();
  iterations_.admit();
  offered_ = pool_.expose(lend::WorkKind::loops, *this, ends).ok();
  offered_at_ = observe::trace() != nullptr ? ticks() : 0;
}

// True if the owner need not estimate the loop's end anew while it runs (review_loop()), because
// the loop is short and its time is known. Even such a loop is timed once in kReviewEvery
// executions.
bool SharedRegion::is_brief() const {
  if (!known_ || has_its_turn()) return false;
  return whole_ < in_ticks(kTinyNs) ||
         (whole_ >= in_ticks(tuning::kLeastLoopNs) && whole_ < in_ticks(kBriefNs));
}

void SharedRegion::offer_briefly() {
  if (whole_ < in_ticks(tuning::kLeastLoopNs)) return;
  offered_ = pool_.expose_briefly(lend::WorkKind::loops, *this, as_whole(whole_)).ok();
  offered_at_ = observe::trace() != nullptr ? ticks() : 0;
}

void SharedRegion::trace_offer() const {
  if (offered_at_ == 0) return;  // offered before the trace began
  observe::add_to_trace(
      {.begin = offered_at_, .extent = ticks() - offered_at_, .kind = observe::EventKind::loop});
}

// Called by the owner at the end of the region: waits until all helpers have left. Releases a
// helper that waits at a barrier which this execution does not reach.
void SharedRegion::await_helpers() {
  iterations_.refuse();
  leaving_.store(true, std::memory_order_relaxed);
  pool_.await_helpers([this] {
    let_go_on();
    return iterations_.is_settled();
  });
  leaving_.store(false, std::memory_order_relaxed);
}

// Returns the owner's recent time for an iteration or the last recorded time, whichever is larger
// (ticks). Owner and helpers work at different ends of the loop. A missing helper costs more than a
// helper that finds nothing to do, so the larger time counts.
float SharedRegion::rate_now(std::uint64_t now, std::uint64_t done) {
  const float known = rate();
  if (done == reviewed_done_) return known;
  const float seen = rate_of(now - reviewed_at_, done - reviewed_done_);
  // No earlier execution has told the time of an iteration. The first helpers of the loop cut their
  // chunks by the time seen so far.
  if (known == 0) site_->ticks_per_iteration.store(seen, std::memory_order_relaxed);
  reviewed_at_ = now;
  reviewed_done_ = done;
  return std::max(seen, known);
}

// Returns the value of Participant::done, the iterations claimed, at which the owner estimates the
// loop's end anew (review_loop()); kNever: not in this execution. A loop that is open to helpers is
// reviewed often, so that lenders know how much is left. A short loop is reviewed seldom, and a
// loop of a few microseconds in few of its executions. The first execution of a loop is reviewed
// halfway, too: its first iterations may be the shortest.
std::uint64_t SharedRegion::next_review(std::uint64_t done, float rest, float whole) const {
  const bool open = rest >= in_ticks(tuning::kLeastLoopNs);
  if (open && whole < in_ticks(kBriefNs)) return kNever;
  const bool tiny = rest < in_ticks(kTinyNs);
  if (tiny && known_ && !has_its_turn()) return kNever;
  const float reviews =
      std::clamp(whole / in_ticks(tuning::kReviewNs), open ? 1.F : 2.F, kMostReviews);
  return done + iterations_.count() / static_cast<std::uint64_t>(reviews);
}

// Records, for later executions of the region, how long an iteration takes. It is measured from the
// first chunk to the owner's last review_loop(), or to the end of the loop if there was no review.
// In the first execution it is always measured to the end, since a review may have seen the
// shortest iterations alone.
void SharedRegion::learn(const Participant& owner) {
  const bool reviewed = known_ && reviewed_done_ != 0;
  const std::uint64_t spent = (reviewed ? reviewed_at_ : ticks()) - begin_;
  const float rate = rate_of(spent, reviewed ? reviewed_done_ : owner.done);
  site_->ticks_per_iteration.store(rate, std::memory_order_relaxed);
}

std::uint64_t SharedRegion::chunk_of(const LoopChunkRule& cut, float most_ns) const {
  const std::uint64_t left = iterations_.left();
  if (cut.schedule == Schedule::dynamic) return cut.chunk;
  if (cut.schedule == Schedule::guided) return guided_chunk(left, cut.chunk);
  const float now = rate();
  if (now == 0) return 1;
  const std::uint64_t least = iterations_in(tuning::kLeastLoopChunkNs, now);
  const std::uint64_t most = iterations_in(most_ns, now);
  return std::clamp(left / kShareOfRest, least, most);
}

// Returns the size of the next chunk under a guided schedule: a share of the `left` iterations, by
// the number of threads inside the loop, and short enough for a unit on a lent core. At least
// `least`, the user's size.
std::uint64_t SharedRegion::guided_chunk(std::uint64_t left, std::uint64_t least) const {
  const float now = rate();
  if (now == 0) return least;
  const std::uint64_t share = left / (2 * (own_threads_ + iterations_.helpers()));
  return std::max(std::min(share, iterations_in(tuning::kMostGuidedChunkNs, now)), least);
}

std::uint64_t SharedRegion::iterations_in(float ns, float rate) const {
  return std::max<std::uint64_t>(as_whole(in_ticks(ns) / rate), 1);
}

IterationRange SharedRegion::next_of_helper(Participant& me) {
  const std::uint64_t now = ticks();
  if (me.size != 0) {
    const float rate = rate_of(now - me.since, me.size);
    site_->ticks_per_iteration.store(rate, std::memory_order_relaxed);
    const float rest = rate * as_float(iterations_.left());
    pool_.expect_end(lend::WorkKind::loops,
                     now + as_whole(rest / static_cast<float>(own_threads_ + 1)));
  }
  if (me.took_last_iteration || now >= me.deadline) return {};
  const std::uint64_t most = chunk_of(helpers_, tuning::kMostLoopChunkNs);
  IterationRange range;
  if (!is_excluded(*site_)) {
    range = in_order_ ? iterations_.from_front(most) : iterations_.from_end(most);
  }
  if (range.empty()) {
    pool_.nothing_left(lend::WorkKind::loops);
    return range;
  }
  me.since = now;
  me.size = range.size();
  // Compilers copy a lastprivate variable out if the thread's last iteration is the last of the
  // loop. After the last iteration of the loop this thread may therefore claim no other.
  me.took_last_iteration = range.end == iterations_.count();
  return range;
}

bool SharedRegion::unit(std::uint32_t helper, std::uint64_t deadline) noexcept {
  if (!iterations_.join()) return false;
  while (takes_part(helper, deadline)) {
  }
  iterations_.leave();
  return true;
}

// Runs the region's body on a helper's thread, as a late member of the owner's team. Returns true
// if the helper has left the body because it had run the last iteration of the loop (lastprivate),
// while earlier iterations are left: it may join again at once.
bool SharedRegion::takes_part(std::uint32_t helper, std::uint64_t deadline) {
  Participant me{.role = Participant::Role::helper,
                 .site = site_,
                 .marked = marked_,
                 .number = own_threads_ + helper,
                 .loops = loops_before_,
                 .deadline = deadline};
  {
    const AdoptedThreadState adopted(owner_state_);
    const ParticipantScope scope(me);
    run_body();
    const std::uint32_t raised = FloatingPoint::raised();
    // relaxed: leave() publishes the exception flags together with the helper's work.
    if (raised != 0) raised_.fetch_or(raised, std::memory_order_relaxed);
  }
  return me.took_last_iteration && iterations_.left() != 0;
}

}  // namespace mh::openmp
