// SPDX-License-Identifier: BSD-3-Clause
// Answers the requests of other nodes' thieves, from the deque that they name or, if there is
// nothing in it, from another one of the node. Tasks are sent from where they lie.
//
// Threads: one; the rank's worker between its tasks, or its server.
#pragma once

#include <cstdint>
#include <vector>

#include "manyhands/tasks/network.hpp"
#include "tasks/node_memory.hpp"

namespace mh::tasks {

// As it travels.
struct StealRequest {
  std::uint32_t thief = 0;
  std::uint32_t victim = 0;
  std::uint32_t count = 0;   // at most so many tasks
  std::uint32_t number = 0;  // of this thief's requests, from 1 on
};

class Answerer {
 public:
  // Both outlive this.
  Answerer(Network& network, NodeMemory& memory, std::uint32_t most_per_steal)
      : network_(network), memory_(memory), most_(most_per_steal) {}

  // One look at what has come and at what has been sent.
  Status turn();
  // Thieves have all that they were sent.
  [[nodiscard]] bool at_rest() const { return sending_.empty(); }

 private:
  struct Sending {
    Network::Ticket ticket;
    std::uint32_t victim;
    Reservation taken;
  };
  struct Found {
    std::uint32_t victim;
    Reservation taken;
  };

  Status answer(const StealRequest& request);
  Found find(const StealRequest& request);
  Status complete();

  Network& network_;
  NodeMemory& memory_;
  std::uint32_t most_;
  std::vector<Sending> sending_;
};

}  // namespace mh::tasks
