// SPDX-License-Identifier: BSD-3-Clause
// Lending a core: the state that owners and lenders of a node share.
//
// An *owner* is a rank with work for its own process: chunks of a message that it receives, or
// iterations of its loops. A *lender* is a rank that waits inside MPI and has a core to give. The
// owner keeps a few parked threads, its *helpers*. A lender moves a helper of the owner to the
// lender's core, wakes the helper on that core and sleeps. The helper works in the owner's process
// for one *unit* (0.1 to 0.8 ms, unit_length.hpp), wakes the lender on the same core and sleeps
// again. A loan takes two hand-overs of about a microsecond each.
//
// A helper and its current lender agree through the word of a *channel*:
//
//   free ─lender─▶ held ─lender─▶ lent ─helper─▶ done ─lender─▶ free
//                    └─lender─▶ free └─lender or helper─▶ evicted ─helper─▶ free
//
// held: the lender moves the sleeping helper to the lender's core. evicted: the core is the
// lender's again in the middle of a unit. Either the lender took the core back and moved the helper
// to the owner's core, or a helper that must wait gave the core back, woke the lender and moved
// itself. The thread that changes the word from lent to evicted moves the helper. If the word is no
// longer the one that the lender wrote as lent, the lender has no loan: the helper alone frees an
// evicted channel, and another lender may soon hold the channel.
//
// An owner begins with a few helpers. A lender that finds all helpers at work sets all_at_work,
// and the owner's process makes further helpers, up to one for each core that others can lend.
//
// The state lies in the node segment, in the area of each rank. Thread-safe. Limit: kHelpers
// lenders at a time for an owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"
#include "node/rank.hpp"

namespace mh::lend {

enum class ChannelState : std::uint32_t { free, held, lent, done, evicted };

// Identifies a lender: a rank, and the number of one of its cores. Core 0 is lent by the rank's
// waiting thread, further cores by its workers (workers.hpp).
constexpr std::uint32_t lender_id(std::uint32_t rank, std::uint32_t core) {
  return core * node::kMaxRanks + rank;
}
constexpr std::uint32_t rank_of(std::uint32_t lender) { return lender % node::kMaxRanks; }
inline constexpr std::uint32_t kMostCores = (1U << 24U) / node::kMaxRanks;

// The word of a channel: the state, and the lender of the last loan.
constexpr std::uint32_t word_of(ChannelState state, std::uint32_t lender) {
  return static_cast<std::uint32_t>(state) | lender << 8U;
}
constexpr ChannelState state_of(std::uint32_t word) {
  return static_cast<ChannelState>(word & 0xffU);
}
constexpr std::uint32_t lender_of(std::uint32_t word) { return word >> 8U; }
inline constexpr std::uint32_t kFree = word_of(ChannelState::free, 0);

struct alignas(kCacheLine) Channel {
  // Also the futex on which the parked helper sleeps, and on which its lender sleeps during a unit.
  // Changes are releases and reads are acquires. The changes free ▶ held, held ▶ free and lent ▶
  // evicted publish nothing: the helper publishes its work by done, or by the store of free after
  // an eviction.
  std::atomic<std::uint32_t> word{kFree};
  // Thread id of the helper; 0: no helper waits at this channel. Written by the helper when it
  // starts, and set to 0 by the owner at the end. release: pairs with the acquire of a lender,
  // after which a wake-up is answered.
  std::atomic<std::int32_t> helper_tid{0};
  // The CPU to which the helper is bound; -1: the helper may run on its owner's CPUs. Written by
  // the thread that last moved the helper. relaxed: a stale value costs a system call, or a unit on
  // the wrong core.
  std::atomic<std::int32_t> cpu{-1};
  // Ticks that a unit may last. Written by the lender before it changes the word to lent, which
  // publishes the ticks.
  std::atomic<std::uint64_t> unit{0};
  // Number of units that this helper was lent for, for `mh top`. Written by the lender before it
  // changes the word to lent. relaxed: a count publishes nothing.
  std::atomic<std::uint64_t> units_begun{0};
};

// The kinds of work that helpers do, in the order in which a helper looks. An owner exposes at most
// one work of each kind.
enum class WorkKind : std::uint8_t { pipelines, internode, loops };
inline constexpr std::size_t kKinds = 3;
constexpr std::uint32_t bit_of(WorkKind kind) { return 1U << static_cast<unsigned>(kind); }

struct alignas(kCacheLine) WorkOffer {
  // The time (ticks) at which the owner's process would finish the exposed work alone, so an offer
  // shrinks by itself; 0: nothing is exposed. May be a BriefOffer. Written by the owner and its
  // helpers. The offer of pipelines is also written by the rank at the other end of a message,
  // which may know of the message first. relaxed: a hint; only the owner's process knows the work.
  std::atomic<std::uint64_t> ends[kKinds]{};
  // Bit k: work of kind k is exposed, even if nothing can be started now. Written by the owner.
  // relaxed: a hint for ranks that know of work for the owner before the owner does.
  std::atomic<std::uint32_t> exposed{0};
  // 1: a lender has found no free helper since the owner's process last made helpers. Set by
  // lenders, cleared by the owner's process. relaxed: a hint.
  std::atomic<std::uint32_t> all_at_work{0};
};

// An offer of work so short that the owner does not read the clock for it. The word has the
// duration in ticks, which counts from the time at which a lender first sees the offer, and a
// number that tells successive offers apart.
struct BriefOffer {
  static constexpr std::uint64_t kMark = 1ULL << 63U;  // tick counts stay below
  static constexpr unsigned kTickBits = 40;            // some minutes

  static constexpr bool is(std::uint64_t offer) { return (offer & kMark) != 0; }
  static constexpr std::uint64_t word(std::uint64_t ticks, std::uint64_t number) {
    return kMark | number << kTickBits | ticks;
  }
  static constexpr std::uint64_t ticks(std::uint64_t offer) {
    return offer & ((1ULL << kTickBits) - 1);
  }
};

inline constexpr std::uint32_t kHelpers = 255;
// Helpers made at once: threads cost their process memory, and most owners need few.
inline constexpr std::uint32_t kHelpersAtOnce = 8;

struct Lendings {
  WorkOffer offer;
  Channel channels[kHelpers];
};
static_assert(std::is_standard_layout_v<Lendings>);
static_assert(sizeof(Channel) == kCacheLine && sizeof(WorkOffer) == kCacheLine);

}  // namespace mh::lend
