// SPDX-License-Identifier: BSD-3-Clause
// A rank's handle on its node: the header, the rank records and, for each rank, an area for the
// rooms that use this one. A Node is private to its process, and does not own the mapping.
//
// Layout of the segment: SegmentHeader, then for every rank a RankRecord followed by its *area*:
// bytes that the rooms that use this one lay out, all zero until the rank writes them.
//
//   root:    Node::initialise(...) on the new segment          other ranks: attach the segment
//   all:     node = Node::join(...)       writes the own record and affinity
//   all:     (construct own area), then a barrier of the caller
//   all:     node.settle()                reads the records of all ranks; the node is complete
//
// Threads: after settle() any thread may use the node.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.hpp"
#include "node/rank.hpp"
#include "node/topology.hpp"

namespace mh::node {

class Node {
 public:
  // Returns the bytes of a segment for `ranks` ranks with `area_bytes` bytes of area each. Areas
  // are rounded up to cache lines.
  static std::size_t bytes_needed(std::uint32_t ranks, std::size_t area_bytes);

  // Writes the header into a new segment. Called by the root (the first rank of the node), once,
  // before any rank joins. `memory` is zero and has bytes_needed() bytes; ranks <= kMaxRanks.
  static Status initialise(std::span<std::byte> memory, std::uint32_t ranks, std::size_t area_bytes,
                           const Topology& topology);

  // Writes the calling rank's record into the segment; `me` is the rank's number on the node.
  // Called by every rank. mismatch: the segment is of another build, or has other numbers of ranks
  // or bytes.
  static Result<Node> join(std::span<std::byte> memory, std::uint32_t me, std::uint32_t ranks,
                           std::uint32_t world_rank);

  // Reads the records of all ranks. Called by every rank, after a barrier that follows join() on
  // every rank and publishes the records.
  void settle();

  [[nodiscard]] std::uint32_t me() const { return me_; }
  [[nodiscard]] std::uint32_t ranks() const { return header().ranks; }
  [[nodiscard]] SegmentHeader& header() const { return *header_; }
  // The work boards of all ranks of the node, and the one at which this rank looks.
  [[nodiscard]] std::span<WorkBoard> boards() const {
    return {header_->boards, (ranks() + kBoardRanks - 1) / kBoardRanks};
  }
  [[nodiscard]] const WorkBoard& board() const { return header_->boards[me() / kBoardRanks]; }
  [[nodiscard]] RankRecord& record(std::uint32_t rank) const {
    return *reinterpret_cast<RankRecord*>(first_record_ + rank * header_->stride);
  }
  [[nodiscard]] RankRecord& mine() const { return record(me_); }
  // Returns the area of a rank: the bytes behind its record, which the rooms that use this one lay
  // out. The area starts at a cache line.
  [[nodiscard]] std::byte* area(std::uint32_t rank) const {
    return first_record_ + rank * header_->stride + sizeof(RankRecord);
  }

  // True while the rank's process runs; a zombie does not run. True also if the ranks' PID
  // namespaces differ, because the answer is unknown. Costs a system call and a read of /proc: for
  // bounded waits, not for every turn of a loop.
  [[nodiscard]] bool is_alive(std::uint32_t rank) const;

  // Publishes the NUMA node of the core on which the calling thread runs as the NUMA node of this
  // rank, for thieves that choose victims. Costs a branch on a machine of one NUMA node, and a read
  // of the CPU's number otherwise.
  void follow_core();
  [[nodiscard]] std::uint16_t numa_of(std::uint32_t rank) const {
    return record(rank).numa.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_near(std::uint32_t rank) const { return numa_of(rank) == numa_of(me_); }
  // True if at least `limit` ranks of the NUMA node are active, i.e. not idle in MPI (n_active of
  // CAB-MPI, III-C3).
  [[nodiscard]] bool has_active_ranks(std::uint16_t numa, std::uint64_t limit) const;

  // True if a rank other than this one is idle in MPI at the moment of the call;
  // has_idle_peer_except() leaves out the rank `but` as well. These functions and those below may
  // be called only after settle().
  [[nodiscard]] bool has_idle_peer() const { return has_idle_peer_except(me_); }
  [[nodiscard]] bool has_idle_peer_except(std::uint32_t but) const;
  // The number of other ranks that are idle in MPI at the moment of the call.
  [[nodiscard]] std::uint32_t idle_peers() const;
  // True if all ranks are in the same PID namespace, so that process and thread numbers are
  // comparable.
  [[nodiscard]] bool has_one_pid_namespace() const { return has_one_pid_namespace_; }
  // Returns the CPUs that the calling thread may use and no other rank may.
  [[nodiscard]] CpuSet own_cpus() const;
  // Returns how many CPUs at least one rank of the node may use.
  [[nodiscard]] std::uint32_t usable_cpus() const { return usable_cpus_; }

 private:
  Node(std::span<std::byte> memory, std::uint32_t me);
  void write_own_record(std::uint32_t world_rank);
  [[nodiscard]] std::uint16_t numa_of_cpu(std::int32_t cpu) const;

  SegmentHeader* header_;
  std::byte* first_record_;
  std::uint32_t me_;
  std::uint32_t usable_cpus_ = 0;
  bool has_one_pid_namespace_ = false;
};

// Returns field 22 of /proc/PID/stat, the time at which the process started; 0 if there is no such
// process, or if it is a zombie. Nothing if the file cannot be read now, for instance because this
// process has no file descriptor left.
std::optional<std::uint64_t> start_time_of(pid_t pid);

}  // namespace mh::node
