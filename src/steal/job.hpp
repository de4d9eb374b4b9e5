// SPDX-License-Identifier: BSD-3-Clause
// A job: a copy, cut into chunks that any rank of the node may claim.
//
// The *owner* exposes a job in one of its job slots and is the only rank that reuses the slot. A
// *thief* is a thread that claims a chunk, the owner's own threads included. A job is a single
// entry, however many chunks it has, and a claim is a single fetch_sub. (CAB-MPI queues an entry
// per chunk under a lock, section III-B.) Jobs lie in the node segment, so they have no pointers
// and no process-private state. Limit: 2^31-1 chunks a job.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"
#include "base/emulated.hpp"
#include "layout/compact.hpp"
#include "memory/view.hpp"

namespace mh::steal {

// The end from which chunks are claimed. `both_ends`: the owner claims from the low end, all other
// ranks from the high end. Two messages of the same size are then cut alike between the two caches,
// and no half has to cross to the other core.
enum class CopyOrder : std::uint8_t { low_to_high, high_to_low, both_ends };

// The position of a chunk among `count` chunks, if a single rank copies the chunks in this order
// and copies that chunk as its `index`-th (from 0).
constexpr std::uint64_t chunk_position(std::uint64_t index, std::uint64_t count, CopyOrder order) {
  return order == CopyOrder::high_to_low ? count - 1 - index : index;
}

// The rank that claims: the job's owner or any other rank. Matters only for CopyOrder::both_ends.
enum class ClaimSide : std::uint8_t { owner, other };

// The transfer that a job carries out. The owner writes it while the job slot is closed, thieves
// read it after a claim.
struct CopySpec {
  memory::View to;
  memory::View from;
  std::uint64_t bytes;
  std::uint32_t chunk_bytes;
  CopyOrder order;
  bool shaped = false;  // data with gaps at one end or both; see Shapes
  // For both_ends: the number of chunks in a page region (kPageRegion), if successive claims shall
  // go to different regions; 0: successive claims go to neighbouring chunks.
  std::uint32_t region_chunks = 0;
};

// The kernel locks the pages of a process in regions of this size (the pages of one table), so
// ranks that copy in the same region by the kernel wait for each other.
inline constexpr std::uint32_t kPageRegion = 2U << 20U;

// The shapes of the data at the two ends of a `shaped` job, relative to the addresses of its views;
// chunks are ranges of the packed stream. Shapes lie beside the job, and are written and read at
// the same times as the job's CopySpec.
struct alignas(kCacheLine) Shapes {
  layout::Compact to;
  layout::Compact from;
};

struct Chunk {
  std::uint64_t offset;
  std::uint64_t bytes;
};

// Invariants
//   I1  Claims handed out <= chunks. Every fetch_sub that returns a positive count hands out exactly
//       one chunk, and at most `chunks` fetch_subs return a positive count.
//   I2  work_ is written only while the slot is closed: before open(), or after done_ == chunks_, or
//       after the owner has found that only dead processes hold unfinished chunks (ThiefWatch).
//   I3  A thief reads work_ only between a successful claim and its finish(). The owner waits for a
//       finish() per chunk before it writes again (I2), so the job needs no count of its readers
//       and no generation. A late thief that decrements the ticket of a closed slot claims nothing.
//       A late thief that decrements the ticket of the slot's *next* job either claims nothing, or
//       has properly claimed a chunk of that job.
class alignas(kCacheLine) Job {
 public:
  // Called by the owner of a closed slot. Publishes `work` as ceil(bytes / chunk_bytes) chunks.
  void open(const CopySpec& work);

  // Called by any rank: a check without a write, so that idle ranks do not steal the line from the
  // owner. relaxed: a stale answer costs a wasted claim or a missed chunk, never correctness.
  [[nodiscard]] bool has_work() const {
    emulated::touch(&ticket_, emulated::Access::read);
    return remaining(ticket_.load(std::memory_order_relaxed)) > 0;
  }

  // Called by any rank. True: `chunk` is claimed, and the caller must call finish() once.
  [[nodiscard]] bool claim(Chunk& chunk, ClaimSide side = ClaimSide::owner) {
    return has_work() && take(chunk, side);
  }

  // Called by the thief when the chunk's bytes are in place, or the copy has failed. The thief must
  // not access the job afterwards.
  void finish(bool succeeded);

  // Called by the owner. True once every chunk is finished; the bytes copied by all thieves are
  // then visible to the owner.
  [[nodiscard]] bool finished() const {
    emulated::touch(&done_, emulated::Access::read);
    // acquire: pairs with the release in finish() of every thief (a release sequence through the
    // RMWs).
    return done_.load(std::memory_order_acquire) == chunks_;
  }
  // Called by the owner, after finished(). True if a chunk, and so the transfer, failed.
  [[nodiscard]] bool failed() const { return failures_.load(std::memory_order_relaxed) != 0; }

  // Between a successful claim and finish() only (I3).
  [[nodiscard]] const CopySpec& work() const { return work_; }

 private:
  friend struct JobTestAccess;  // pauses a thief between has_work() and take()

  // Claims a chunk without has_work(). Safe at any time, even after the slot was closed and opened
  // again (I3).
  bool take(Chunk& chunk, ClaimSide side);
  // The index of the claimed chunk; `ticket` is the value before the claim.
  [[nodiscard]] std::uint64_t index_of(std::uint64_t ticket, ClaimSide side) const;
  // The index of the chunk at `position` in the order from the low end to the high end, which
  // visits the page regions in turn if work_.region_chunks is not 0.
  [[nodiscard]] std::uint64_t chunk_at(std::uint64_t position) const;

  // The high half of the ticket counts down from kBias + chunks to kBias; the bias keeps late
  // decrements from underflow. Every decrement follows a has_work(), so each thread takes the count
  // at most one below the bias. The low half counts the claims with ClaimSide::other. A single word
  // thus tells the chunks claimed from either end, and a single atomic operation claims a chunk.
  static constexpr std::uint64_t kOne = 1ULL << 32U;
  static constexpr std::uint64_t kBias = 1ULL << 31U;
  static std::int64_t remaining(std::uint64_t ticket) {
    return static_cast<std::int64_t>(ticket / kOne) - static_cast<std::int64_t>(kBias);
  }

  // Line 0: the owner writes it while the slot is closed.
  CopySpec work_{};
  std::uint32_t chunks_ = 0;
  // Line 1: every thief writes it.
  alignas(kCacheLine) std::atomic<std::uint64_t> ticket_{kBias * kOne};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<std::uint32_t> failures_{0};
};

static_assert(std::is_standard_layout_v<Job>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(Job) == 2 * kCacheLine);

}  // namespace mh::steal
