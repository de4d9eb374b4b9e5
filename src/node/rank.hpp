// SPDX-License-Identifier: BSD-3-Clause
// What the ranks of a node know about each other: the fixed part of the node segment.
//
// Grouped by writer. The header is written by the node's first rank before anyone attaches, except
// the work board and the affinity; a rank record is written by its rank alone. Upper rooms append
// their own areas behind each record (node::Node gives every rank one stride of bytes); this file
// knows none of them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"

namespace mh::node {

inline constexpr std::uint32_t kMaxRanks = 1024;  // ranks of one node; more run unhelped
inline constexpr std::uint32_t kMaxCpus = 2048;   // CPUs the NUMA map covers; beyond: NUMA node 0
inline constexpr std::uint64_t kSegmentMagic = 0x6d616e7968616e64;  // "manyhand"
inline constexpr std::uint32_t kLayout = 6;

struct alignas(kCacheLine) RankRecord {
  // Written by the rank before the attach barrier, read-only after.
  pid_t pid = 0;
  std::uint32_t world_rank = 0;
  // Field 22 of /proc/PID/stat: with pid, names one process for ever. 0 where /proc is of other
  // processes.
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;  // in which pid is a number; 0: not known
  std::int32_t cpu = -1;            // the one CPU this rank is bound to, or where it ran at start
  std::uint16_t numa = 0;           // NUMA node of that CPU
  bool bound = false;               // bound to CPUs of one NUMA node

  // Written by the rank while it runs, read by thieves.
  // 1 while the rank waits inside MPI and has no unit of work in hand (CAB-MPI, III-C3: the flag
  // from which others count active ranks). Relaxed: a stale value only shifts a heuristic.
  alignas(kCacheLine) std::atomic<std::uint32_t> idle{0};
  // One word for each thread of this rank that may have a chunk in hand (Visit): the node-local
  // rank that owns the chunk, plus one; 0 for none. By them an owner that has waited long for a
  // chunk tells a slow thief from a dead one.
  static constexpr std::uint32_t kVisits = 16;
  alignas(kCacheLine) std::atomic<std::uint32_t> visiting[kVisits] = {};
};

static_assert(std::is_standard_layout_v<RankRecord>);
static_assert(sizeof(RankRecord) == 3 * kCacheLine);

// Announces that the calling thread may take a chunk of a job of `owner`, and that it has none any
// more. Begins before the claim, so that no owner ever waits for a chunk of which no rank says that
// it has it. Limit: kVisits at a time for a rank; a further one is false, and must claim nothing.
class Visit {
 public:
  Visit(RankRecord& mine, std::uint32_t owner) {
    for (std::atomic<std::uint32_t>& word : mine.visiting) {
      std::uint32_t nobody = 0;
      if (word.load(std::memory_order_relaxed) != 0) continue;
      if (!word.compare_exchange_strong(nobody, owner + 1, std::memory_order_relaxed)) continue;
      // release: pairs with the acquire of is_visited(), whose caller has seen the claim.
      std::atomic_thread_fence(std::memory_order_release);
      word_ = &word;
      return;
    }
  }
  // release: pairs with the acquire of is_visited(); what was done meanwhile is over.
  ~Visit() {
    if (word_ != nullptr) word_->store(0, std::memory_order_release);
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  explicit operator bool() const { return word_ != nullptr; }

 private:
  std::atomic<std::uint32_t>* word_ = nullptr;
};

// Whether a thread of that rank may have a chunk of a job of `owner` in hand, among those whose
// claims the caller has seen.
inline bool is_visited(const RankRecord& by, std::uint32_t owner) {
  std::atomic_thread_fence(std::memory_order_acquire);
  for (const std::atomic<std::uint32_t>& word : by.visiting) {
    if (word.load(std::memory_order_acquire) == owner + 1) return true;
  }
  return false;
}

// Which ranks have an open job: one bit a rank, so that an idle rank looks at one or two lines, not
// at every rank's slots. Set and cleared by the job's owner only (fetch_or/fetch_and, relaxed: a
// hint; the ticket of the job decides).
struct alignas(kCacheLine) WorkBoard {
  std::atomic<std::uint64_t> bits[kMaxRanks / 64];

  void post(std::uint32_t rank) {
    bits[rank / 64].fetch_or(1ULL << (rank % 64), std::memory_order_relaxed);
  }
  void clear(std::uint32_t rank) {
    bits[rank / 64].fetch_and(~(1ULL << (rank % 64)), std::memory_order_relaxed);
  }
  [[nodiscard]] bool posted(std::uint32_t rank) const {
    return ((bits[rank / 64].load(std::memory_order_relaxed) >> (rank % 64)) & 1U) != 0;
  }
};

struct alignas(kCacheLine) Header {
  std::uint64_t magic;        // kSegmentMagic
  std::uint32_t layout;       // changes with any structure in the segment; sides must agree
  std::uint32_t ranks;        // of this node
  std::uint64_t stride;       // bytes from one rank's record to the next
  std::uint64_t job_key[2];   // random, one per job and node: opens every descriptor
  std::uint64_t cache_bytes;  // of the last cache before memory, 0 when not known
  std::uint16_t numa_nodes;
  std::uint16_t numa_of_cpu[kMaxCpus];
  WorkBoard board;
  // CPUs that some rank may run on. Every rank adds its own while it joins (fetch_or, relaxed: the
  // barrier after joining publishes the union). `contested`: CPUs that several may run on.
  alignas(kCacheLine) std::atomic<std::uint64_t> affinity[kMaxCpus / 64];
  std::atomic<std::uint64_t> contested[kMaxCpus / 64];
};

static_assert(std::is_standard_layout_v<Header>);

}  // namespace mh::node
