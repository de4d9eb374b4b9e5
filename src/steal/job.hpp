// SPDX-License-Identifier: BSD-3-Clause
// A job: one transfer, cut into chunks that any rank of the node may claim.
//
// Words: the *owner* exposes a job in one of its own slots and is the only one to reuse the slot; a
// *thief* is whoever claims a chunk, the owner included. A job is one entry however many chunks it
// has (CAB-MPI queues an entry per chunk under a lock, section III-B; here a claim is one
// fetch_sub). Lies in the node segment: no pointers, no process-private state. Limit: 2^31-1 chunks
// a job.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"
#include "layout/compact.hpp"
#include "memory/view.hpp"

namespace mh::steal {

// From which end chunks are claimed. `both_ends`: the owner claims from the low end, everybody else
// from the high end. A message of a size that came before is then cut between the same two caches
// again, and neither side's half has to cross to the other core.
enum class Order : std::uint8_t { low_to_high, high_to_low, both_ends };

// Who claims: matters for Order::both_ends only.
enum class End : std::uint8_t { owner, other };

// What a job does. Written by the owner while the slot is closed, read by thieves after a claim.
struct Work {
  memory::View to;
  memory::View from;
  std::uint64_t bytes;
  std::uint32_t chunk_bytes;
  Order order;
  bool shaped = false;  // the bytes lie scattered at either end; see Shapes
};

// Where the bytes of both ends lie from the addresses of the two views on; chunks are parts of the
// packed stream. Beside a job with `shaped`, written and read when the work is.
struct alignas(kCacheLine) Shapes {
  layout::Compact to;
  layout::Compact from;
};

struct Chunk {
  std::uint64_t offset;
  std::uint64_t bytes;
};

// Invariants
//   I1  claims handed out <= chunks: every fetch_sub that returns a positive count hands out
//   exactly one
//       chunk, and at most `chunks` of them can.
//   I2  work_ is written only while the slot is closed, that is before open() or after done_ ==
//   chunks_. I3  a thief touches work_ only between a successful claim and its finish(); since the
//   owner waits
//       for one finish() per chunk before it writes again (I2), no visitor count and no generation
//       are needed, and a late thief that decrements a closed or even a *new* ticket is harmless:
//       it either gets nothing or has claimed a chunk of the new job in good order.
class alignas(kCacheLine) Job {
 public:
  // Owner. Publishes `work` as ceil(bytes / chunk_bytes) chunks. The slot must be closed.
  void open(const Work& work);

  // Any rank. Cheap look without a write, so that idle ranks do not steal the line from the owner.
  // Relaxed: a stale answer costs one wasted claim or one missed chunk, never correctness.
  [[nodiscard]] bool has_work() const {
    return remaining(ticket_.load(std::memory_order_relaxed)) > 0;
  }

  // Any rank. True and `chunk` when a chunk was claimed; the caller must then call finish() once.
  [[nodiscard]] bool claim(Chunk& chunk, End end = End::owner) {
    return has_work() && take(chunk, end);
  }

  // The thief that claimed: its bytes are in place (or failed). Nothing of the job may be touched
  // after.
  void finish(bool succeeded);

  // Owner. True once every chunk was finished; then the bytes of all thieves are visible to the
  // owner.
  [[nodiscard]] bool finished() const {
    // acquire: pairs with the release in finish() of every thief (a release sequence through the
    // RMWs).
    return done_.load(std::memory_order_acquire) == chunks_;
  }
  // Owner, after finished(): whether any chunk failed, so that the whole must be sent another way.
  [[nodiscard]] bool failed() const { return failures_.load(std::memory_order_relaxed) != 0; }

  // Between a successful claim and finish() only (I3).
  [[nodiscard]] const Work& work() const { return work_; }

 private:
  friend struct JobTestAccess;  // pauses a thief between has_work() and take()

  // The claim proper. Safe at any time, also after the slot was closed and opened again (I3).
  bool take(Chunk& chunk, End end);
  // Which chunk a successful claim got; `ticket` as it was before the claim.
  [[nodiscard]] std::uint64_t index_of(std::uint64_t ticket, End end) const;

  // The ticket's high half counts down from `chunks`; the bias keeps the decrements of late thieves
  // from borrowing. has_work() comes before every decrement, so at most one decrement a rank lies
  // below the bias. The low half counts the claims that were made for End::other, so one word tells
  // how many chunks are gone from either end and one atomic operation takes one.
  static constexpr std::uint64_t kOne = 1ULL << 32U;
  static constexpr std::uint64_t kBias = 1ULL << 31U;
  static std::int64_t remaining(std::uint64_t ticket) {
    return static_cast<std::int64_t>(ticket / kOne) - static_cast<std::int64_t>(kBias);
  }

  // Line 0: written by the owner while closed.
  Work work_{};
  std::uint32_t chunks_ = 0;
  // Line 1: written by every thief.
  alignas(kCacheLine) std::atomic<std::uint64_t> ticket_{kBias * kOne};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<std::uint32_t> failures_{0};
};

static_assert(std::is_standard_layout_v<Job>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(Job) == 2 * kCacheLine);

}  // namespace mh::steal
