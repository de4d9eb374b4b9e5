// SPDX-License-Identifier: BSD-3-Clause
// The transport of a rank in a real job: shared memory within the node, messages between nodes.
// (The simulator has another transport for the same state machine.)
//
//   steal, near   the thief copies from the victim's deque itself; the answer is there at once
//   steal, far    a request to two ranks of the victim's node, one of which answers; the thief
//                 receives the tasks into its deque
//   other kinds   messages, within the node too
//
// After a failure of the network the endpoint sends nothing more; status() returns the failure.
//
// Threads: the rank's worker.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>

#include "manyhands/tasks/network.hpp"
#include "tasks/answerer.hpp"
#include "tasks/message.hpp"
#include "tasks/node_memory.hpp"

namespace mh::tasks {

class TaskEndpoint {
 public:
  // `network` and `memory` outlive the endpoint.
  TaskEndpoint(Network& network, NodeMemory& memory, std::uint32_t most_per_steal)
      : network_(network), memory_(memory), most_(most_per_steal) {}

  void send(std::uint32_t to, Message message);
  // Gets the next message for the state machine. False: none has arrived.
  bool receive(Message& message);
  // True: all sends are done, and every request has been received. Also true after a failure.
  bool at_rest();

  [[nodiscard]] Status status() const { return failure_; }
  [[nodiscard]] std::uint32_t far_steals() const { return far_steals_; }
  [[nodiscard]] std::uint64_t arrived() const { return arrived_; }

 private:
  struct Outgoing {
    std::array<std::byte, sizeof(Message)> bytes;
    Network::Ticket ticket;
    std::uint32_t to;
    Tag tag;
  };
  static_assert(sizeof(Message) <= sizeof(StealRequest));

  void steal_near(std::uint32_t victim, std::uint32_t most);
  void steal_far(std::uint32_t victim, std::uint32_t most);
  void post(std::uint32_t to, Tag tag, std::span<const std::byte> bytes);
  void forget_received();
  [[nodiscard]] bool has_unread(std::uint32_t to) const;
  // Another rank of the victim's node, or the victim if it is alone there.
  [[nodiscard]] std::uint32_t stand_in(std::uint32_t victim) const;
  bool receive_answer(Message& message);
  bool receive_control(Message& message);
  void fail(Status status) {
    if (failure_.ok()) failure_ = status;
  }

  Network& network_;
  NodeMemory& memory_;
  std::uint32_t most_;
  std::optional<Message> near_answer_;
  bool far_asked_ = false;
  std::list<Outgoing> outgoing_;  // a list, so that the bytes keep their addresses
  std::uint32_t requests_ = 0;
  std::uint32_t far_steals_ = 0;
  std::uint64_t arrived_ = 0;
  Status failure_;
};

// The transport of the state machine, passed by value. Class Answerer answers requests.
struct EndpointRef {
  TaskEndpoint* endpoint;
  void send(std::uint32_t to, Message message) { endpoint->send(to, message); }
};

}  // namespace mh::tasks
