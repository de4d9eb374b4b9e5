// SPDX-License-Identifier: BSD-3-Clause
// A job: a copy, cut into chunks that any rank of the node may claim.
//
// The *owner* puts a job into one of its job slots, where other ranks find it, and is the only rank
// that reuses the slot. A *thief* is a thread that claims a chunk, the owner's own threads
// included. A job is a single entry, however many chunks it has, and a claim is a single
// compare-and-swap.
// (CAB-MPI queues an entry per chunk under a lock, section III-B.) Jobs lie in the node segment, so
// they have no pointers and no process-private state. Limit: 2^31-1 chunks a job.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"
#include "base/emulated.hpp"
#include "layout/compact.hpp"
#include "memory/view.hpp"

namespace mh::steal {

// The end of the message from which chunks are claimed. `both_ends`: the owner claims from the low
// end, all other ranks from the high end. Messages of the same size are then divided alike between
// two ranks: the same half is in the same core's cache each time, and need not cross to the other
// core.
enum class CopyOrder : std::uint8_t { low_to_high, high_to_low, both_ends };

// Returns the position of a chunk among `count` chunks, if a single rank copies all chunks in this
// order and this chunk is its `index`-th (from 0).
constexpr std::uint64_t chunk_position(std::uint64_t index, std::uint64_t count, CopyOrder order) {
  return order == CopyOrder::high_to_low ? count - 1 - index : index;
}

// Tells who claims a chunk: the job's owner or any other rank. Matters only for
// CopyOrder::both_ends.
enum class ClaimSide : std::uint8_t { owner, other };

// The copy that a job carries out. The owner writes it while the job slot is closed (no job is open
// in it), thieves read it after they have claimed a chunk.
struct CopySpec {
  memory::View to;
  memory::View from;
  std::uint64_t bytes;
  std::uint32_t chunk_bytes;
  CopyOrder order;
  bool shaped = false;  // data with gaps at one end or both; see Shapes
  // For CopyOrder::both_ends. If successive claims shall go to different page regions
  // (kPageRegion), the number of chunks in a region; 0: successive claims go to neighbouring
  // chunks.
  std::uint32_t region_chunks = 0;
  // A claim takes several chunks while many are left (kMostChunks); region_chunks is then 0.
  bool guided = false;
};

// A claim in a guided job takes a sixteenth of the chunks left, and at most kMostChunks of them. So
// claims are few, and their last ones small: copiers that began at different times end together.
inline constexpr std::uint32_t kMostChunks = 4;
inline constexpr std::uint32_t kGuidedShares = 16;

// The kernel locks the pages of a process in regions of this size (the pages of one table), so
// ranks that copy in the same region by the kernel wait for each other.
inline constexpr std::uint32_t kPageRegion = 2U << 20U;

// The shapes of the data at the two ends of a `shaped` job, relative to the addresses of its views.
// Chunks are ranges of the packed stream. Shapes lie beside the job in JobSlots, and are written
// and read at the same times as the job's CopySpec.
struct alignas(kCacheLine) Shapes {
  layout::Compact to;
  layout::Compact from;
};

// Claimed bytes: `count` neighbouring chunks of a job.
struct Chunk {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint32_t count = 1;
};

// Invariants of a job. work_ is its CopySpec, chunks_ the number of its chunks, done_ the number of
// those that are finished. A slot is *closed* before its first open() and between two jobs.
//   I1  Chunks handed out <= chunks. A claim takes as many chunks off the ticket as it hands out,
//       and never more than the ticket has.
//   I2  work_ is written only while the slot is closed: before open(), or after done_ == chunks_,
//       or after the owner has found that only dead processes hold unfinished chunks
//       (mpi/job/thief_watch.hpp).
//   I3  A thief reads work_ only between a successful claim and its finish(). The owner waits for a
//       finish() per chunk before it writes again (I2), so the job needs no count of its readers
//       and no number of the use of its slot. A late thief changes the ticket only if it has chunks
//       left, maybe those of the slot's *next* job: then it has properly claimed chunks of that job.
class alignas(kCacheLine) Job {
 public:
  // Called by the owner while the slot is closed: opens a job of ceil(bytes / chunk_bytes) chunks,
  // which other ranks may claim from now on. `first`: receives the owner's first claim, which needs
  // no atomic operation here.
  void open(const CopySpec& work, Chunk* first = nullptr);

