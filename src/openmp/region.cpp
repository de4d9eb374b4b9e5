// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/region.hpp"

#include <algorithm>

#include "base/clock.hpp"

namespace mh::openmp {
namespace {

constexpr float kLeastNs = 10e3F;      // a loop shorter than this is done before a helper is awake
constexpr float kLeastChunkNs = 3e3F;  // of a helper: below, the claims get in the owner's way
constexpr float kMostChunkNs = 30e3F;
constexpr std::uint64_t kShareOfRest = 8;   // a helper takes at most this part of what is left
constexpr float kMostReviews = 16;          // of a loop, by its owner: what is left of it?
constexpr float kReviewNs = 20e3F;          // and not more often: one costs 25 ns
constexpr std::uint32_t kReviewEvery = 16;  // executions of a tiny loop, or of a short open one

// What was stored in parts a moment ago is not to be loaded as a whole, as compilers copy
// structures: such a load waits until the stores have left the core.
std::uint64_t alone(std::uint64_t part) {
  asm("" : "+r"(part));
  return part;
}
Cut apart(const Cut& cut) { return {.schedule = cut.schedule, .chunk = alone(cut.chunk)}; }

std::uint64_t guided(std::uint64_t left, std::uint64_t threads, std::uint64_t least) {
  return std::max(left / (2 * threads), least);
}

// Nanoseconds an iteration; never 0, which would say that it is not known.
float rate_of(std::uint64_t spent, std::uint64_t iterations) {
  const double rate = ns_from_ticks(spent) / static_cast<double>(iterations);
  return std::max(static_cast<float>(rate), 1e-3F);
}

std::uint64_t iterations_in(float nanoseconds, float ns_per_iteration) {
  return static_cast<std::uint64_t>(nanoseconds / ns_per_iteration);
}

}  // namespace

constinit thread_local Participant* current = nullptr;
constinit thread_local Participant* part = nullptr;

void Region::await_all(const Participant& me) {
  if (me.number == 0) withdraw();
}

void Region::cuts_as(const Cut& own, const Cut& helpers) {
  own_ = apart(own);
  helpers_ = apart(helpers);
  marked_ = true;
}

void Region::open(const Loop& loop, const Cut& own, bool in_order) {
  Stage closed = Stage::closed;
  if (own_threads_ > 1 &&
      !stage_.compare_exchange_strong(closed, Stage::opening, std::memory_order_acquire)) {
    while (stage_.load(std::memory_order_acquire) != Stage::open) relax();
    return;
  }
  loop_ = {.start = alone(loop.start),
           .step = alone(loop.step),
           .bound = alone(loop.bound),
           .count = alone(loop.count)};
  if (!marked_) own_ = apart(own);
  in_order_ = in_order;
  iterations_.open(loop.count);
  stage_.store(Stage::open, std::memory_order_release);
}

// By the thread that entered, at its first chunk and then now and then: may helpers come, and how
// long would the loop take without them? Where the site is known the first is seen at once; else at
// the second chunk, when the first has shown how long iterations take and whether they do what a
// helper could not.
void Region::consider(const Participant& me) {
  const std::uint64_t now = ticks();
  const std::uint64_t before = me.done - me.size;
  if (before == 0) begin_measuring(now);
  if (before == 0 && !known_) {
    review_at_ = 0;  // at the next chunk
    return;
  }
  if (me.obstacle != Obstacle::none || is_excluded(*site_)) return;
  const float rate = rate_now(now, before);
  const float of_team = rate / static_cast<float>(own_threads_);
  const float rest = of_team * static_cast<float>(iterations_.left());
  const std::uint64_t ends = now + ticks_from_ns(rest);
  review_at_ = next_review(me.done, rest, of_team * static_cast<float>(iterations_.count()));
  if (exposed_) {
    pool_.expect_end(lend::Kind::loops, ends);
  } else if (rest >= kLeastNs) {
    exposed_ = pool_.expose(lend::Kind::loops, *this, ends).ok();
    exposures_ += exposed_ ? 1 : 0;
  }
}

// The longer of what iterations took the owner of late and what they took whoever looked last: the
// two work at different ends, and helpers that stay away too early cost more than one in vain.
float Region::rate_now(std::uint64_t now, std::uint64_t done) {
  const float known = site_->ns_per_iteration.load(std::memory_order_relaxed);
  if (done == reviewed_done_) return known;
  const float seen = rate_of(now - reviewed_at_, done - reviewed_done_);
  reviewed_at_ = now;
  reviewed_done_ = done;
  return std::max(seen, known);
}

bool Region::has_its_turn() const {
  return site_->executions.load(std::memory_order_relaxed) % kReviewEvery == 0;
}

// A loop that helpers may join is looked at often, so that lenders know what is left; a short one
// seldom, one of a few microseconds in few of its executions.
std::uint64_t Region::next_review(std::uint64_t done, float rest, float whole) const {
  constexpr std::uint64_t kNever = ~0ULL;
  const bool open = rest >= kLeastNs;
  if (open && whole < 2 * kReviewNs) return kNever;
  const bool tiny = rest < kLeastNs / 4;
  if (tiny && !has_its_turn()) return kNever;
  const float reviews = std::clamp(whole / kReviewNs, open ? 1.F : 2.F, kMostReviews);
  return done + iterations_.count() / static_cast<std::uint64_t>(reviews);
}

void Region::begin_measuring(std::uint64_t now) {
  const std::uint32_t before = site_->executions.load(std::memory_order_relaxed);
  site_->executions.store(before + 1, std::memory_order_relaxed);
  const bool rate_known = site_->ns_per_iteration.load(std::memory_order_relaxed) != 0;
  known_ = rate_known && site_->state.load(std::memory_order_relaxed) == Site::State::shared;
  begin_ = now;
  reviewed_at_ = now;
  reviewed_done_ = 0;
}

// What an iteration takes, by what the owner did of them until it last looked at the clock.
void Region::learn(const Participant& owner) {
  const bool reviewed = reviewed_done_ != 0;
  if (known_ && !reviewed && !has_its_turn()) return;
  const std::uint64_t spent = (reviewed ? reviewed_at_ : ticks()) - begin_;
  const float rate = rate_of(spent, reviewed ? reviewed_done_ : owner.done);
  site_->ns_per_iteration.store(rate, std::memory_order_relaxed);
}

std::uint64_t Region::chunk_of(const Cut& cut, float most_ns) const {
  const std::uint64_t left = iterations_.left();
  if (cut.schedule == Schedule::dynamic) return cut.chunk;
  if (cut.schedule == Schedule::guided) return guided(left, own_threads_ + 1, cut.chunk);
  const float rate = site_->ns_per_iteration.load(std::memory_order_relaxed);
  if (rate == 0) return 1;
  const std::uint64_t least = std::max<std::uint64_t>(iterations_in(kLeastChunkNs, rate), 1);
  const std::uint64_t most = std::max<std::uint64_t>(iterations_in(most_ns, rate), 1);
  return std::clamp(left / kShareOfRest, least, most);
}

Range Region::next_of_owner(Participant& me) {
  const bool as_given = own_.schedule == Schedule::dynamic;
  const Range range = iterations_.from_front(as_given ? own_.chunk : chunk_of(own_, kLeastChunkNs));
  if (range.empty()) {
    if (me.number == 0 && exposed_) pool_.nothing_left(lend::Kind::loops);
    return range;
  }
  me.size = range.size();
  me.done += me.size;
  if (me.number == 0 && me.done > review_at_) [[unlikely]]
    consider(me);
  return range;
}

Range Region::next_of_helper(Participant& me) {
  const std::uint64_t now = ticks();
  if (me.size != 0) {
    const float rate = rate_of(now - me.since, me.size);
    site_->ns_per_iteration.store(rate, std::memory_order_relaxed);
    const float rest = rate * static_cast<float>(iterations_.left());
    pool_.expect_end(lend::Kind::loops,
                     now + ticks_from_ns(rest / static_cast<float>(own_threads_ + 1)));
  }
  if (me.over || now >= me.deadline) return {};
  const std::uint64_t most = chunk_of(helpers_, kMostChunkNs);
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

void Region::unit(std::uint32_t helper, std::uint64_t deadline) noexcept {
  Participant me{.role = Participant::Role::helper,
                 .site = site_,
                 .marked = marked_,
                 .number = own_threads_ + helper,
                 .loops = loops_before_,
                 .deadline = deadline};
  const Taking taking(me);
  run_body();
}

}  // namespace mh::openmp
