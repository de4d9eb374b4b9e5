// SPDX-License-Identifier: BSD-3-Clause
// Completion queues, synchronizers and handlers, by which the caller learns that a send or a
// receive has ended.
#include "manyhands/lci/completion.hpp"

#include "lci/ring.hpp"
#include "lci/state.hpp"

namespace mh::lci {

struct CompletionQueue::Places : Ring<detail::Event> {
  using Ring<detail::Event>::Ring;
};

CompletionQueue::CompletionQueue(std::size_t capacity)
    : places_(std::make_unique<Places>(capacity)) {}

CompletionQueue::~CompletionQueue() {
  while (pop()) {
  }
}

std::optional<Message> CompletionQueue::pop() noexcept {
  detail::Event event;
  if (!places_->pop(event)) return std::nullopt;
  return Message(event);
}

bool CompletionQueue::push(const detail::Event& event) noexcept { return places_->push(event); }

void Synchronizer::wait() noexcept {
  if (test()) return;
  ult::detail::Waiting me{.task = ult::detail::self()};
  std::uintptr_t pending = kPending;
  // acq_rel: the release publishes `me`, the waiting task or thread, to complete(), which wakes it.
  // Acquire, also on failure: as in test(), the caller then sees the result.
  if (state_.compare_exchange_strong(pending, reinterpret_cast<std::uintptr_t>(&me),
                                     std::memory_order_acq_rel, std::memory_order_acquire)) {
    ult::detail::sleep(me);
  }
}

// Stores the result and wakes the waiter. If no task or thread waits yet, the owner may destroy the
// synchronizer once the exchange below has run: nothing may touch the object after the exchange. A
// waiter does not return, and so keeps the object, until wake().
void Synchronizer::complete(const detail::Event& event) noexcept {
  event_ = event;
  const std::uintptr_t was = state_.exchange(kDone, std::memory_order_acq_rel);
  if (was != kPending) ult::detail::wake(reinterpret_cast<ult::detail::Waiting*>(was));
}

namespace detail {

void release(const Event& event) noexcept {
  if (event.granted) event.endpoint->renew_grant(event.rank);
  if (event.allocated) event.endpoint->free(event.data);
  if (event.packet != nullptr) event.endpoint->device.consume(*event.packet);
}

// Removes this endpoint's completions from its queue. Called before the device is destroyed,
// because messages in the queue hold packets of the device.
void EndpointState::drain() const {
  if (config.completion != Completion::queue) return;
  config.queue->places_->remove_if([this](const Event& event) {
    if (event.endpoint != this) return false;
    if (!event.granted) release(event);
    return true;
  });
}

bool EndpointState::push(EndpointState& endpoint, const Event& event, Synchronizer* /*done*/) {
  if (endpoint.config.counts_sends && event.kind == Kind::sent && event.code == Code::ok) {
    auto* sent = static_cast<std::atomic<std::uint32_t>*>(event.context);
    // release: a thread that reads the count (acquire) may write to the buffer of the completed
    // send.
    if (sent != nullptr) sent->fetch_add(1, std::memory_order_release);
    return true;
  }
  return endpoint.config.queue->push(event);
}

void EndpointState::complete(const Event& event, Synchronizer* done) { done->complete(event); }

bool EndpointState::synchronize(EndpointState& /*endpoint*/, const Event& event,
                                Synchronizer* done) {
  complete(event, done);
  return true;
}

bool EndpointState::handle(EndpointState& endpoint, const Event& event, Synchronizer* /*done*/) {
  Message message(event);
  endpoint.config.handler(message, endpoint.config.argument);
  return true;
}

}  // namespace detail
}  // namespace mh::lci
