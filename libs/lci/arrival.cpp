// SPDX-License-Identifier: BSD-3-Clause
// The steps that a device takes with an arrived packet: it finds the endpoint, the matching receive
// and the memory for the message, and delivers the completion. A step that lacks memory or room in
// a queue returns false, and progress() runs that step again later. Packet::receive and
// Packet::place keep the results of finished steps.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lci/state.hpp"

namespace mh::lci::detail {
namespace {

// --- functions that choose a message's memory; place_of() picks one for each endpoint ----------

bool place_explicitly(EndpointState& /*endpoint*/, Packet& packet) {
  packet.place = packet.receive->buffer;
  if (packet.header.kind == PacketKind::eager && packet.size != 0) {
    const std::size_t fits = std::min(packet.size, packet.receive->capacity);
    if (fits != 0) std::memcpy(packet.place, packet.payload(), fits);
  }
  return true;
}

bool leave_in_packet(EndpointState& /*endpoint*/, Packet& packet) {
  packet.place = packet.payload();
  return true;
}

bool place_by_allocator(EndpointState& endpoint, Packet& packet) {
  if (packet.place != nullptr) return true;
  packet.place = endpoint.allocate(packet.size);
  if (packet.place == nullptr) return false;
  if (packet.header.kind == PacketKind::eager) {
    std::memcpy(packet.place, packet.payload(), packet.size);
  }
  return true;
}

bool (*place_of(Buffers buffers))(EndpointState&, Packet&) {
  switch (buffers) {
    case Buffers::piggy_back:
      return leave_in_packet;
    case Buffers::dynamic:
      return place_by_allocator;
    default:
      return place_explicitly;
  }
}

bool (*deliver_of(Completion completion))(EndpointState&, const Event&, Synchronizer*) {
  switch (completion) {
    case Completion::queue:
      return EndpointState::push;
    case Completion::handler:
      return EndpointState::handle;
    default:
      return EndpointState::synchronize;
  }
}

bool must_post(const EndpointConfig& config) {
  return config.buffers == Buffers::explicit_address ||
         config.completion == Completion::synchronizer;
}

Event event_of(const Packet& packet, Buffers buffers) {
  Event event{.endpoint = packet.endpoint,
              .data = packet.place,
              .size = packet.size,
              .tag = packet.header.tag,
              .rank = packet.header.rank,
              .kind = Kind::received,
              .allocated = buffers == Buffers::dynamic};
  const UserReceive* receive = packet.receive;
  if (receive == nullptr) return event;
  event.context = receive->context;
  if (buffers == Buffers::explicit_address && packet.size > receive->capacity) {
    event.code = Code::mismatch;
  }
  return event;
}

}  // namespace

EndpointState::EndpointState(DeviceState& owner, const EndpointConfig& chosen, std::uint8_t number)
    : device(owner),
      config(chosen),
      id(number),
      posts(must_post(chosen)),
      place(place_of(chosen.buffers)),
      deliver(deliver_of(chosen.completion)) {
  if (chosen.completion == Completion::synchronizer) return;
  const auto ranks = static_cast<std::size_t>(owner.transport->size());
  notices = std::make_unique<Notice[]>(ranks);
  for (std::size_t i = 0; i < ranks; ++i) {
    notices[i].endpoint = this;
    notices[i].rank = static_cast<std::int32_t>(i);
  }
}

std::byte* EndpointState::allocate(std::size_t size) const {
  const Allocator& a = config.allocator;
  const std::size_t bytes = std::max<std::size_t>(size, 1);
  return static_cast<std::byte*>(a.allocate == nullptr ? std::malloc(bytes)
                                                       : a.allocate(bytes, a.argument));
}

void EndpointState::free(std::byte* memory) const {
  const Allocator& a = config.allocator;
  if (a.release == nullptr) {
    std::free(memory);
  } else {
    a.release(memory, a.argument);
  }
}

// Handles an arrived packet: a control message, or a user's message, which is matched with a
// receive. Called by the thread in progress(). False: try again, because the packet's endpoint is
// not open yet or the matching table is full.
bool DeviceState::dispatch(Packet& packet) {
  if (packet.header.kind == PacketKind::credit) {
    handle_credit(packet);
    return true;
  }
  if (packet.header.kind == PacketKind::rtr) {
    handle_rtr(packet);
    return true;
  }
  if (packet.header.kind == PacketKind::hello) {
    ++greetings;
    recycle(packet, packet.header.rank);
    return true;
  }
  // acquire: partner is the release in open_endpoint(), which stores the pointer after it has made
  // the endpoint.
  packet.endpoint = endpoints[packet.header.endpoint].load(std::memory_order_acquire);
  if (packet.endpoint == nullptr) return false;
  if (packet.header.kind == PacketKind::grant) {
    handle_grant(packet);
    return true;
  }
  if (packet.header.kind == PacketKind::rts) {
    ReadyToSend rts;
    std::memcpy(&rts, packet.payload(), sizeof rts);
    packet.size = rts.size;
  }
  if (packet.endpoint->posts) {
    const std::uint64_t key =
        match_key(packet.header.endpoint, packet.header.rank, packet.header.tag);
    const MatchingTable::Match match = table.access(key, &packet, Side::message);
    if (match.full) return false;
    if (match.partner == nullptr) {
      count().unexpected.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    packet.receive = static_cast<UserReceive*>(match.partner);
  }
  settle_or_defer(packet);
  return true;
}

void DeviceState::settle_or_defer(Packet& packet) {
  if (!settle(packet)) defer(packet, settle_again);
}

bool DeviceState::settle_again(DeviceState& device, Deferred& step) {
  return device.settle(static_cast<Packet&>(step));
}

bool DeviceState::settle(Packet& packet) {
  EndpointState& endpoint = *packet.endpoint;
  const bool fits = packet.header.kind != PacketKind::rts || !is_gone(packet.header.rank);
  if (fits && !endpoint.place(endpoint, packet)) return false;
  if (packet.header.kind == PacketKind::rts) return begin_transfer(packet);
  const Buffers buffers = endpoint.config.buffers;
  const bool stays = buffers == Buffers::piggy_back;
  Event event = event_of(packet, buffers);
  if (stays) event.packet = &packet;
  UserReceive* receive = packet.receive;
  Synchronizer* done = receive == nullptr ? nullptr : receive->done;
  if (!endpoint.deliver(endpoint, event, done)) return false;
  // deliver() may have woken the receiver, who may already have destroyed a receive that lies in a
  // synchronizer, or released the packet. Below, such a receive or packet is not touched.
  if (endpoint.config.completion != Completion::synchronizer) give_receive(receive);
  if (!stays) consume(packet);
  count().eager_received.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace mh::lci::detail
