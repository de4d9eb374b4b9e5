// SPDX-License-Identifier: BSD-3-Clause
// Lending a core: the state that owners and lenders of a node share.
//
// An *owner* is a rank with work for its own process: chunks of a message that it receives, or
// iterations of its loops. A *lender* is a rank that waits inside MPI and has a core to give. The
// owner keeps a few parked threads, its *helpers*. A lender moves a helper of the owner to the
// lender's core, wakes the helper on that core and sleeps. The helper works in the owner's process
// for one *unit* (0.1 to 0.8 ms, unit_length.hpp), wakes the lender on the same core and sleeps
// again. In a loan the core is handed over twice, in about a microsecond each time.
//
// A helper and its current lender agree through an atomic word in the helper's *channel*:
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
// An owner begins with a few helpers. A lender that finds all helpers at work sets all_at_work, and
// the owner's process makes further helpers, up to one for each core that others can lend.
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

// Packs the word of a helper's channel: its state in the low 8 bits, and above them the lender of
// the present or last loan (lender_id()).
constexpr std::uint32_t word_of(ChannelState state, std::uint32_t lender) {
  return static_cast<std::uint32_t>(state) | lender << 8U;
}
constexpr ChannelState state_of(std::uint32_t word) {
  return static_cast<ChannelState>(word & 0xffU);
}
constexpr std::uint32_t lender_of(std::uint32_t word) { return word >> 8U; }
inline constexpr std::uint32_t kFree = word_of(ChannelState::free, 0);

struct alignas(kCacheLine) Channel {
  // The state of the channel and its lender (word_of()). The word is also the futex on which the
  // parked helper sleeps, and on which its lender sleeps during a unit. Changes are releases and
  // reads are acquires. The exceptions are free ▶ held, held ▶ free and lent ▶ evicted, which
  // publish nothing: the helper publishes its work by done, or by the store of free after an
  // eviction.
  std::atomic<std::uint32_t> word{kFree};
  // Thread id of the helper; 0: no helper waits at this channel. Written by the helper when it
  // starts, and set to 0 by the owner when it ends its helpers. release: pairs with the acquire in
  // Lender::hold(). A lender that sees the id may wake the helper, which is ready to answer.
  std::atomic<std::int32_t> helper_tid{0};
  // The CPU to which the helper is bound; -1: the helper may run on its owner's CPUs. Written by
  // the thread that last moved the helper. relaxed: a stale value costs a system call, or a unit on
  // the wrong core.
  std::atomic<std::int32_t> cpu{-1};
  // Ticks that a unit of this loan may last. Written by the lender before it stores lent in `word`
  // as a release, which publishes the ticks to the helper.
  std::atomic<std::uint64_t> unit{0};
  // Number of units for which this helper got a lent core so far, shown by `mh top`. Written by the
  // lender before it stores lent in `word`. relaxed: a count publishes nothing.
  std::atomic<std::uint64_t> units_begun{0};
};

// The kinds of work that helpers do for their owner, in the order in which a helper looks for work:
// cells of pipelines, packing of messages between nodes, iterations of loops. An owner offers
// (*exposes*) at most one piece of work of each kind to its helpers at a time.
enum class WorkKind : std::uint8_t { pipelines, internode, loops };
inline constexpr std::size_t kKinds = 3;
constexpr std::uint32_t bit_of(WorkKind kind) { return 1U << static_cast<unsigned>(kind); }

struct alignas(kCacheLine) WorkOffer {
  // The time (ticks) at which the owner's process would finish its exposed work of each kind alone;
  // 0: nothing can be started. The time is absolute, so an offer is worth less as time passes. The
  // value may be a BriefOffer (below) in place of a time. Written by the owner and its helpers. The
  // rank at the other end of a message also writes the offer of pipelines, as that rank may know of
  // the message before the owner does. The accesses are relaxed, because the time is only a hint
  // for lenders.
  std::atomic<std::uint64_t> ends[kKinds]{};
  // Bit k: the owner lets helpers look for work of kind k (Pool::expose()), even if nothing can be
  // started at the moment. Written by the owner. relaxed: a hint for ranks that know of work for
  // the owner before the owner does (Pool::suggest_end()).
  std::atomic<std::uint32_t> exposed{0};
  // 1: a lender has found no free helper since the owner's process last made helpers, so the
  // process makes more. Set by lenders, cleared by the owner's process. relaxed: a hint.
  std::atomic<std::uint32_t> all_at_work{0};
};

// An offer of work so short that the owner does not read the clock to compute when the work ends.
// The word stands in WorkOffer::ends, and its highest bit tells it from a time. The word has the
// duration in ticks, which counts from the time at which a lender first sees the offer, and a
// number that tells successive offers of a rank apart.
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
// The number of helpers that an owner's process makes at once: threads cost memory, and most owners
// need few.
inline constexpr std::uint32_t kHelpersAtOnce = 8;

struct Lendings {
  WorkOffer offer;
  Channel channels[kHelpers];
};
static_assert(std::is_standard_layout_v<Lendings>);
static_assert(sizeof(Channel) == kCacheLine && sizeof(WorkOffer) == kCacheLine);

}  // namespace mh::lend
