// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/endpoint.hpp"

#include <algorithm>
#include <cstring>

namespace mh::tasks {
namespace {

template <class T>
std::span<const std::byte> as_sent(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

void TaskEndpoint::send(std::uint32_t to, Message message) {
  message.from = memory_.shape().rank;
  if (message.kind != MessageKind::steal) return post(to, Tag::control, as_sent(message));
  const std::uint32_t most = std::min(message.count, most_);
  if (memory_.is_near(to)) return steal_near(to, most);
  steal_far(to, most);
}

void TaskEndpoint::steal_near(std::uint32_t victim, std::uint32_t most) {
  ByteDeque& theirs = memory_.deque(victim);
  ByteDeque& own = memory_.own();
  const Reservation taken = theirs.reserve(most);
  near_answer_ = Message{.kind = MessageKind::nothing, .from = victim};
  if (taken.count == 0) return;
  const auto from = bytes_of(theirs, taken.first, taken.count);
  std::memcpy(bytes_of(own, own.landing(), taken.count).data(), from.data(), from.size());
  theirs.complete(taken);
  near_answer_ = Message{.kind = MessageKind::work, .from = victim, .count = taken.count};
}

void TaskEndpoint::steal_far(std::uint32_t victim, std::uint32_t most) {
  far_asked_ = true;
  const StealRequest request{memory_.shape().rank, victim, most, ++requests_};
  post(victim, Tag::request, as_sent(request));
  // A rank that has not read the last request needs no second one.
  const std::uint32_t other = stand_in(victim);
  if (other != victim && !has_unread(other)) post(other, Tag::request, as_sent(request));
}

std::uint32_t TaskEndpoint::stand_in(std::uint32_t victim) const {
  const auto nodes = network_.nodes();
  const auto next = std::upper_bound(nodes.begin(), nodes.end(), victim);
  const std::uint32_t first = *(next - 1);
  const std::uint32_t end = next == nodes.end() ? memory_.shape().ranks : *next;
  // Each request goes to a different rank.
  const std::uint32_t count = end - first;
  return count < 2 ? victim : first + (victim - first + 1 + requests_ % (count - 1)) % count;
}

void TaskEndpoint::post(std::uint32_t to, Tag tag, std::span<const std::byte> bytes) {
  if (!failure_.ok()) return;
  forget_received();
  Outgoing& outgoing = outgoing_.emplace_back();
  std::ranges::copy(bytes, outgoing.bytes.begin());
  outgoing.to = to;
  outgoing.tag = tag;
  const auto sent = std::span(outgoing.bytes).first(bytes.size());
  // A rank may read a request long after another rank has answered. So requests are sent `matched`.
  const auto ticket = network_.send(to, tag, sent, tag == Tag::request);
  if (ticket) {
    outgoing.ticket = *ticket;
  } else {
    outgoing_.pop_back();
    fail(ticket.status());
  }
}

void TaskEndpoint::forget_received() {
  outgoing_.remove_if([this](const Outgoing& outgoing) {
    const auto done = network_.done(outgoing.ticket);
    if (!done) fail(done.status());
    return done && *done;
  });
}

bool TaskEndpoint::has_unread(std::uint32_t to) const {
  return std::ranges::any_of(outgoing_, [to](const Outgoing& outgoing) {
    return outgoing.to == to && outgoing.tag == Tag::request;
  });
}

bool TaskEndpoint::at_rest() {
  forget_received();
  return outgoing_.empty() || !failure_.ok();
}

bool TaskEndpoint::receive(Message& message) {
  if (!failure_.ok()) return false;
  if (near_answer_) {
    message = *near_answer_;
    near_answer_.reset();
    arrived_ += message.count;
    return true;
  }
  return receive_answer(message) || receive_control(message);
}

bool TaskEndpoint::receive_answer(Message& message) {
  if (!far_asked_) return false;
  const auto envelope = network_.probe(Network::kAnyone, Tag::answer);
  if (!envelope) fail(envelope.status());
  if (!envelope || !envelope->has_value()) return false;
  const auto count = static_cast<std::uint32_t>((*envelope)->bytes / memory_.shape().stride);
  ByteDeque& own = memory_.own();
  const Status taken = network_.take(**envelope, bytes_of(own, own.landing(), count));
  if (!taken) fail(taken);
  if (!taken) return false;
  far_asked_ = false;
  message = {.kind = count == 0 ? MessageKind::nothing : MessageKind::work, .count = count};
  arrived_ += count;
  if (count != 0) ++far_steals_;
  return true;
}

bool TaskEndpoint::receive_control(Message& message) {
  const auto envelope = network_.probe(Network::kAnyone, Tag::control);
  if (!envelope) fail(envelope.status());
  if (!envelope || !envelope->has_value()) return false;
  const Status taken = network_.take(**envelope, std::as_writable_bytes(std::span(&message, 1)));
  if (!taken) fail(taken);
  return taken.ok();
}

}  // namespace mh::tasks
