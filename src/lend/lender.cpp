// SPDX-License-Identifier: BSD-3-Clause
#include "lend/lender.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "base/emulated.hpp"
#include "base/tuning.hpp"
#include "lend/threads.hpp"

namespace mh::lend {
namespace {

std::uint64_t offer_of(const Lendings& lendings, WorkKind kind) {
  return lendings.offer.ends[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
}

// Returns how many helpers of an owner have a lent core, or are held by a lender that moves them to
// its core. `lendings`: the channels of the owner.
std::uint32_t helpers_at_work(const Lendings& lendings) {
  std::uint32_t count = 0;
  for (const Channel& channel : lendings.channels) {
    if (channel.helper_tid.load(std::memory_order_relaxed) == 0) break;  // no more helpers
    const ChannelState state = state_of(channel.word.load(std::memory_order_relaxed));
    if (state == ChannelState::lent || state == ChannelState::held) ++count;
  }
  return count;
}

// Returns the value (victim.hpp) of the offer of a rank that is at an end of a message through
// cells. The ranks at the two ends wait for each other, so lent cores must go to both. The value
// therefore falls with the number of helpers that the rank has at work, and a rank on another NUMA
// node counts as near. `left`: ticks that the rank still needs alone.
std::uint64_t value_of_end(CoreVictimPicker& choice, const Lendings& end, std::uint64_t left) {
  const std::uint32_t helpers = helpers_at_work(end);
  return choice.value(left / (1 + helpers), true, [&] { return helpers; });
}

}  // namespace

Lender::Lender(const node::Node& node, std::size_t offset, VictimPolicy policy, LendFilter admitted,
               std::uint32_t core)
    : node_(node),
      offset_(offset),
      choice_(policy, lender_id(node.me(), core)),
      admitted_(std::move(admitted)),
      barred_(node.ranks(), false),
      seen_(node.ranks()),
      id_(lender_id(node.me(), core)),
      unit_({.least = ticks_from_ns(tuning::kLeastUnitNs),
             .first = ticks_from_ns(tuning::kFirstUnitNs),
             .most = ticks_from_ns(tuning::kMostUnitNs),
             .look_cost = ticks_from_ns(tuning::kUnitLookNs)}) {
  barred_[node.me()] = core == 0;
}

Lendings& Lender::lendings(std::uint32_t rank) const {
  return *reinterpret_cast<Lendings*>(node_.area(rank) + offset_);
}

std::uint64_t Lender::value_of_offer(std::uint32_t rank, std::uint64_t left) {
  const bool near = node_.record(rank).numa == node_.mine().numa;
  return choice_.value(left, near, [&] { return helpers_at_work(lendings(rank)); });
}

// Returns the time (ticks) at which the owner `rank` would finish the loop that it offers to
// helpers; 0: it offers no loop. A BriefOffer (channel.hpp) has a duration only, which counts from
// the time at which this lender first saw the offer.
std::uint64_t Lender::end_of_loop(std::uint32_t rank, std::uint64_t now) {
  const std::uint64_t offer = offer_of(lendings(rank), WorkKind::loops);
  if (!BriefOffer::is(offer)) return offer;
  SeenOffer& seen = seen_[rank];
  if (seen.offer != offer) seen = {.offer = offer, .at = now};
  return seen.at + BriefOffer::ticks(offer);
}

// Returns the latest time (ticks) at which `rank` would finish work that it offers and that this
// lender may help with; 0: none. Work other than loops counts only if it ends at the time `worth`
// (ticks) or later. This rank's own work counts only if it is a loop.
std::uint64_t Lender::end_of_offer(std::uint32_t rank, std::uint64_t now, std::uint64_t worth) {
  std::uint64_t last = end_of_loop(rank, now);
  if (rank == node_.me()) return last;
  for (const WorkKind kind : {WorkKind::internode, WorkKind::pipelines}) {
    const std::uint64_t ends = offer_of(lendings(rank), kind);
    if (ends > last && ends >= worth && admitted_(rank, kind)) last = ends;
  }
  return last;
}

// Returns the rank whose offer of work has the highest value for this lender (victim.hpp); kNobody:
// none. Left out are offers that end before a loan is worth its cost (kLeastLoanNs), and ranks
// whose helpers are all at work or may not run on this core.
std::uint32_t Lender::choose() {
  std::uint32_t best = kNobody;
  std::uint64_t best_value = 0;
  const std::uint64_t now = ticks();
  const std::uint64_t worth = now + ticks_from_ns(tuning::kLeastLoanNs);
  for (std::uint32_t rank = 0; rank < node_.ranks(); ++rank) {
    if (barred_[rank] || std::ranges::find(without_helper_, rank) != without_helper_.end())
      continue;
    const std::uint64_t ends = end_of_offer(rank, now, worth);
    if (ends < worth) continue;
    const Lendings& there = lendings(rank);
    const std::uint64_t value = ends == offer_of(there, WorkKind::pipelines)
                                    ? value_of_end(choice_, there, ends - now)
                                    : value_of_offer(rank, ends - now);
    if (value <= best_value) continue;
    best = rank;
    best_value = value;
  }
  return best;
}

// Reserves a free helper of `owner` for this lender: changes the word of the helper's channel from
// free to held. Returns null if all helpers are in use.
Channel* Lender::hold(std::uint32_t owner) const {
  for (Channel& channel : lendings(owner).channels) {
    // acquire: pairs with the helper's release in Pool::live(). A helper whose thread id is seen
    // answers wake-ups.
    if (channel.helper_tid.load(std::memory_order_acquire) == 0) return nullptr;  // no more helpers
    std::uint32_t expected = kFree;
    // The load comes first, because a compare-exchange, even if it fails, would take the cache line
    // from a busy helper.
    if (channel.word.load(std::memory_order_relaxed) == kFree &&
        channel.word.compare_exchange_strong(expected, word(ChannelState::held),
                                             std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
      return &channel;
    }
  }
  return nullptr;
}

// Moves the sleeping helper of `channel` to the CPU of the calling thread, the lender. Returns
// false if the helper may not run on that CPU (cpusets).
bool Lender::place_here(Channel& channel) const {
  const int here = ::sched_getcpu();
  if (channel.cpu.load(std::memory_order_relaxed) == here) return true;
  if (!bind_thread(channel.helper_tid.load(std::memory_order_relaxed), here)) return false;
  channel.cpu.store(here, std::memory_order_relaxed);
  return true;
}

Channel& Lender::channel_of(std::uint32_t out) const {
  return lendings((out - 1) / kHelpers).channels[(out - 1) % kHelpers];
}

LendResult Lender::lend(const std::function<void()>& before) {
  const bool is_out = out_.load(std::memory_order_relaxed) != 0;
  learn(false);
  if (is_out) {
    if (before) before();
    return wait_for_helper();
  }
  without_helper_.clear();
  for (std::uint32_t owner = choose(); owner != kNobody; owner = choose()) {
    Channel* const channel = hold(owner);
    if (channel == nullptr) {
      add_without_helper(owner);
      continue;
    }
    if (before) before();
    counts_for_length_ = true;
    return hand_over(owner, *channel, unit_.length());
  }
  return LendResult::nothing;
}

// Called if all helpers of `owner` are at work. The lender leaves `owner` out of its present search
// for a rank to help, and all_at_work asks the owner's process to make further helpers.
void Lender::add_without_helper(std::uint32_t owner) {
  without_helper_.push_back(owner);
  std::atomic<std::uint32_t>& told = lendings(owner).offer.all_at_work;
  if (told.load(std::memory_order_relaxed) == 0) told.store(1, std::memory_order_relaxed);
}

LendResult Lender::lend_to(std::uint32_t owner) {
  if (out_.load(std::memory_order_relaxed) != 0) return wait_for_helper();
  if (barred_[owner]) return LendResult::nothing;
  learn(false);
  Channel* const channel = hold(owner);
  if (channel == nullptr) return LendResult::nothing;
  counts_for_length_ = false;  // this unit works on the awaited message itself
  return hand_over(owner, *channel, ticks_from_ns(tuning::kLeastUnitNs));
}

// Tells unit_, which computes the length of later units, whether a message for the lender came
// during the last loan of this core. `something_came`: the lender's own wait is over, perhaps while
// its core was away. A unit that ended before its planned end is not counted as a delay, since it
// kept no message waiting.
void Lender::learn(bool something_came) {
  const std::uint64_t away = std::exchange(away_, 0);
  if (away == 0) return;
  const std::uint64_t back = lent_at_ + away;
  if (!something_came || ticks() - back > ticks_from_ns(tuning::kAtOnceNs)) {
    unit_.nothing_came(away);
  } else if (back >= whole_at_) {
    unit_.came_late(away);
  }
}

// Moves the helper of `channel` to this core, wakes it for a unit of `unit` ticks, and sleeps
// meanwhile. Precondition: hold() has reserved the channel for this lender.
LendResult Lender::hand_over(std::uint32_t owner, Channel& channel, std::uint64_t unit) {
  if (!place_here(channel)) {
    channel.word.store(kFree, std::memory_order_relaxed);
    barred_[owner] = true;
    return LendResult::refused;
  }
  const auto index = static_cast<std::uint32_t>(&channel - lendings(owner).channels);
  out_.store(owner * kHelpers + index + 1, std::memory_order_relaxed);
  last_owner_ = owner;
  lent_at_ = ticks();
  whole_at_ = lent_at_ + unit;
  emulated::hand_over();
  channel.unit.store(unit, std::memory_order_relaxed);
  channel.units_begun.store(channel.units_begun.load(std::memory_order_relaxed) + 1,
                            std::memory_order_relaxed);
  // release: publishes `unit`, pairs with the acquire of the helper in Pool::live().
  channel.word.store(word(ChannelState::lent), std::memory_order_release);
  futex_wake(channel.word);
  return wait_for_helper();
}

// Sleeps until the helper to which this core is lent has ended its unit or given the core back, or
// for kLenderSleepNs.
LendResult Lender::wait_for_helper() {
  const std::uint32_t out = out_.load(std::memory_order_relaxed);
  const std::uint32_t owner = (out - 1) / kHelpers;
  Channel& channel = channel_of(out);
  const std::uint32_t lent = word(ChannelState::lent);
  futex_wait(channel.word, lent, tuning::kLenderSleepNs);
  // acquire: pairs with the release of done in Pool::serve(). If the word is neither lent nor done,
  // a helper that must wait has given the core back (evicted). Another lender may have reserved the
  // channel after that.
  const std::uint32_t now = channel.word.load(std::memory_order_acquire);
  if (now == lent) {
    if (node_.is_alive(owner)) return LendResult::still_out;
    barred_[owner] = true;
  } else if (now == word(ChannelState::done)) {
    channel.word.store(kFree, std::memory_order_release);
  }
  out_.store(0, std::memory_order_relaxed);
  if (counts_for_length_) away_ = ticks() - lent_at_;
  return now == lent ? LendResult::nothing : LendResult::lent;
}

// Takes this core back in the middle of a unit, and moves the helper to its owner's core. `out`:
// the value of out_, read once by the caller, since the lender's thread may change it meanwhile.
// Returns false if no helper has this core.
bool Lender::evict(std::uint32_t out) {
  if (out == 0) return false;
  Channel& channel = channel_of(out);
  std::uint32_t lent = word(ChannelState::lent);
  // relaxed: the lender publishes nothing. After success the helper alone frees the channel.
  if (!channel.word.compare_exchange_strong(lent, word(ChannelState::evicted),
                                            std::memory_order_relaxed)) {
    return false;
  }
  const std::uint32_t owner = (out - 1) / kHelpers;
  bind_thread(channel.helper_tid.load(std::memory_order_relaxed), node_.record(owner).cpu);
  channel.cpu.store(-1, std::memory_order_relaxed);
  return true;
}

void Lender::recall() {
  const std::uint32_t out = out_.load(std::memory_order_relaxed);
  if (evict(out)) futex_wake(channel_of(out).word);
}

void Lender::take_back() {
  const std::uint32_t out = out_.load(std::memory_order_relaxed);
  if (out != 0 && counts_for_length_) away_ = ticks() - lent_at_;
  learn(true);
  if (out == 0) return;
  if (!evict(out)) {
    Channel& channel = channel_of(out);
    // acquire: pairs with the release of done in Pool::serve().
    if (channel.word.load(std::memory_order_acquire) == word(ChannelState::done)) {
      channel.word.store(kFree, std::memory_order_release);
    }
  }
  out_.store(0, std::memory_order_relaxed);
}

}  // namespace mh::lend
