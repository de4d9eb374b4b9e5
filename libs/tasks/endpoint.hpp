// SPDX-License-Identifier: BSD-3-Clause
// The transport of a rank in a real job: shared memory within the node, messages between nodes.
// The simulator runs the same transport over a network and a memory of its own.
//
//   steal, near   the thief copies from the victim's deque itself; the answer is available at once
//   steal, far    a request to two ranks of the victim's node, one of which answers; the thief
//                 receives the tasks into its deque
//   other kinds   messages, within the node too
//
// After a failure of the network the endpoint sends nothing more; status() returns the failure.
//
// Threads: the rank's worker.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <optional>
#include <span>

#include "manyhands/tasks/network.hpp"
#include "tasks/answerer.hpp"
#include "tasks/message.hpp"
#include "tasks/node_memory.hpp"

namespace mh::tasks {

template <class Memory>
class TaskEndpoint {
 public:
  // `network` and `memory` must outlive the endpoint. `most_per_steal`: the most tasks that a steal
  // takes.
  TaskEndpoint(Network& network, Memory& memory, std::uint32_t most_per_steal)
      : network_(network), memory_(memory), most_(most_per_steal) {}

  void send(std::uint32_t to, TaskMessage message);
  // Gets the next message for the rank's state machine (Process). False: none has arrived.
  bool receive(TaskMessage& message);
  // True: receive() will return the outcome of a steal from a rank of this node, which is known
  // without a message.
  [[nodiscard]] bool has_near_answer() const { return near_answer_.has_value(); }
  // True: all sends of this rank have ended, and every steal request of this rank has been
  // received. Also true after a failure.
  bool at_rest();

  [[nodiscard]] Status status() const { return failure_; }
  [[nodiscard]] std::uint32_t far_steals() const { return far_steals_; }
  [[nodiscard]] std::uint64_t arrived() const { return arrived_; }

 private:
  struct Outgoing {
    std::array<std::byte, sizeof(TaskMessage)> bytes;
    Network::Ticket ticket;
    std::uint32_t to;
    Tag tag;
  };
  static_assert(sizeof(TaskMessage) <= sizeof(StealRequest));

  void steal_near(std::uint32_t victim, std::uint32_t most);
  void steal_far(std::uint32_t victim, std::uint32_t most);
  void post(std::uint32_t to, Tag tag, std::span<const std::byte> bytes);
  void forget_received();
  [[nodiscard]] bool has_unread(std::uint32_t to) const;
  // Returns the rank that gets a thief's request besides the victim: another rank of the victim's
  // node, or the victim if it is alone there.
  [[nodiscard]] std::uint32_t stand_in(std::uint32_t victim) const;
  bool receive_answer(TaskMessage& message);
  bool receive_control(TaskMessage& message);
  void fail(Status status) {
    if (failure_.ok()) failure_ = status;
  }

