// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/receive.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/internode/receive.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/services.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/buffered_sends.hpp"
#include "mpi/rndv/copy.hpp"
#include "mpi/rndv/posted_sends.hpp"
#include "mpi/rndv/unmatched_sends.hpp"

namespace mh::mpi::rndv {
namespace {

// The result of a receive that got an RTS header whose message cannot be found.
constexpr Delivery kLost{.bytes = 0, .code = MPI_ERR_INTERN};

// The state, in the sender's send table, of the send to which the RTS header belongs. `free` if the
// send is over, or if the header comes from another node.
p2p::SlotState send_state(const p2p::RtsHeader& header) {
  if (header.from_world != 0) return p2p::SlotState::free;
  return slot_of(header).state_of(header.generation);
}

bool is_cancelled(const MPI_Status& status) {
  int cancelled = 0;
  real.Test_cancelled(&status, &cancelled);
  return cancelled != 0;
}

// The source and tag of the message if `status` has them; otherwise those of the receive, which may
// be wildcards.
MessageEnvelope envelope_of(const ReceiveRequest& request, const MPI_Status* status) {
  if (status == nullptr || request.is_held_message) return request.envelope;
  return {.source = status->MPI_SOURCE, .tag = status->MPI_TAG};
}

// The RTS header in the receive buffer, unless the envelope (communicator, sender, tag) of its send
// shows that the header belongs to another receive into the same memory.
std::optional<p2p::RtsHeader> header_for(const ReceiveRequest& request, const MPI_Status* status) {
  const auto header = read_rts(request.buffer);
  if (!header || header->from_world != 0) return header;
  const MessageEnvelope envelope = envelope_of(request, status);
  const std::int32_t sender = request.buffer.comm->on_node(envelope.source);
  if (envelope.source != MPI_ANY_SOURCE && sender != static_cast<std::int32_t>(header->sender))
    return std::nullopt;
  const auto fields = slot_of(*header).fields_of(header->generation);
  if (!fields) return header;
  const bool is_its = fields->communicator == request.buffer.comm->key &&
                      (envelope.tag == MPI_ANY_TAG || envelope.tag == fields->tag);
  return is_its ? header : std::nullopt;
}

// Waits until the push that the sender has begun is over. True if the message is in the receive
// buffer; false if the push failed and the buffer still holds the RTS header.
bool await_push(p2p::PostedReceive& posted) {
  p2p::PostedState state = p2p::PostedState::pushing;
  wait::until([&] {
    // acquire: pairs with the release by which the sender ends its push in send.cpp; the pushed
    // bytes are then visible to this thread.
    state = posted.state.load(std::memory_order_acquire);
    return state != p2p::PostedState::pushing;
  });
  return state == p2p::PostedState::pushed;
}

// Finds out which rank, receiver or sender, moves the message of a receive. If the send is still
// posted, this rank takes it. The function waits while the sender has taken the send but has not
// begun to push, because the sender may still give the send back.
p2p::Mover await_mover(p2p::SendSlot* send, std::uint64_t generation,
                       const p2p::PostedReceive* posted) {
  p2p::Mover mover = p2p::Mover::unsettled;
  wait::until([&] {
    mover = p2p::settle_mover(send, generation, posted);
    if (mover == p2p::Mover::unsettled) kick_progress();
    return mover != p2p::Mover::unsettled;
  });
  return mover;
}

Delivery receive_from_other_node(const p2p::RtsHeader& header, const ReceiveBuffer& buffer) {
  if (!internode::is_unreceived(header)) return kLost;
  const Delivery delivery = delivery_of(header.bytes, buffer);
  const CopyTarget target(buffer, delivery.bytes);
  const std::uint64_t bytes = target.lacks_memory() ? 0 : delivery.bytes;
  internode::finish_receive(
      *internode::begin_receive(header, target.end(), target.layout(), bytes));
  target.unpack();
  return target.lacks_memory() ? kNoMemory : delivery;
}

// The result of a receive whose rendezvous message was not found: nothing for an ordinary message,
// kLost for an RTS header whose send is over. Erases that RTS header in the buffer, so that no
// later look at the buffer finds it again.
std::optional<Delivery> result_of_lost(const std::optional<p2p::RtsHeader>& header,
                                       const ReceiveBuffer& buffer) {
  if (!header) return std::nullopt;
  if (buffer.contiguous) std::memset(buffer.address, 0, p2p::kRtsBytes);
  return kLost;
}

// The oldest posted send with this envelope whose RTS header no receive has matched; nothing if
// there is none. While the sender has taken such a send to push the message, the function waits, at
// most tuning::kSettleNs, because the sender may give the send back.
std::optional<PostedSend> await_unmatched(const SendEnvelope& envelope) {
  const std::uint64_t end = ticks() + ticks_from_ns(tuning::kSettleNs);
  std::optional<PostedSend> send;
  wait::until([&] {
    send = oldest_unmatched(envelope);
    return send || ticks() > end || !any_taken_by_sender(envelope);
  });
  return send;
}

// Fetches the message of a complete receive whose buffer holds no RTS header of a send that is not
// over. The receive got an ordinary message of kRtsBytes bytes, or a header whose message this rank
// has buffered, or a header over which another message was written.
std::optional<Delivery> fetch_without_header(const ReceiveRequest& request,
                                             const MessageEnvelope& envelope,
                                             const std::optional<p2p::RtsHeader>& header) {
  const ReceiveBuffer& buffer = request.buffer;
  if (header) {
    if (const auto delivery = deliver_buffered(send_of(*header), buffer)) return delivery;
  }
  const std::int32_t there = buffer.comm->on_node(envelope.source);
  if (there < 0 || there == static_cast<std::int32_t>(config.me))
    return result_of_lost(header, buffer);
  const SendEnvelope sought{.sender = static_cast<std::uint32_t>(there),
                            .communicator = buffer.comm->key,
                            .tag = envelope.tag};
  const bool may_be_ordinary = may_send_rts_sized(sought);
  if (const auto lost = oldest_buffered(sought); lost && !may_be_ordinary)
    return deliver_buffered(*lost, buffer);
  const auto send = await_unmatched(sought);
  if (!send) return result_of_lost(header, buffer);
  if (may_be_ordinary) {
    // Either an ordinary message has come, or the header of `send` was overwritten, and then no
    // receive will match `send`. In the second case the wait loop has to release the sender of
    // `send`.
    start_to_buffer_overdue_sends();
    return result_of_lost(header, buffer);
  }
  comms::end_rendezvous();
  if (!send->table_slot().take(send->fields.generation)) return result_of_lost(header, buffer);
  const Delivery delivery = copy_taken(*send, buffer);
  release_sender(send->table_slot(), send->sender);
  return delivery;
}

// Receives the rest of a message from another node, which begin_incoming() has begun to receive.
Delivery finish_incoming(ReceiveRequest& request) {
  internode::finish_receive(*request.incoming->stream);
  const Delivery delivery = request.incoming->delivery;
  request.incoming.reset();
  return delivery;
}

// True if the MPI library's status of a complete receive shows that no RTS header came: the message
// has another size, or the receive was cancelled.
bool has_no_header(const MPI_Status* status) {
  return status != nullptr && (!has_rts_size(*status) || is_cancelled(*status));
}

}  // namespace

std::optional<Delivery> fetch_message(ReceiveRequest& request, const MPI_Status* status) {
  if (request.incoming) return finish_incoming(request);
  if (request.ignores_status) status = nullptr;
  if (!request.buffer || has_no_header(status)) return std::nullopt;
  const ReceiveBuffer& buffer = request.buffer;
  for (;;) {
    const auto header = header_for(request, status);
    if (header && header->from_world != 0) return receive_from_other_node(*header, buffer);
    const bool is_open = header && send_state(*header) != p2p::SlotState::free;
    p2p::SendSlot* send = is_open ? &slot_of(*header) : nullptr;
    switch (await_mover(send, is_open ? header->generation : 0, request.posted)) {
      case p2p::Mover::receiver: {
        const Delivery delivery = copy_taken(send_of(*header), buffer);
        release_sender(slot_of(*header), header->sender);
        return delivery;
      }
      case p2p::Mover::sender:
        if (await_push(*request.posted))
          return delivery_of(request.posted->bytes.load(std::memory_order_relaxed), buffer);
        break;
      case p2p::Mover::nobody:
        if (status != nullptr)
          return fetch_without_header(request, envelope_of(request, status), header);
        return header ? deliver_buffered(send_of(*header), buffer) : std::nullopt;
      case p2p::Mover::unsettled:
        break;
    }
  }
}

bool has_landed(const ReceiveRequest& request) {
  const auto header = header_for(request, nullptr);
  return header && send_state(*header) == p2p::SlotState::posted;
}

std::optional<IncomingMessage> begin_incoming(const ReceiveRequest& request) {
  if (!config.internode) return std::nullopt;
  const ReceiveBuffer& buffer = request.buffer;
  const auto header = read_rts(buffer);
  if (!header || header->from_world == 0 || !internode::is_unreceived(*header)) return std::nullopt;
  const layout::LayoutPtr layout = buffer.contiguous ? nullptr : layouts::of(buffer.type);
  if (!buffer.contiguous && layout == nullptr) return std::nullopt;
  const Delivery delivery = delivery_of(header->bytes, buffer);
  auto stream = internode::begin_receive(*header, end_of(buffer, layout), layout, delivery.bytes);
  return IncomingMessage{.stream = std::move(stream), .delivery = delivery};
}

void post_receive(ReceiveRequest& request) {
  const ReceiveBuffer& buffer = request.buffer;
  if (!buffer.contiguous || !may_receive_rendezvous(buffer)) return;
  if (!config.single_copy &&
      !(config.heaps_mapped && heaps::contain(buffer.address, buffer.capacity))) {
    return;
  }
  const MessageEnvelope& envelope = request.envelope;
  const p2p::PostedEnvelope accepted{
      .communicator = buffer.comm->key,
      .sender = envelope.source == MPI_ANY_SOURCE ? p2p::PostedEnvelope::kAny
                                                  : buffer.comm->on_node(envelope.source),
      .tag = envelope.tag == MPI_ANY_TAG ? p2p::PostedEnvelope::kAny : envelope.tag};
  request.posted = services.posted_receives.open(buffer.address, buffer.capacity, accepted);
}

void unpost_receive(ReceiveRequest& request) {
  if (request.posted != nullptr) services.posted_receives.close(request.posted);
  request.posted = nullptr;
}

}  // namespace mh::mpi::rndv
