// SPDX-License-Identifier: BSD-3-Clause
// A thief: claims a chunk of a job and copies it, for its own rank or for another rank of the node.
//
// A *victim* is a rank whose chunks a thief claims. A call of help() tries a victim on this rank's
// NUMA node and then, if the strategy allows, a victim on another NUMA node (CAB-MPI, III-C). The
// call copies at most one chunk, so that the caller can test its own message after every chunk.
// Threads: a single thread at a time. No function takes a lock, allocates after construction, or
// calls MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "base/settings.hpp"
#include "memory/reach.hpp"
#include "node/node.hpp"
#include "observe/counters.hpp"
#include "steal/slots.hpp"
#include "steal/victims.hpp"

namespace mh::steal {

// Offsets, in bytes, of a rank's structures inside the rank's area of the node segment.
struct AreaOffsets {
  std::size_t slots;     // JobSlots
  std::size_t counters;  // observe::RankCounters
  std::size_t helped;    // observe::HelpedRow, a cell per rank of the node
};

class Thief {
 public:
  // Makes the thief of a thread. `reach` copies, `strategy` (MH_STRATEGY) tells which ranks may be
  // victims. `saturate_ranks`: how many active ranks saturate the memory of a NUMA node.
  // Precondition: node.settle() has returned. The node and `reach` must outlive the thief.
  Thief(const node::Node& node, const AreaOffsets& offsets, Strategy strategy,
        std::uint64_t saturate_ranks, const memory::Reach& reach);

  // Claims a chunk of a job of rank `owner`, which may be this rank, and copies it. Returns false
  // if no chunk was left, or if so many threads of this rank hold chunks that no further
  // ClaimIntent (node/rank.hpp) is possible.
  bool run_one_chunk(Job& job, std::uint32_t owner);
  // Claims and copies a chunk like run_one_chunk(), but does not announce the claim to other ranks
  // (ClaimIntent). For the thread that owns the job and waits for it: no rank has to find out
  // whether this thread lives. Returns false if no chunk was left.
  bool claim_and_copy(Job& job, std::uint32_t owner);
  // Copies a chunk that the caller has claimed. The caller must not access the job afterwards.
  void copy_claimed(Job& job, std::uint32_t owner, const Chunk& chunk);

  // Copies one chunk for another rank, a victim that the strategy chooses. Returns false if no
  // chunk was found. If no rank has an open job, the cost is a few loads of the work board (the
  // ranks with open jobs).
  bool help();

  // Copies one chunk of any open job of rank `victim`. Returns false if no chunk was found.
  bool help_rank(std::uint32_t victim);

  // Copies the bytes of `chunk` of work with gaps, which need not be the work of a job.
  Status copy_shaped(const CopySpec& work, const Shapes& shapes, const Chunk& chunk);

  // True if MH_STRATEGY lets this rank help `victim`. A victim on this rank's NUMA node may always
  // be helped. For a victim on another NUMA node, `localized` says no, `mixed` says yes, and
  // `throughput` says yes while fewer ranks of that NUMA node are active than saturate its memory.
  [[nodiscard]] bool may_help(std::uint32_t victim) const;
  // True if MH_STRATEGY lets this rank copy chunks of a message that it has sent to `receiver`.
  // Only `localized` forbids that, for a receiver on another NUMA node. The strategy `throughput`
  // permits it, because the data cross between the NUMA nodes whichever rank copies them.
  [[nodiscard]] bool may_copy_for(std::uint32_t receiver) const {
    return strategy_ != Strategy::localized || node_->is_near(receiver);
  }

  // True after the kernel refused a copy between two other processes: help() copies nothing then.
  [[nodiscard]] bool retired() const { return retired_; }

 private:
  [[nodiscard]] JobSlots& slots_of(std::uint32_t rank) const;
  [[nodiscard]] const Shapes& shapes_of(const Job& job, std::uint32_t owner) const;
  // Returns the cache level that is expected to hold the whole message of a job.
  [[nodiscard]] layout::CacheLevel cache_level_of(const CopySpec& work) const;
  [[nodiscard]] bool other_numa_node_allowed(std::uint32_t victim) const;
  // Returns this thief's scratch buffer, or the caller's small buffer `little` if there was no
  // memory for a scratch buffer.
  [[nodiscard]] std::span<std::byte> scratch(std::span<std::byte> little) const;
  // False if the job has no chunk left. Only a thread that saw no chunk left in this job before
  // reads the count here. Other threads claim without that, so that the line of the job's ticket
  // moves to their core once, and not twice.
  [[nodiscard]] bool is_worth_a_claim(const Job& job) const {
    return exhausted_ != &job || job.has_work();
  }
  void count(const CopySpec& work, const Chunk& chunk, std::uint32_t owner,
             std::uint64_t spent_ticks);
  void trace_help(const Chunk& chunk, std::uint32_t owner, std::uint64_t spent_ticks) const;

  const node::Node* node_;
  AreaOffsets offsets_;
  Strategy strategy_;
  std::uint64_t saturate_ranks_;
  observe::RankCounters* counters_;
  observe::HelpedRow helped_;
  CopyVictimPicker choice_;
  const memory::Reach* reach_;
  std::unique_ptr<std::byte[]> scratch_;
  layout::LastLayout to_;           // layouts of the last scattered chunk,
  layout::LastLayout from_;         // at its two ends
  const Job* exhausted_ = nullptr;  // the last job, if it had no chunk left
  bool retired_ = false;
};

}  // namespace mh::steal
