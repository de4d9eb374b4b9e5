// SPDX-License-Identifier: BSD-3-Clause
// One rank's handle on its node: header, rank records and the areas of the upper rooms in the
// segment.
//
// Layout of the segment: Header, then for every rank a RankRecord followed by its *area* (bytes
// that the upper rooms lay out; all zero until its rank writes them). Does not own the mapping;
// private to its process.
//
//   root:    Node::initialise(...) on the new segment          all others: attach the segment
//   all:     node = Node::join(...)       own record and affinity are written
//   all:     (construct own area), then a barrier of the caller
//   all:     node.settle()                everybody's record is read; the node is complete
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "node/rank.hpp"
#include "node/topology.hpp"

namespace mh::node {

class Node {
 public:
  // Bytes of a segment for `ranks` ranks with `area_bytes` bytes of area each (rounded up to
  // lines).
  static std::size_t bytes_needed(std::uint32_t ranks, std::size_t area_bytes);

  // Root, once, before anyone joins. `memory` is zero and has bytes_needed() bytes; ranks <=
  // kMaxRanks.
  static Status initialise(std::span<std::byte> memory, std::uint32_t ranks, std::size_t area_bytes,
                           const Topology& topology);

  // Every rank, `me` being its number on the node. mismatch when the segment is not of this build
  // or shape.
  static Result<Node> join(std::span<std::byte> memory, std::uint32_t me, std::uint32_t ranks,
                           std::uint32_t world_rank);

  // Every rank, after all have joined (the caller's barrier publishes the records).
  void settle();

  [[nodiscard]] std::uint32_t me() const { return me_; }
  [[nodiscard]] std::uint32_t ranks() const { return header().ranks; }
  [[nodiscard]] Header& header() const { return *header_; }
  [[nodiscard]] WorkBoard& board() const { return header_->board; }
  [[nodiscard]] RankRecord& record(std::uint32_t rank) const {
    return *reinterpret_cast<RankRecord*>(first_record_ + rank * header_->stride);
  }
  [[nodiscard]] RankRecord& mine() const { return record(me_); }
  // Starts on a cache line.
  [[nodiscard]] std::byte* area(std::uint32_t rank) const {
    return first_record_ + rank * header_->stride + sizeof(RankRecord);
  }

  // Whether that process still runs (a zombie does not). True where it cannot be told: its number
  // is one of another namespace. A system call and, if it seems to live, a look into /proc: for
  // bounded waits, not for every turn of a loop.
  [[nodiscard]] bool alive(std::uint32_t rank) const;

  // After settle():
  // Whether so many ranks of that NUMA node are not idle in MPI (n_active of CAB-MPI, III-C3).
  [[nodiscard]] bool at_least_active(std::uint16_t numa, std::uint64_t limit) const;
  // Whether another rank waits in MPI with nothing in hand, just now.
  [[nodiscard]] bool somebody_idle() const { return somebody_else_idle(me_); }
  // ... but for that rank.
  [[nodiscard]] bool somebody_else_idle(std::uint32_t but) const;
  // Whether the ranks name processes and threads by the same numbers.
  [[nodiscard]] bool one_pid_namespace() const { return one_pid_namespace_; }
  // CPUs that the calling thread may run on, and no other rank.
  [[nodiscard]] CpuSet own_cpus() const;
  // CPUs that any rank of the node may use.
  [[nodiscard]] std::uint32_t usable_cpus() const { return usable_cpus_; }

 private:
  Node(std::span<std::byte> memory, std::uint32_t me);
  void write_own_record(std::uint32_t world_rank);

  Header* header_;
  std::byte* first_record_;
  std::uint32_t me_;
  std::uint32_t usable_cpus_ = 0;
  bool one_pid_namespace_ = false;
  std::vector<std::vector<std::uint32_t>> by_numa_;
};

// Field 22 of /proc/PID/stat, 0 when there is no such process or it is a zombie.
std::uint64_t start_time_of(pid_t pid);

}  // namespace mh::node
