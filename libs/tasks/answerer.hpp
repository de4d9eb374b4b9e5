// SPDX-License-Identifier: BSD-3-Clause
// Answers the steal requests of ranks of other nodes. The tasks come from the requested victim's
// deque or, if that deque shares none, from the deque of another rank of the victim's node. Tasks
// are sent straight from their slots.
//
// `Memory` is NodeMemory, or the simulator's memory, which keeps the deques of all ranks.
//
// Threads: one, the rank's worker between its tasks or its server thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "manyhands/tasks/network.hpp"
#include "tasks/node_memory.hpp"

namespace mh::tasks {

// The bytes of a thief's request for tasks, in a message with Tag::request.
struct StealRequest {
  std::uint32_t thief = 0;
  std::uint32_t victim = 0;
  std::uint32_t count = 0;   // the most tasks to send
  std::uint32_t number = 0;  // counts this thief's requests, from 1
};

template <class Memory>
class Answerer {
 public:
  // `network` and `memory` must outlive the answerer. `most_per_steal`: the most tasks of one
  // answer.
  Answerer(Network& network, Memory& memory, std::uint32_t most_per_steal)
      : network_(network), memory_(memory), most_(most_per_steal) {}

  // Does what is possible without waiting: ends the sends whose tasks have left their slots, and
  // answers the steal requests that have arrived and that no other rank of the node has claimed.
  Status turn();
  // True: no answer to a thief is still being sent.
  [[nodiscard]] bool at_rest() const { return sending_.empty(); }
  // The number of deques in which the answerer has looked for tasks so far. The simulator charges
  // time for each look.
  [[nodiscard]] std::uint64_t looked() const { return looked_; }

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
  Memory& memory_;
  std::uint32_t most_;
  std::uint64_t looked_ = 0;
  std::vector<Sending> sending_;
};
using NodeAnswerer = Answerer<NodeMemory>;

template <class Memory>
Status Answerer<Memory>::turn() {
  if (!sending_.empty()) {
    if (const Status status = complete(); !status) return status;
  }
  for (;;) {
    const auto envelope = network_.probe(Network::kAnyone, Tag::request);
    if (!envelope) return envelope.status();
    if (!envelope->has_value()) return {};
    StealRequest request;
    const Status taken = network_.take(**envelope, std::as_writable_bytes(std::span(&request, 1)));
    if (!taken) return taken;
    if (!memory_.claim(request.thief, request.number)) continue;
    if (const Status status = answer(request); !status) return status;
  }
}

template <class Memory>
typename Answerer<Memory>::Found Answerer<Memory>::find(const StealRequest& request) {
  const NodeShape& shape = memory_.shape();
  const std::uint32_t most = std::min(request.count, most_);
  for (std::uint32_t i = 0; i < shape.count; ++i) {
    const std::uint32_t victim = shape.first + (request.victim - shape.first + i) % shape.count;
    const Reservation taken = memory_.deque(victim).reserve(most);
    ++looked_;
    if (taken.count != 0) return {victim, taken};
  }
  return {request.victim, {}};
}

template <class Memory>
Status Answerer<Memory>::answer(const StealRequest& request) {
  const Found found = find(request);
  auto& deque = memory_.deque(found.victim);
  const auto tasks = bytes_of(deque, found.taken.first, found.taken.count);
  const auto ticket = network_.send(request.thief, Tag::answer, tasks, false);
  if (!ticket) return ticket.status();
  sending_.push_back({*ticket, found.victim, found.taken});
  return {};
}

template <class Memory>
Status Answerer<Memory>::complete() {
  Status status;
  std::erase_if(sending_, [&](const Sending& sending) {
    const auto done = network_.done(sending.ticket);
    if (!done) status = done.status();
    if (!done || !*done) return false;
    memory_.deque(sending.victim).complete(sending.taken);
    return true;
  });
  return status;
}

}  // namespace mh::tasks
