// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/region.hpp"

#include <sched.h>

#include <algorithm>
#include <limits>

#include "base/clock.hpp"
#include "base/tuning.hpp"

namespace mh::openmp {
namespace {

constexpr float kTinyNs = tuning::kLeastLoopNs / 4;  // below, a loop is far from worth it
constexpr std::uint64_t kShareOfRest = 8;  // a helper takes at most this part of what is left
constexpr float kMostReviews = 16;         // of a loop, by its owner: what is left of it?
constexpr float kBriefNs =
    2 * tuning::kReviewNs;  // an open loop below is over before a second look

std::uint64_t guided(std::uint64_t left, std::uint64_t threads, std::uint64_t least) {
  return std::max(left / (2 * threads), least);
}

// Conversions of 64 bits with a sign are one instruction, others several and a branch.
float as_float(std::uint64_t count) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<float>(static_cast<std::int64_t>(std::min(count, kMost)));
}
std::uint64_t as_whole(float amount) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::min(amount, 1e18F)));
}

// Ticks an iteration; never 0, which would say that it is not known.
float rate_of(std::uint64_t spent, std::uint64_t iterations) {
  return std::max(as_float(spent) / as_float(iterations), 1e-3F);
}

}  // namespace

constinit thread_local Participant* current = nullptr;
constinit thread_local Participant* part = nullptr;

Region::Region(lend::Pool& pool)
    : pool_(pool), ticks_per_ns_(static_cast<float>(mh::ticks_per_ns())) {}

// What so many iterations take the owner's team.
float Region::alone(float rate, std::uint64_t iterations) const {
  const float together = rate * as_float(iterations);
  return own_threads_ == 1 ? together : together / static_cast<float>(own_threads_);
}

void Region::before_barrier(const Participant& me) {
  if (me.number != 0) return;
  if (offered_) pool_.nothing_left(lend::Kind::loops);
  offered_ = false;
  if (iterations_.settled()) return;
  iterations_.refuse();
  // acquire: pairs with the release of await_team().
  pool_.await_helpers(
      [this] { return at_barrier_.load(std::memory_order_acquire) == iterations_.helpers(); });
}

void Region::after_barrier(const Participant& me) {
  if (me.number == 0) let_go_on();
}

void Region::let_go_on() {
  // relaxed, both: helpers come again after they have seen what follows.
  if (at_barrier_.exchange(0, std::memory_order_relaxed) == 0) return;
  copy_.store(nullptr, std::memory_order_relaxed);
  passed_.fetch_add(1, std::memory_order_release);
}

void Region::await_team() {
  const std::uint32_t before = passed_.load(std::memory_order_relaxed);
  lend::give_core_back();
  at_barrier_.fetch_add(1, std::memory_order_release);
  while (passed_.load(std::memory_order_acquire) == before) ::sched_yield();
}

void* Region::await_copy() {
  lend::give_core_back();
  void* copy = nullptr;
  // acquire: pairs with give_copy(). An owner that leaves the region has none to give.
  while ((copy = copy_.load(std::memory_order_acquire)) == nullptr &&
         !leaving_.load(std::memory_order_relaxed))
    ::sched_yield();
  return copy;
}

// By one thread of the team; the others wait until the loop is open.
bool Region::is_to_open() {
  if (own_threads_ == 1) return true;
  Stage closed = Stage::closed;
  if (stage_.compare_exchange_strong(closed, Stage::opening, std::memory_order_acquire))
    return true;
  while (stage_.load(std::memory_order_acquire) != Stage::open) spin_pause();
  return false;
}

void Region::open(const Loop& loop, const Cut& own, bool in_order) {
  if (!is_to_open()) return;
  loop_ = {.start = by_itself(loop.start),
           .step = by_itself(loop.step),
           .bound = by_itself(loop.bound),
           .count = by_itself(loop.count)};
  if (!marked_) own_ = apart(own);
  in_order_ = in_order;
  look_at_loop();
  const bool by_one = own_threads_ == 1 && own_.schedule == Schedule::dynamic;
  const bool admitting = whole_ >= in_ticks(tuning::kLeastLoopNs);
  if (admitting) surroundings_ = Surroundings::now();
  first_ = iterations_.open(loop_.count, by_one ? own_.chunk : 0, admitting).end;
  stage_.store(Stage::open, std::memory_order_release);
  if (!brief_ || own_threads_ > 1) return;
  offer_briefly();
  if (current != nullptr) current->review_at = kNever;
}

