// SPDX-License-Identifier: BSD-3-Clause
#include "lend/lender.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.hpp"
#include "lend/futex.hpp"

namespace mh::lend {
namespace {

// What is left must be worth two hand-overs and the wait for the helper's last chunk.
constexpr double kLeastNs = 15e3;
// Short sleeps on a futex are slow in virtual machines (a timer is programmed for each), and this
// one only ends early when something is wrong or a unit is long.
constexpr std::int64_t kPatienceNs = 5'000'000;

std::uint32_t helpers_at_work(const Lendings& lendings) {
  return static_cast<std::uint32_t>(std::count_if(
      std::begin(lendings.channels), std::end(lendings.channels), [](const Channel& c) {
        return state_of(c.word.load(std::memory_order_relaxed)) == ChannelState::lent;
      }));
}

bool bind_thread(std::int32_t thread, std::int32_t cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(thread, sizeof set, &set) == 0;
}

}  // namespace

Lender::Lender(const node::Node& node, std::size_t offset, VictimPolicy policy, Admission copies)
    : node_(node),
      offset_(offset),
      policy_(policy),
      copies_(std::move(copies)),
      barred_(node.ranks(), false),
      dice_(0x9e3779b97f4a7c15ULL * (node.me() + 1)) {
  barred_[node.me()] = true;
}

Lendings& Lender::lendings(std::uint32_t rank) const {
  return *reinterpret_cast<Lendings*>(node_.area(rank) + offset_);
}

// The higher, the better.
std::uint64_t Lender::rank_of_offer(std::uint32_t rank, std::uint64_t left) {
  constexpr std::uint64_t kNear = 1ULL << 62U;
  switch (policy_) {
    case VictimPolicy::most_work:
      return left;
    case VictimPolicy::fewest_lenders:
      return kHelpers + 1 - helpers_at_work(lendings(rank));
    case VictimPolicy::nearest:
      return left + (node_.record(rank).numa == node_.mine().numa ? kNear : 0);
    case VictimPolicy::random:
      dice_ ^= dice_ << 13U;
      dice_ ^= dice_ >> 7U;
      dice_ ^= dice_ << 17U;
      return dice_ | 1U;
  }
  return 0;
}

// When the last of what is offered there and may be helped ends, if that is after `worth`.
std::uint64_t Lender::end_of_offer(std::uint32_t rank, std::uint64_t worth) const {
  const Offer& offer = lendings(rank).offer;
  const auto end_of = [&](Kind kind) {
    return offer.ends[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
  };
  const std::uint64_t loops = end_of(Kind::loops);
  const std::uint64_t copies = end_of(Kind::copies);
  return copies > loops && copies >= worth && copies_(rank) ? copies : loops;
}

std::uint32_t Lender::choose() {
  std::uint32_t best = kNobody;
  std::uint64_t best_rank = 0;
  const std::uint64_t now = ticks();
  const std::uint64_t worth = now + ticks_from_ns(kLeastNs);
  for (std::uint32_t rank = 0; rank < node_.ranks(); ++rank) {
    if (barred_[rank]) continue;
    const std::uint64_t ends = end_of_offer(rank, worth);
    if (ends < worth) continue;
    const std::uint64_t this_rank = rank_of_offer(rank, ends - now);
    if (this_rank <= best_rank) continue;
    best = rank;
    best_rank = this_rank;
  }
  return best;
}

// A helper of that owner for this lender alone, null if all are taken.
Channel* Lender::hold(std::uint32_t owner) const {
  for (Channel& channel : lendings(owner).channels) {
    // acquire: pairs with the helper's release; it waits at the channel.
    if (channel.thread.load(std::memory_order_acquire) == 0) return nullptr;  // no more helpers
    std::uint32_t expected = kFree;
    if (channel.word.compare_exchange_strong(expected, word_of(ChannelState::held, node_.me()),
                                             std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
      return &channel;
    }
  }
  return nullptr;
}

bool Lender::place_here(Channel& channel) const {
  const int here = ::sched_getcpu();
  if (channel.cpu.load(std::memory_order_relaxed) == here) return true;
  if (!bind_thread(channel.thread.load(std::memory_order_relaxed), here)) return false;
  channel.cpu.store(here, std::memory_order_relaxed);
  return true;
}

Outcome Lender::lend() {
  if (out_ != nullptr) return wait_for_helper();
  const std::uint32_t owner = choose();
  if (owner == kNobody) return Outcome::nothing;
  Channel* channel = hold(owner);
  if (channel == nullptr) return Outcome::nothing;
  if (!place_here(*channel)) {
    channel->word.store(kFree, std::memory_order_relaxed);
    barred_[owner] = true;
    return Outcome::refused;
  }
  out_ = channel;
  owner_ = owner;
  // release: pairs with the helper's look in live().
  channel->word.store(word_of(ChannelState::lent, node_.me()), std::memory_order_release);
  futex_wake(channel->word);
  return wait_for_helper();
}

Outcome Lender::wait_for_helper() {
  const std::uint32_t lent = word_of(ChannelState::lent, node_.me());
  futex_wait(out_->word, lent, kPatienceNs);
  // acquire: pairs with the helper's done. A helper that has to wait gives the core back: evicted,
  // or what others have made of the channel since.
  const std::uint32_t now = out_->word.load(std::memory_order_acquire);
  if (now == lent) {
    if (node_.alive(owner_)) return Outcome::still_out;
    barred_[owner_] = true;
  } else if (now == word_of(ChannelState::done, node_.me())) {
    out_->word.store(kFree, std::memory_order_release);
  }
  out_ = nullptr;
  return now == lent ? Outcome::nothing : Outcome::lent;
}

void Lender::take_back() {
  if (out_ == nullptr) return;
  std::uint32_t word = word_of(ChannelState::lent, node_.me());
  // acquire on failure: pairs with the helper's done. On success the helper gives the channel back.
  if (out_->word.compare_exchange_strong(word, word_of(ChannelState::evicted, node_.me()),
                                         std::memory_order_acq_rel, std::memory_order_acquire)) {
    bind_thread(out_->thread.load(std::memory_order_relaxed), node_.record(owner_).cpu);
    out_->cpu.store(-1, std::memory_order_relaxed);
  } else if (word == word_of(ChannelState::done, node_.me())) {
    out_->word.store(kFree, std::memory_order_release);
  }
  out_ = nullptr;
}

}  // namespace mh::lend
