// SPDX-License-Identifier: BSD-3-Clause
// What the ranks of a window share: locks, counters of epochs, and the jobs that others help with.
//
// Layout of the window's shared memory: Header, then for every rank of the window a RankPart and
// its row of posts, one word a rank. All of it is zero when it is made, and the constructors'
// values are all zero but for the jobs', which each rank constructs itself. No pointers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <type_traits>

#include "base/cacheline.hpp"
#include "node/rank.hpp"
#include "rma/kept.hpp"
#include "rma/locks.hpp"
#include "rma/operation.hpp"
#include "steal/job.hpp"

namespace mh::rma {

// One large operation that its origin shows to the others. `what` and the ends are written by the
// owner while the job is closed and read by helpers between a claim and its finish(), as the job's
// own work is (steal/job.hpp, I2 and I3).
struct alignas(kCacheLine) SharedJob {
  steal::Job job;
  Operation what;
  std::uint64_t lead;  // bytes of the first chunk that lie before the stream, see lead_of()
  SharedEnd origin;
  SharedEnd target;
  SharedEnd result;
};

// A small operation, or a list of short ones, that an origin asks the target itself to carry out,
// where only the kernel reaches the target's memory and a system call takes longer than the target,
// which waits anyway. Lies in the origin's part; written by it until it is posted, by the target
// while it is taken.
struct alignas(kCacheLine) ActiveMessage {
  enum State : std::uint32_t { kFree, kPosted, kTaken, kDone, kFailed };
  static constexpr std::size_t kMost = 64;  // bytes of an operation

  // Number, target and state in one word, so that nobody takes a message that was withdrawn, and
  // posted to another, for the one it has seen. kFree, kPosted, kTaken, kDone or kFailed, in this
  // order; the origin may withdraw it while it is posted. Each step releases what its side has
  // written, and the other side acquires it.
  std::atomic<std::uint64_t> word{0};
  static std::uint64_t word_of(std::uint32_t number, std::uint32_t target, State state) {
    return static_cast<std::uint64_t>(number) << 32U | target << 8U | state;
  }
  static State state_of(std::uint64_t word) { return static_cast<State>(word & 0xffU); }
  static std::uint32_t target_of(std::uint64_t word) {
    return static_cast<std::uint32_t>(word) >> 8U;
  }
  static std::uint64_t with(std::uint64_t word, State state) {
    return (word & ~std::uint64_t{0xff}) | state;
  }

  enum class Kind : std::uint8_t { operation, compare_and_swap, list };
  Kind kind = Kind::operation;
  std::uint64_t address = 0;  // in the target
  Operation what;
  std::byte data[kMost];  // the origin's; once it is done, the result's
  std::byte compare[kMost];
  KeptList list;
};
// An operation of 8 bytes is one line, which goes to the target and comes back.
static_assert(offsetof(ActiveMessage, data) + 8 <= kCacheLine);

inline constexpr std::uint32_t kJobs = 4;  // a rank: one for each thread that is in an operation

struct alignas(kCacheLine) RankPart {
  TargetLock lock;  // of this rank's memory, in passive-target epochs

  // Epochs to this rank that origins have completed. fetch_add by release in MPI_Win_complete,
  // acquire in MPI_Win_wait: what the origins did is visible to the target.
  alignas(kCacheLine) std::atomic<std::uint64_t> completed{0};

  // Bit i: jobs[i] may have chunks left. Written by this rank, read by helpers; relaxed, a hint.
  alignas(kCacheLine) std::atomic<std::uint32_t> open{0};

  // Bit r: rank r may have an active message for this rank. fetch_or by origins, exchange by this
  // rank; relaxed, the message's own state decides.
  alignas(kCacheLine) std::atomic<std::uint64_t> mail[node::kMaxRanks / 64];

  StripeLocks stripes;
  SharedJob jobs[kJobs];
  ActiveMessage message;
};
static_assert(std::is_standard_layout_v<RankPart> && sizeof(RankPart) % kCacheLine == 0);

// Epochs that a target has exposed to the rank whose row this is: by that target alone, or, for one
// on another node, by that rank; release in MPI_Win_post, acquire in MPI_Win_start.
using Posts = std::span<std::atomic<std::uint32_t>>;

class Control {
 public:
  struct alignas(kCacheLine) Header {
    node::WorkBoard board;  // ranks of the window that have open jobs
  };

  static std::size_t bytes_needed(std::uint32_t ranks) {
    return sizeof(Header) + ranks * stride(ranks);
  }

  Control() = default;
  Control(std::byte* memory, std::uint32_t ranks) : memory_(memory), ranks_(ranks) {}

  [[nodiscard]] std::uint32_t ranks() const { return ranks_; }
  [[nodiscard]] node::WorkBoard& board() const { return reinterpret_cast<Header*>(memory_)->board; }
  [[nodiscard]] RankPart& part(std::uint32_t rank) const {
    return *reinterpret_cast<RankPart*>(at(rank));
  }
  [[nodiscard]] Posts posts_to(std::uint32_t rank) const {
    return {reinterpret_cast<std::atomic<std::uint32_t>*>(at(rank) + sizeof(RankPart)), ranks_};
  }
  // Each rank its own, before anyone uses it.
  void construct(std::uint32_t rank) const { new (at(rank)) RankPart; }

 private:
  static std::size_t stride(std::uint32_t ranks) {
    const std::size_t row = ranks * sizeof(std::atomic<std::uint32_t>);
    return sizeof(RankPart) + (row + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  [[nodiscard]] std::byte* at(std::uint32_t rank) const {
    return memory_ + sizeof(Header) + rank * stride(ranks_);
  }

  std::byte* memory_ = nullptr;
  std::uint32_t ranks_ = 0;
};

}  // namespace mh::rma
