// SPDX-License-Identifier: BSD-3-Clause
#include "tasks/answerer.hpp"

#include <algorithm>

namespace mh::tasks {

Status Answerer::turn() {
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

Answerer::Found Answerer::find(const StealRequest& request) {
  const NodeShape& shape = memory_.shape();
  const std::uint32_t most = std::min(request.count, most_);
  for (std::uint32_t i = 0; i < shape.count; ++i) {
    const std::uint32_t victim = shape.first + (request.victim - shape.first + i) % shape.count;
    const Reservation taken = memory_.deque(victim).reserve(most);
    if (taken.count != 0) return {victim, taken};
  }
  return {request.victim, {}};
}

Status Answerer::answer(const StealRequest& request) {
  const Found found = find(request);
  ByteDeque& deque = memory_.deque(found.victim);
  const auto tasks = bytes_of(deque, found.taken.first, found.taken.count);
  const auto ticket = network_.send(request.thief, Tag::answer, tasks, false);
  if (!ticket) return ticket.status();
  sending_.push_back({*ticket, found.victim, found.taken});
  return {};
}

Status Answerer::complete() {
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