// By who opens the loop. What is brief is taken to be so until it has its turn again.
void Region::look_at_loop() {
  Outlook& seen = site_->outlook;
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

bool Region::may_be_joined() const {
  return site_->state.load(std::memory_order_relaxed) == Site::State::shared &&
         (current == nullptr || current->obstacle == Obstacle::none);
}

// By the thread that entered, at its first chunk and then now and then: may helpers come, and how
// long would the loop take without them? Where the site is known the first is seen at once; else at
// the second chunk, when the first has shown how long iterations take and whether they do what a
// helper could not.
void Region::consider(Participant& me) {
  const std::uint64_t before = me.done - me.size;
  if (brief_) {  // and by a team, or it would be offered by now
    me.review_at = kNever;
    return offer_briefly();
  }
  const std::uint64_t now = ticks();
  if (before == 0) {
    begin_ = now;
    reviewed_at_ = now;
    if (!known_) return;  // the next look is at the next chunk
  }
  if (me.obstacle != Obstacle::none || is_excluded(*site_)) return;
  const float rate = rate_now(now, before);
  const float rest = alone(rate, iterations_.left());
  const std::uint64_t ends = now + as_whole(rest);
  me.review_at = next_review(before, rest, alone(rate, iterations_.count()));
  if (offered_) {
    pool_.expect_end(lend::Kind::loops, ends);
  } else if (rest >= in_ticks(tuning::kLeastLoopNs)) {
    offer(ends);
  }
}

void Region::offer(std::uint64_t ends) {
  if (!iterations_.admitting()) surroundings_ = Surroundings::now();
  iterations_.admit();
  offered_ = pool_.expose(lend::Kind::loops, *this, ends).ok();
}

// Now and then there is a look at the clock nevertheless.
bool Region::is_brief() const {
  if (!known_ || has_its_turn()) return false;
  return whole_ < in_ticks(kTinyNs) ||
         (whole_ >= in_ticks(tuning::kLeastLoopNs) && whole_ < in_ticks(kBriefNs));
}

void Region::offer_briefly() {
  if (whole_ < in_ticks(tuning::kLeastLoopNs)) return;
  offered_ = pool_.expose_briefly(lend::Kind::loops, *this, as_whole(whole_)).ok();
}

// One that waits for the team at a barrier which this execution does not have goes on.
void Region::await_helpers() {
  iterations_.refuse();
  leaving_.store(true, std::memory_order_relaxed);
  pool_.await_helpers([this] {
    let_go_on();
    return iterations_.settled();
  });
  leaving_.store(false, std::memory_order_relaxed);
}

// The longer of what iterations took the owner of late and what they took whoever looked last: the
// two work at different ends, and helpers that stay away too early cost more than one in vain.
float Region::rate_now(std::uint64_t now, std::uint64_t done) {
  const float known = rate();
  if (done == reviewed_done_) return known;
  const float seen = rate_of(now - reviewed_at_, done - reviewed_done_);
  reviewed_at_ = now;
  reviewed_done_ = done;
  return std::max(seen, known);
}

// A loop that helpers may join is looked at often, so that lenders know what is left; a short one
// seldom, one of a few microseconds in few of its executions.
std::uint64_t Region::next_review(std::uint64_t done, float rest, float whole) const {
  const bool open = rest >= in_ticks(tuning::kLeastLoopNs);
  if (open && whole < in_ticks(kBriefNs)) return kNever;
  const bool tiny = rest < in_ticks(kTinyNs);
  if (tiny && !has_its_turn()) return kNever;
  const float reviews =
      std::clamp(whole / in_ticks(tuning::kReviewNs), open ? 1.F : 2.F, kMostReviews);
  return done + iterations_.count() / static_cast<std::uint64_t>(reviews);
}

// What an iteration takes, by what the owner did of them until it last looked at the clock.
void Region::learn(const Participant& owner) {
  const bool reviewed = reviewed_done_ != 0;
  const std::uint64_t spent = (reviewed ? reviewed_at_ : ticks()) - begin_;
  const float rate = rate_of(spent, reviewed ? reviewed_done_ : owner.done);
  site_->ticks_per_iteration.store(rate, std::memory_order_relaxed);
}

std::uint64_t Region::chunk_of(const Cut& cut, float most_ns) const {
  const std::uint64_t left = iterations_.left();
  if (cut.schedule == Schedule::dynamic) return cut.chunk;
  if (cut.schedule == Schedule::guided) return guided(left, own_threads_ + 1, cut.chunk);
  const float now = rate();
  if (now == 0) return 1;
  const auto iterations_in = [&](float ns) {
    return std::max<std::uint64_t>(as_whole(in_ticks(ns) / now), 1);
  };
  const std::uint64_t least = iterations_in(tuning::kLeastLoopChunkNs);
  const std::uint64_t most = iterations_in(most_ns);
  return std::clamp(left / kShareOfRest, least, most);
}

Range Region::next_of_helper(Participant& me) {
  const std::uint64_t now = ticks();
  if (me.size != 0) {
    const float rate = rate_of(now - me.since, me.size);
    site_->ticks_per_iteration.store(rate, std::memory_order_relaxed);
    const float rest = rate * as_float(iterations_.left());
    pool_.expect_end(lend::Kind::loops,
                     now + as_whole(rest / static_cast<float>(own_threads_ + 1)));
  }
  if (me.over || now >= me.deadline) return {};
  const std::uint64_t most = chunk_of(helpers_, tuning::kMostLoopChunkNs);
  Range range;
  if (!is_excluded(*site_)) {
    range = in_order_ ? iterations_.from_front(most) : iterations_.from_end(most);
  }
  if (range.empty()) {
    pool_.nothing_left(lend::Kind::loops);
    return range;
  }
  me.since = now;
  me.size = range.size();
  // Compilers copy a lastprivate variable out if the last iteration is the last that the thread
  // did: after it, this thread may do no other.
  me.over = range.end == iterations_.count();
  return range;
}

bool Region::unit(std::uint32_t helper, std::uint64_t deadline) noexcept {
  if (!iterations_.join()) return false;
  while (takes_part(helper, deadline)) {
  }
  iterations_.part();
  return true;
}

// As one late member of the team. True if it had to leave before its time: another may come at
// once.
bool Region::takes_part(std::uint32_t helper, std::uint64_t deadline) {
  Participant me{.role = Participant::Role::helper,
                 .site = site_,
                 .marked = marked_,
                 .number = own_threads_ + helper,
                 .loops = loops_before_,
                 .deadline = deadline};
  {
    const Adopted adopted(surroundings_);
    const Taking taking(me);
    run_body();
    const std::uint32_t raised = FloatingPoint::raised();
    // relaxed: parting publishes it.
    if (raised != 0) raised_.fetch_or(raised, std::memory_order_relaxed);
  }
  return me.over && iterations_.left() != 0;
}

}  // namespace mh::openmp