  // Returns the number of chunks that nobody has claimed. It writes nothing, so idle ranks do not
  // take the cache line away from the owner. The order is relaxed: a stale answer costs a wasted
  // claim or a missed chunk, never correctness.
  [[nodiscard]] std::uint32_t left() const {
    emulated::touch(&ticket_, emulated::Access::read);
    return left_of(ticket_.load(std::memory_order_relaxed));
  }
  // True if a chunk may be left.
  [[nodiscard]] bool has_work() const { return left() > 0; }
  // Returns the number of ranks that the chunks left are enough for, a full claim each.
  [[nodiscard]] std::uint32_t wanted_ranks() const {
    return work_.guided ? (left() + kMostChunks - 1) / kMostChunks : left();
  }

  // Tries to claim a chunk, in a guided job several; called by any rank. If the result is true,
  // `chunk` is claimed, and the caller must call finish() once, with its count.
  [[nodiscard]] bool claim(Chunk& chunk, ClaimSide side = ClaimSide::owner) {
    // The prefetch gets the ticket's line for writing. If the line were read first, it would move
    // twice between cores.
    emulated::touch(&ticket_, emulated::Access::write);
    prefetch_to_write(&ticket_);
    return take(chunk, side);
  }

  // Called by the thief that has claimed `chunks` chunks, when their bytes are in place or the copy
  // has failed. The thief must not access work() afterwards. True if other chunks may be left. The
  // number of chunks left (ticket_) is on the cache line that this call writes, so the answer costs
  // nothing.
  bool finish(bool succeeded, std::uint32_t chunks = 1);

  // Called by the owner. True once every chunk is finished; the bytes copied by all thieves are
  // then visible to the owner.
  [[nodiscard]] bool finished() const {
    emulated::touch(&done_, emulated::Access::read);
    // acquire: pairs with the release in finish() of every thief. All of them add to done_, so the
    // last value passes on every release (a release sequence).
    return done_.load(std::memory_order_acquire) == chunks_;
  }
  // True if the copy of a chunk has failed, and so the whole job. Called by the owner, after
  // finished() has returned true.
  [[nodiscard]] bool failed() const { return failures_.load(std::memory_order_relaxed) != 0; }

  // Returns the copy to carry out. Called by a thief between a successful claim and its finish()
  // only (I3 of the invariants above).
  [[nodiscard]] const CopySpec& work() const { return work_; }

 private:
  friend struct JobTestAccess;  // calls take()

  // Tries to claim. Safe at any time, even after the slot was closed and opened again for another
  // job (I3).
  bool take(Chunk& chunk, ClaimSide side);
  // Returns the chunks that a claim gets; `ticket` is the ticket's value before the claim.
  [[nodiscard]] Chunk chunk_of(std::uint64_t ticket, ClaimSide side) const;
  // Returns the index of the first of the `count` chunks that a claim has got.
  [[nodiscard]] std::uint64_t index_of(std::uint64_t ticket, ClaimSide side,
                                       std::uint32_t count) const;
  // Returns the index of the chunk that is at `position` in the order of claims from the low end.
  // If work_.region_chunks is not 0, successive positions are in different page regions.
  [[nodiscard]] std::uint64_t chunk_at(std::uint64_t position) const;

  // The ticket of a job. Its high half is the number of chunks left. Bit 0 is set in a guided job,
  // in which a claim takes several chunks while many are left (kGuidedShares). The other bits of
  // the low half count the chunks claimed with ClaimSide::other. A single word thus tells the
  // chunks claimed from either end and the size of a claim, and a single atomic operation claims.
  static constexpr std::uint64_t kOne = 1ULL << 32U;
  static constexpr std::uint64_t kOther = 2;
  static std::uint32_t left_of(std::uint64_t ticket) {
    return static_cast<std::uint32_t>(ticket / kOne);
  }
  // Returns the number of chunks that a claim takes.
  static std::uint32_t count_of(std::uint64_t ticket) {
    if (ticket % 2 == 0) return 1;
    return std::clamp(left_of(ticket) / kGuidedShares, 1U, kMostChunks);
  }

  // First cache line: the owner writes it while the job slot is closed (no job is open in it).
  CopySpec work_{};
  std::uint32_t chunks_ = 0;
  // Second cache line: every thief writes it.
  alignas(kCacheLine) std::atomic<std::uint64_t> ticket_{0};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<std::uint32_t> failures_{0};
};

static_assert(std::is_standard_layout_v<Job>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(Job) == 2 * kCacheLine);

}  // namespace mh::steal
