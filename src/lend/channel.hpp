// SPDX-License-Identifier: BSD-3-Clause
// Lending a core: what owners and lenders of a node share.
//
// Words: an *owner* is a rank with work that its own process does best or that no other can do
// (chunks of a message it receives, iterations of its loops). A *lender* is a rank that waits
// inside MPI and has a core to give. The owner keeps a few parked threads, its *helpers*; a lender
// moves one of them to its own core, wakes it there and sleeps. The helper works in the owner's
// process for one *unit* (0.1 to 0.8 ms, unit_length.hpp), wakes the lender on the same core and
// sleeps again: two hand-overs of about a microsecond each.
//
// A helper and its lender of the moment agree through the word of a *channel*:
//
//   free ─lender─▶ held ─lender─▶ lent ─helper─▶ done ─lender─▶ free
//                    └─lender─▶ free └─lender or helper─▶ evicted ─helper─▶ free
//
// held: the lender places the sleeping helper on its core. evicted: the core is the lender's again
// in the middle of a unit. Either the lender took it back and moved the helper to the owner's core,
// or the helper, which has to wait for something, gave it back, woke the lender and moved itself.
// Whoever changes the word from lent does the moving. For a lender that sees any other word than
// its lent the loan is over: after evicted the channel is the helper's, and may soon be another's.
//
// Lies in the node segment, in the area of each rank. Limit: kHelpers lenders at a time for an
// owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"
#include "node/rank.hpp"

namespace mh::lend {

enum class ChannelState : std::uint32_t { free, held, lent, done, evicted };

// A lender: a rank's own thread lends core 0, its workers (workers.hpp) lend further ones.
constexpr std::uint32_t lender_id(std::uint32_t rank, std::uint32_t core) {
  return core * node::kMaxRanks + rank;
}
constexpr std::uint32_t rank_of(std::uint32_t lender) { return lender % node::kMaxRanks; }
inline constexpr std::uint32_t kMostCores = (1U << 24U) / node::kMaxRanks;

// The word of a channel: the state, and the lender who brought it there.
constexpr std::uint32_t word_of(ChannelState state, std::uint32_t lender) {
  return static_cast<std::uint32_t>(state) | lender << 8U;
}
constexpr ChannelState state_of(std::uint32_t word) {
  return static_cast<ChannelState>(word & 0xffU);
}
constexpr std::uint32_t lender_of(std::uint32_t word) { return word >> 8U; }
inline constexpr std::uint32_t kFree = word_of(ChannelState::free, 0);

struct alignas(kCacheLine) Channel {
  // The futex of both sides. Each change releases and each look acquires, except held ▶ free and
  // lent ▶ evicted, which publish nothing: what the helper did in its unit is published by done.
  std::atomic<std::uint32_t> word{kFree};
  // Thread id of the helper, 0: there is none. Written once, by the owner. Release, pairs with the
  // acquire of a lender: the helper waits at this channel.
  std::atomic<std::int32_t> thread{0};
  // The CPU the helper is bound to, -1: the owner's. Written by whoever moved it; relaxed, a wrong
  // value costs a system call or a unit on the wrong core.
  std::atomic<std::int32_t> cpu{-1};
  // Ticks that a unit may last. Written by the lender before lent, which publishes it.
  std::atomic<std::uint64_t> unit{0};
};

// What work is exposed for. An owner may expose one of each kind at a time.
// In the order in which a helper looks.
enum class Kind : std::uint8_t { pipelines, internode, loops };
inline constexpr std::size_t kKinds = 3;
constexpr std::uint32_t bit_of(Kind kind) { return 1U << static_cast<unsigned>(kind); }

struct alignas(kCacheLine) Offer {
  // About when (ticks) the owner's process would be done with the exposed work of that kind as it
  // is, 0: nothing is exposed, or a Brief. So an offer gets smaller by itself. Written by the owner
  // and its helpers, and for pipelines by the other end of a message, whose process knows first
  // that there is one. Relaxed: a hint, the owner's process decides what there is.
  std::atomic<std::uint64_t> ends[kKinds]{};
  // Bit k: work of kind k is exposed, be there something to begin or not. Written by the owner,
  // relaxed: a hint for ranks that know more of its work than it does.
  std::atomic<std::uint32_t> exposed{0};
};

// An offer of work that takes hardly longer than it takes to say when it ends: how many ticks it
// takes, from when a lender sees it. Successive ones are told apart by a number.
struct Brief {
  static constexpr std::uint64_t kMark = 1ULL << 63U;  // no clock goes so far
  static constexpr unsigned kTickBits = 40;            // minutes

  static constexpr bool is(std::uint64_t offer) { return (offer & kMark) != 0; }
  static constexpr std::uint64_t word(std::uint64_t ticks, std::uint64_t number) {
    return kMark | number << kTickBits | ticks;
  }
  static constexpr std::uint64_t ticks(std::uint64_t offer) {
    return offer & ((1ULL << kTickBits) - 1);
  }
};

inline constexpr std::uint32_t kHelpers = 8;

struct Lendings {
  Offer offer;
  Channel channels[kHelpers];
};
static_assert(std::is_standard_layout_v<Lendings>);
static_assert(sizeof(Channel) == kCacheLine && sizeof(Offer) == kCacheLine);

}  // namespace mh::lend
