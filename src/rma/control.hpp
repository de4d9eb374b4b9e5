// SPDX-License-Identifier: BSD-3-Clause
// The shared memory of a window: locks, epoch counters, and the jobs that other ranks help with.
//
// The memory holds a ControlHeader, then for each rank of the window a RankPart and a row of
// counters of posts, one word for each rank (Posts). New memory is zero, which is the initial value
// of every field except the jobs; each rank constructs its own RankPart. The memory holds no
// pointers. Any thread of any rank of the node may use a field as the field's comment says.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>

#include "base/cacheline.hpp"
#include "node/rank.hpp"
#include "rma/deferred.hpp"
#include "rma/locks.hpp"
#include "rma/operation.hpp"
#include "steal/job.hpp"

namespace mh::rma {

// A large one-sided operation that its origin, the job's owner, offers to the other ranks. The
// owner writes `what` and the buffers while the job is closed; thieves read them between a claim
// and its finish() (steal/job.hpp, I2 and I3).
struct alignas(kCacheLine) SharedJob {
  steal::Job job;
  Operation what;
  std::uint64_t lead;  // bytes of the first chunk that precede the stream, see lead_of()
  SharedBuffer origin;
  SharedBuffer target;
  SharedBuffer result;
};

enum class ActiveMessageKind : std::uint8_t { operation, compare_and_swap, list };

// A small operation, or a list of deferred operations, that the target carries out for the origin.
// Used if only the kernel reaches the target's memory: a waiting target answers sooner than a
// system call returns. The message lies in the origin's RankPart. The origin writes the message
// before it posts it; the target writes while the state is kTaken.
struct alignas(kCacheLine) ActiveMessage {
  enum DeliveryState : std::uint32_t { kFree, kPosted, kTaken, kDone, kFailed };
  static constexpr std::size_t kMost = 64;  // bytes of an operation

  // Sequence number, target rank and state in one word, so that a target which is late never takes
  // a message that was withdrawn and posted again. The states follow each other in the order of the
  // enum; the origin may set a posted message to kFree again. The stores of kPosted, kDone and
  // kFailed release. The target's exchange to kTaken and the origin's loads for an answer acquire.
  std::atomic<std::uint64_t> word{0};
  static std::uint64_t word_of(std::uint32_t number, std::uint32_t target, DeliveryState state) {
    return static_cast<std::uint64_t>(number) << 32U | target << 8U | state;
  }
  static DeliveryState state_of(std::uint64_t word) {
    return static_cast<DeliveryState>(word & 0xffU);
  }
  static std::uint32_t target_of(std::uint64_t word) {
    return static_cast<std::uint32_t>(word) >> 8U;
  }
  static std::uint64_t with(std::uint64_t word, DeliveryState state) {
    return (word & ~std::uint64_t{0xff}) | state;
  }

  ActiveMessageKind kind = ActiveMessageKind::operation;
  std::uint64_t address = 0;  // in the target
  Operation what;
  std::byte data[kMost];  // of the origin; when the state is kDone, the result
  std::byte compare[kMost];
  DeferredList list;
};
// The head of a message and 8 bytes of data fit in one cache line, which travels to the target and
// back.
static_assert(offsetof(ActiveMessage, data) + 8 <= kCacheLine);

inline constexpr std::uint32_t kJobs = 4;  // per rank: one for each thread that is in an operation

struct alignas(kCacheLine) RankPart {
  TargetLock lock;  // lock of this rank's memory in passive-target epochs

  // The number of access epochs to this rank's memory that origins have completed. release: the
  // fetch_add in MPI_Win_complete, or, for origins on other nodes, in this rank's RMA server
  // (mpi/rma/serving.hpp). It pairs with the acquire in MPI_Win_wait, which makes the origins'
  // updates visible to this rank.
  alignas(kCacheLine) std::atomic<std::uint64_t> completed{0};

  // Bit i is set while jobs[i] may have chunks left. Written by this rank, read by thieves.
  // relaxed: a hint, since the job decides whether a chunk is left.
  alignas(kCacheLine) std::atomic<std::uint32_t> open{0};

  // Bit r is set while rank r may have an active message for this rank. Origins set bits, this rank
  // clears them. relaxed: a hint, since the state in the message's own word decides.
  alignas(kCacheLine) std::atomic<std::uint64_t> mail[node::kMaxRanks / 64];

  StripeLocks stripes;
  SharedJob jobs[kJobs];
  ActiveMessage message;
};
static_assert(std::is_standard_layout_v<RankPart> && sizeof(RankPart) % kCacheLine == 0);

// The row of words of an origin: word t counts the exposure epochs that target t has opened to the
// origin. Target t writes its word; for a target on another node, the origin's RMA server does
// (mpi/rma/serving.hpp). release in MPI_Win_post or in the RMA server, acquire in MPI_Win_start.
using Posts = std::span<std::atomic<std::uint32_t>>;

class Control {
 public:
  struct alignas(kCacheLine) ControlHeader {
    node::WorkBoard board;  // ranks of the window that have open jobs
  };

  static std::size_t bytes_needed(std::uint32_t ranks) {
    return sizeof(ControlHeader) + ranks * stride(ranks);
  }

  Control() = default;
  Control(std::byte* memory, std::uint32_t ranks) : memory_(memory), ranks_(ranks) {}

  [[nodiscard]] std::uint32_t ranks() const { return ranks_; }
  [[nodiscard]] node::WorkBoard& board() const {
    return reinterpret_cast<ControlHeader*>(memory_)->board;
  }
  [[nodiscard]] RankPart& part(std::uint32_t rank) const {
    return *reinterpret_cast<RankPart*>(at(rank));
  }
  [[nodiscard]] Posts posts_to(std::uint32_t rank) const {
    return {reinterpret_cast<std::atomic<std::uint32_t>*>(at(rank) + sizeof(RankPart)), ranks_};
  }
  // Each rank constructs its own RankPart and row of words before any rank uses them. The memory
  // may have served another window before, so it is not zero.
  void construct(std::uint32_t rank) const {
    std::memset(at(rank), 0, stride(ranks_));
    new (at(rank)) RankPart;
  }
  // Called by the window's first rank on the node, before any rank uses the memory.
  void construct_header() const { new (memory_) ControlHeader{}; }

 private:
  static std::size_t stride(std::uint32_t ranks) {
    const std::size_t row = ranks * sizeof(std::atomic<std::uint32_t>);
    return sizeof(RankPart) + (row + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  [[nodiscard]] std::byte* at(std::uint32_t rank) const {
    return memory_ + sizeof(ControlHeader) + rank * stride(ranks_);
  }

  std::byte* memory_ = nullptr;
  std::uint32_t ranks_ = 0;
};

}  // namespace mh::rma
