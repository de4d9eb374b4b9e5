// SPDX-License-Identifier: BSD-3-Clause
// A node of several ranks, for tests of stealing: a segment in which each rank has an area with job
// slots and counters.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>
#include <vector>

#include "memory/reach.hpp"
#include "node/node.hpp"
#include "observe/counters.hpp"
#include "steal/thief.hpp"
#include "support/shared.hpp"

namespace mh::test {

inline constexpr steal::AreaOffsets kOffsets{
    0, sizeof(steal::JobSlots), sizeof(steal::JobSlots) + sizeof(observe::RankCounters)};

constexpr std::size_t area_bytes(std::uint32_t ranks) {
  return kOffsets.helped + observe::helped_row_bytes(ranks);
}

struct Area {
  explicit Area(std::byte* area) : bytes(area) {}
  [[nodiscard]] steal::JobSlots& slots() const {
    return *reinterpret_cast<steal::JobSlots*>(bytes + kOffsets.slots);
  }
  [[nodiscard]] observe::RankCounters& counters() const {
    return *reinterpret_cast<observe::RankCounters*>(bytes + kOffsets.counters);
  }
  [[nodiscard]] observe::Counter& helped(std::uint32_t rank) const {
    return reinterpret_cast<observe::Counter*>(bytes + kOffsets.helped)[rank];
  }
  std::byte* bytes;
};

inline void construct_area(std::byte* area) {
  new (area + kOffsets.slots) steal::JobSlots{};
  new (area + kOffsets.counters) observe::RankCounters{};
}

// Ranks that are all played by this process. Consecutive ranks are on the same of `numa_nodes` NUMA
// nodes. Forked children inherit the ranks.
class Ranks {
 public:
  explicit Ranks(std::uint32_t ranks, std::uint16_t numa_nodes = 1)
      : memory_(node::Node::bytes_needed(ranks, area_bytes(ranks))) {
    node::Topology topology;
    topology.numa_nodes = numa_nodes;
    EXPECT_TRUE(node::Node::initialise(memory_.span(), ranks, area_bytes(ranks), topology).ok());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      nodes_.push_back(*node::Node::join(memory_.span(), rank, ranks, rank));
      construct_area(nodes_[rank].area(rank));
      nodes_[rank].mine().numa = static_cast<std::uint16_t>(rank * numa_nodes / ranks);
    }
    for (node::Node& node : nodes_) node.settle();
  }
  [[nodiscard]] node::Node& node(std::uint32_t rank) { return nodes_[rank]; }
  [[nodiscard]] Area area(std::uint32_t rank) { return Area(nodes_[0].area(rank)); }
  [[nodiscard]] steal::SlotKeeper keeper(std::uint32_t rank) {
    return steal::SlotKeeper(area(rank).slots(), nodes_[rank].boards(), rank);
  }
  [[nodiscard]] steal::Thief thief(std::uint32_t rank, Strategy strategy,
                                   std::uint64_t saturate_ranks = 4) {
    return steal::Thief(nodes_[rank], kOffsets, strategy, saturate_ranks, reaches_.emplace_back());
  }

 private:
  std::deque<memory::Reach> reaches_;  // one for each thief; a forked child may make its own
  SharedMemory memory_;
  std::vector<node::Node> nodes_;
};

}  // namespace mh::test
