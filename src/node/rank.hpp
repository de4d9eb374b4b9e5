// SPDX-License-Identifier: BSD-3-Clause
// The fixed part of the node segment: facts that the ranks of a node publish about themselves.
//
// The structures are grouped by writer. The node's first rank writes the header before any rank
// attaches, except the work boards, the affinity and the names of locks. Each rank writes its own
// record. An area, whose contents the rooms that use this one define, follows each record
// (node.hpp).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"
#include "base/emulated.hpp"
#include "node/named_locks.hpp"

namespace mh::node {

inline constexpr std::uint32_t kMaxRanks = 1024;  // of a node; a larger node runs unhelped
// The number of CPUs in the map from CPUs to NUMA nodes. CPUs with higher numbers count as NUMA
// node 0.
inline constexpr std::uint32_t kMaxCpus = 2048;
inline constexpr std::uint64_t kSegmentMagic = 0x6d616e7968616e64;  // "manyhand"
inline constexpr std::uint32_t kLayout = 11;                        // see SegmentHeader::layout

struct alignas(kCacheLine) RankRecord {
  // The members up to `cpu` are written by the rank before the barrier that follows Node::join(),
  // and constant afterwards.
  pid_t pid = 0;
  std::uint32_t world_rank = 0;
  // The time at which the process started (field 22 of /proc/PID/stat). Together with `pid` it
  // identifies the process, even if the kernel reuses the number. 0: not known, because /proc shows
  // another PID namespace.
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;  // inode of the namespace that pid belongs to; 0: not known
  std::int32_t cpu = -1;            // the CPU this rank is bound to, or ran on at start
  // The NUMA node of `cpu` at the start, and later of the CPU on which the rank last began to wait
  // and help (Node::follow_core). relaxed: a stale value only shifts the choice of victims.
  std::atomic<std::uint16_t> numa{0};

  // 1 while the rank waits inside MPI and does nothing for other ranks, else 0. Written by the
  // rank, read by thieves to count active ranks (CAB-MPI, III-C3). relaxed: a stale value only
  // shifts a heuristic.
  alignas(kCacheLine) std::atomic<std::uint32_t> idle{0};
  // The time, in ticks of the clock, at which the present wait of a thread of the rank began. 0: no
  // wait, or a wait that is still so short that the thread spins. Written by the rank, read by `mh
  // top`. relaxed: the value publishes nothing else.
  std::atomic<std::uint64_t> waiting_since{0};
  // A word for each thread of this rank that may hold a chunk of a job (ClaimIntent): the rank on
  // the node that owns the job, plus one, since 0 means no chunk. An owner that waits long for a
  // chunk uses these words to tell a slow thief from a dead thief.
  static constexpr std::uint32_t kClaimers = 16;
  alignas(kCacheLine) std::atomic<std::uint32_t> claiming[kClaimers] = {};
};

static_assert(std::is_standard_layout_v<RankRecord>);
static_assert(sizeof(RankRecord) == 3 * kCacheLine);

// Announces, in its rank's record, that the calling thread may claim a chunk of a job of rank
// `owner`. The destructor withdraws the announcement. A thread makes the object before the claim
// and destroys it after the copy, so every claimed chunk is announced. Limit: kClaimers such
// objects at a time for a rank; a further object is false, and its thread must claim nothing.
class ClaimIntent {
 public:
  ClaimIntent(RankRecord& mine, std::uint32_t owner) {
    for (std::atomic<std::uint32_t>& word : mine.claiming) {
      std::uint32_t nobody = 0;
      if (word.load(std::memory_order_relaxed) != 0) continue;
      if (!word.compare_exchange_strong(nobody, owner + 1, std::memory_order_relaxed)) continue;
      // release: pairs with the acquire fence of may_hold_chunk_of(). An owner that has seen the
      // claim, and then calls that function, sees this announcement as well.
      std::atomic_thread_fence(std::memory_order_release);
      word_ = &word;
      return;
    }
  }
  // release: pairs with the acquire load of may_hold_chunk_of(): a rank that sees the word as 0
  // sees the copied bytes, too.
  ~ClaimIntent() {
    if (word_ != nullptr) word_->store(0, std::memory_order_release);
  }
  ClaimIntent(const ClaimIntent&) = delete;
  ClaimIntent& operator=(const ClaimIntent&) = delete;

  explicit operator bool() const { return word_ != nullptr; }

 private:
  std::atomic<std::uint32_t>* word_ = nullptr;
};

// True if a thread of the rank whose record is `by` may hold a chunk of a job of rank `owner`. If
// the caller has seen a claim in the job, the result is true until the copy of that chunk is done.
inline bool may_hold_chunk_of(const RankRecord& by, std::uint32_t owner) {
  std::atomic_thread_fence(std::memory_order_acquire);
  for (const std::atomic<std::uint32_t>& word : by.claiming) {
    if (word.load(std::memory_order_acquire) == owner + 1) return true;
  }
  return false;
}

// Ranks that have an open job, one bit for each rank, so that an idle rank reads a few cache lines
// and not the job slots of every rank. Only a rank's own threads set and clear its bit.
// relaxed: a hint, since the job itself decides whether a chunk can be claimed.
struct alignas(kCacheLine) WorkBoard {
  std::atomic<std::uint64_t> bits[kMaxRanks / 64];

  void post(std::uint32_t rank) {
    emulated::touch(&bits[rank / 64], emulated::Access::write);
    bits[rank / 64].fetch_or(1ULL << (rank % 64), std::memory_order_relaxed);
  }
  void clear(std::uint32_t rank) {
    emulated::touch(&bits[rank / 64], emulated::Access::write);
    bits[rank / 64].fetch_and(~(1ULL << (rank % 64)), std::memory_order_relaxed);
  }
  [[nodiscard]] bool posted(std::uint32_t rank) const {
    return ((bits[rank / 64].load(std::memory_order_relaxed) >> (rank % 64)) & 1U) != 0;
  }
};

// The number of neighbouring ranks that look at the same work board. A changed line goes to one
// core after the other, so each further rank that looks comes later.
inline constexpr std::uint32_t kBoardRanks = 8;

struct alignas(kCacheLine) SegmentHeader {
  std::uint64_t magic;        // kSegmentMagic
  std::uint32_t layout;       // changes with any structure in the segment; all ranks must agree
  std::uint32_t ranks;        // of this node
  std::uint64_t stride;       // bytes from one rank's record to the next
  std::uint64_t job_key[2];   // random, per job and node: every RTS header carries it
  std::uint64_t cache_bytes;  // of the last cache before memory; 0: not known
  std::uint16_t numa_nodes;
  std::uint16_t numa_of_cpu[kMaxCpus];
  // A work board for each kBoardRanks ranks, which look at no other board. The owner of a job posts
  // on as many boards as the job needs helpers (steal/slots.hpp).
  WorkBoard boards[kMaxRanks / kBoardRanks];
  // Sets of CPUs: `affinity` has those that some rank may run on, `contested` those that several
  // ranks may run on. Each rank adds its CPUs while it joins. relaxed: the barrier after joining
  // publishes the sets.
  alignas(kCacheLine) std::atomic<std::uint64_t> affinity[kMaxCpus / 64];
  std::atomic<std::uint64_t> contested[kMaxCpus / 64];
  NamedLocks locks;
};

static_assert(std::is_standard_layout_v<SegmentHeader>);

}  // namespace mh::node
