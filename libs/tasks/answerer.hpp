// SPDX-License-Identifier: BSD-3-Clause
// Answers steal requests of other nodes. The tasks come from the requested victim's deque or, if
// that deque shares none, from another deque of the node. Tasks are sent straight from their slots.
//
// Threads: one, the rank's worker between its tasks or its server thread.
#pragma once

#include <cstdint>
#include <vector>

#include "manyhands/tasks/network.hpp"
#include "tasks/node_memory.hpp"

namespace mh::tasks {

// The bytes of a message with Tag::request.
struct StealRequest {
  std::uint32_t thief = 0;
  std::uint32_t victim = 0;
  std::uint32_t count = 0;   // the most tasks to send
  std::uint32_t number = 0;  // counts this thief's requests, from 1
};

class Answerer {
 public:
  // `network` and `memory` outlive the answerer.
  Answerer(Network& network, NodeMemory& memory, std::uint32_t most_per_steal)
      : network_(network), memory_(memory), most_(most_per_steal) {}

  // Completes the sends that have ended, and answers the requests that have arrived.
  Status turn();
  // True: no send is under way.
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
