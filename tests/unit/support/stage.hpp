// SPDX-License-Identifier: BSD-3-Clause
// A node whose ranks can lend their cores, for tests of lenders and owners.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <vector>

#include "lend/channel.hpp"
#include "node/node.hpp"
#include "support/shared.hpp"

namespace mh::test {

// The memory that the processes of a test share besides the node segment.
struct Board {
  Barrier barrier;
  std::atomic<std::uint32_t> flag{0};
  std::atomic<std::uint32_t> over{0};
  std::atomic<std::int32_t> lender_cpu{-1};
  std::atomic<std::uint32_t> lent{0};
  std::atomic<std::uint32_t> refused{0};
};

// A node in whose segment each rank has an area with the channels of its helpers
// (lend/channel.hpp). This process has joined it as every rank; enter() says which ranks a process
// plays.
class Stage {
 public:
  explicit Stage(std::uint32_t ranks)
      : memory_(node::Node::bytes_needed(ranks, sizeof(lend::Lendings))),
        shared_(sizeof(Board)),
        board(new (shared_.span().data()) Board{}) {
    const node::Topology topology;
    EXPECT_TRUE(
        node::Node::initialise(memory_.span(), ranks, sizeof(lend::Lendings), topology).ok());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      nodes_.push_back(*node::Node::join(memory_.span(), rank, ranks, rank));
      new (nodes_[rank].area(rank)) lend::Lendings{};
    }
    for (node::Node& node : nodes_) node.settle();
  }
  [[nodiscard]] node::Node& node(std::uint32_t rank) { return nodes_[rank]; }
  [[nodiscard]] lend::Lendings& lendings(std::uint32_t rank) {
    return *reinterpret_cast<lend::Lendings*>(nodes_[0].area(rank));
  }
  // Makes this process play `rank`: its pid goes into the rank's record.
  void enter(std::uint32_t rank) {
    nodes_[rank].mine().pid = ::getpid();
    nodes_[rank].mine().start_time = node::start_time_of(::getpid()).value_or(0);
  }

 private:
  SharedMemory memory_;
  SharedMemory shared_;
  std::vector<node::Node> nodes_;

 public:
  Board* board;
};

}  // namespace mh::test