  Network& network_;
  Memory& memory_;
  std::uint32_t most_;
  std::optional<TaskMessage> near_answer_;
  bool far_asked_ = false;
  std::list<Outgoing> outgoing_;  // a list, so that the bytes keep their addresses
  std::uint32_t requests_ = 0;
  std::uint32_t far_steals_ = 0;
  std::uint64_t arrived_ = 0;
  Status failure_;
};

// The transport that the state machine (Process) gets, passed by value. Class Answerer answers the
// steal requests of other nodes.
template <class Memory>
struct EndpointRef {
  TaskEndpoint<Memory>* endpoint;
  void send(std::uint32_t to, TaskMessage message) { endpoint->send(to, message); }
};
using NodeEndpoint = TaskEndpoint<NodeMemory>;

namespace detail {
template <class T>
std::span<const std::byte> as_sent(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
}  // namespace detail

template <class Memory>
void TaskEndpoint<Memory>::send(std::uint32_t to, TaskMessage message) {
  message.from = memory_.shape().rank;
  if (message.kind != MessageKind::steal) return post(to, Tag::control, detail::as_sent(message));
  const std::uint32_t most = std::min(message.count, most_);
  if (memory_.is_near(to)) return steal_near(to, most);
  steal_far(to, most);
}

template <class Memory>
void TaskEndpoint<Memory>::steal_near(std::uint32_t victim, std::uint32_t most) {
  auto& theirs = memory_.deque(victim);
  auto& own = memory_.own();
  const Reservation taken = theirs.reserve(most);
  near_answer_ = TaskMessage{.kind = MessageKind::nothing, .from = victim};
  if (taken.count == 0) return;
  const auto from = bytes_of(theirs, taken.first, taken.count);
  std::memcpy(bytes_of(own, own.landing(), taken.count).data(), from.data(), from.size());
  theirs.complete(taken);
  near_answer_ = TaskMessage{.kind = MessageKind::work, .from = victim, .count = taken.count};
}

template <class Memory>
void TaskEndpoint<Memory>::steal_far(std::uint32_t victim, std::uint32_t most) {
  far_asked_ = true;
  const StealRequest request{memory_.shape().rank, victim, most, ++requests_};
  post(victim, Tag::request, detail::as_sent(request));
  // A second rank of the victim's node gets the steal request, too, unless that rank has not yet
  // received an earlier request of this thief.
  const std::uint32_t other = stand_in(victim);
  if (other != victim && !has_unread(other)) post(other, Tag::request, detail::as_sent(request));
}

template <class Memory>
std::uint32_t TaskEndpoint<Memory>::stand_in(std::uint32_t victim) const {
  const auto nodes = network_.nodes();
  const auto next = std::upper_bound(nodes.begin(), nodes.end(), victim);
  const std::uint32_t first = *(next - 1);
  const std::uint32_t end = next == nodes.end() ? memory_.shape().ranks : *next;
  // The second copies of a thief's successive steal requests go to the ranks of the victim's node
  // other than the victim, in turn.
  const std::uint32_t count = end - first;
  return count < 2 ? victim : first + (victim - first + 1 + requests_ % (count - 1)) % count;
}

template <class Memory>
void TaskEndpoint<Memory>::post(std::uint32_t to, Tag tag, std::span<const std::byte> bytes) {
  if (!failure_.ok()) return;
  forget_received();
  Outgoing& outgoing = outgoing_.emplace_back();
  std::ranges::copy(bytes, outgoing.bytes.begin());
  outgoing.to = to;
  outgoing.tag = tag;
  const auto sent = std::span(outgoing.bytes).first(bytes.size());
  // A rank may receive a steal request long after another rank of its node has answered the
  // request. Requests are therefore sent `matched`: at_rest() waits until both ranks have received
  // them.
  const auto ticket = network_.send(to, tag, sent, tag == Tag::request);
  if (ticket) {
    outgoing.ticket = *ticket;
  } else {
    outgoing_.pop_back();
    fail(ticket.status());
  }
}

template <class Memory>
void TaskEndpoint<Memory>::forget_received() {
  outgoing_.remove_if([this](const Outgoing& outgoing) {
    const auto done = network_.done(outgoing.ticket);
    if (!done) fail(done.status());
    return done && *done;
  });
}

template <class Memory>
bool TaskEndpoint<Memory>::has_unread(std::uint32_t to) const {
  return std::ranges::any_of(outgoing_, [to](const Outgoing& outgoing) {
    return outgoing.to == to && outgoing.tag == Tag::request;
  });
}

template <class Memory>
bool TaskEndpoint<Memory>::at_rest() {
  forget_received();
  return outgoing_.empty() || !failure_.ok();
}

template <class Memory>
bool TaskEndpoint<Memory>::receive(TaskMessage& message) {
  if (!failure_.ok()) return false;
  if (near_answer_) {
    message = *near_answer_;
    near_answer_.reset();
    arrived_ += message.count;
    return true;
  }
  return receive_answer(message) || receive_control(message);
}

template <class Memory>
bool TaskEndpoint<Memory>::receive_answer(TaskMessage& message) {
  if (!far_asked_) return false;
  const auto envelope = network_.probe(Network::kAnyone, Tag::answer);
  if (!envelope) fail(envelope.status());
  if (!envelope || !envelope->has_value()) return false;
  const auto count = static_cast<std::uint32_t>((*envelope)->bytes / memory_.shape().stride);
  auto& own = memory_.own();
  const Status taken = network_.take(**envelope, bytes_of(own, own.landing(), count));
  if (!taken) fail(taken);
  if (!taken) return false;
  far_asked_ = false;
  message = {.kind = count == 0 ? MessageKind::nothing : MessageKind::work, .count = count};
  arrived_ += count;
  if (count != 0) ++far_steals_;
  return true;
}

template <class Memory>
bool TaskEndpoint<Memory>::receive_control(TaskMessage& message) {
  const auto envelope = network_.probe(Network::kAnyone, Tag::control);
  if (!envelope) fail(envelope.status());
  if (!envelope || !envelope->has_value()) return false;
  const Status taken = network_.take(**envelope, std::as_writable_bytes(std::span(&message, 1)));
  if (!taken) fail(taken);
  return taken.ok();
}

}  // namespace mh::tasks
