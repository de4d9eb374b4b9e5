// SPDX-License-Identifier: BSD-3-Clause
// A rank's end of the transport that joins the ranks of a job: shared memory within the node,
// messages between nodes. (The simulator has another transport for the same state machine.)
//
//   steal, near   the thief takes from the victim's deque itself; the answer is there at once
//   steal, far    a request to two ranks of the victim's node, of which one answers; the tasks come
//                 into the thief's deque without a further copy
//   the rest      messages, wherever the rank is
//
// After a failure of the network nothing more is sent; status() says which it was.
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
  // Both outlive this.
  TaskEndpoint(Network& network, NodeMemory& memory, std::uint32_t most_per_steal)
      : network_(network), memory_(memory), most_(most_per_steal) {}

  void send(std::uint32_t to, Message message);
  // The next message for the state machine. False: there is none now.
  bool receive(Message& message);
  // True: all that was sent has been received.
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
  // A second rank of its node, or itself.
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
  std::list<Outgoing> outgoing_;  // their bytes stay where they are
  std::uint32_t requests_ = 0;
  std::uint32_t far_steals_ = 0;
  std::uint64_t arrived_ = 0;
  Status failure_;
};

// What the state machine is given, by value. Requests are answered by Answerer.
struct EndpointRef {
  TaskEndpoint* endpoint;
  void send(std::uint32_t to, Message message) { endpoint->send(to, message); }
};

}  // namespace mh::tasks
