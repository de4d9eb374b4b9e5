// SPDX-License-Identifier: BSD-3-Clause
// Granted buffers: a receiver lends a peer a buffer for one message (EndpointConfig::grant_bytes).
// A large message that fits goes there by one put, without rendezvous.
//
//   receiver                               sender
//     grant {address, key}           ->      usable
//     deliver, wait for the release  <-      put, with the size in the immediate
//     grant again                    ->
//
// The *immediate* is a word that the network delivers with a put. An endpoint has one buffer for
// each peer in each direction. A grant costs a credit. The receiver sends the next grant after the
// release of the message, so at most one grant of a buffer is under way. The buffer of a dead peer
// stays unused until the device is closed.
#include <cstring>
#include <new>

#include "lci/state.hpp"

namespace mh::lci::detail {
namespace {

// The payload of a PacketKind::grant packet: where the peer may put one message.
struct Offer {
  std::uint64_t address;
  std::uint64_t key;
};

std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

// Offers this rank's buffer to its peer in a PacketKind::grant packet. False: no credit, or the
// network is full; progress() tries again.
bool send_grant(DeviceState& device, Deferred& step) {
  const auto& grant = static_cast<Grant&>(step);
  const int rank = grant.event.rank;
  if (device.is_gone(rank)) return true;
  Peer& peer = device.peer(rank);
  if (!take_one(peer.credits)) return false;
  const Offer offer{grant.region.address, grant.region.key};
  const Header header{PacketKind::grant, grant.event.endpoint->id, device.transport->rank(), 0};
  const Code code = device.transport->inject(rank, header, std::as_bytes(std::span(&offer, 1)));
  if (code != Code::full) return true;
  device.give_credits(peer, 1);
  return false;
}

// Delivers the message that the peer has put into its granted buffer. False: the endpoint's queue
// is full; progress() tries again.
bool deliver(DeviceState& /*device*/, Deferred& step) {
  const Event event = static_cast<Grant&>(step).event;  // a copy: delivery may renew the grant
  return event.endpoint->deliver(*event.endpoint, event, nullptr);
}

}  // namespace

Code EndpointState::make_grants() {
  if (config.grant_bytes <= device.config.packet_bytes) return Code::ok;
  const auto ranks = static_cast<std::size_t>(device.transport->size());
  const std::size_t each = whole_lines(config.grant_bytes);
  grants.reset(new (std::nothrow) Grant[ranks]);
  grant_memory.reset(new (std::align_val_t{kCacheLine}, std::nothrow) std::byte[ranks * each]);
  if (grants == nullptr || grant_memory == nullptr) return Code::full;
  for (std::size_t i = 0; i < ranks; ++i) {
    const auto rank = static_cast<int>(i);
    std::byte* const memory = grant_memory.get() + i * each;
    grants[i].event = {.endpoint = this, .data = memory, .rank = rank, .granted = true};
    if (rank == device.transport->rank()) continue;
    const Result<Region> region = device.transport->add(rank, {memory, config.grant_bytes}, true);
    if (!region) return region.status().code;
    grants[i].region = *region;
  }
  return Code::ok;
}

void EndpointState::send_grants() {
  for (int rank = 0; grants != nullptr && rank < device.transport->size(); ++rank) {
    if (rank != device.transport->rank()) renew_grant(rank);
  }
}

void EndpointState::renew_grant(int rank) {
  Grant& grant = grants[static_cast<std::size_t>(rank)];
  if (!send_grant(device, grant)) device.defer(grant, send_grant);
}

void EndpointState::end_grants() {
  for (int rank = 0; grants != nullptr && rank < device.transport->size(); ++rank) {
    Region& region = grants[static_cast<std::size_t>(rank)].region;
    if (region.handle != nullptr) device.transport->remove(region);
  }
}

bool EndpointState::is_granted(int rank, std::size_t size) const {
  return grants != nullptr && size <= config.grant_bytes && rank != device.transport->rank();
}

Answer EndpointState::send_granted(int rank, std::uint32_t tag, std::span<const std::byte> data,
                                   void* context) {
  Grant& grant = grants[static_cast<std::size_t>(rank)];
  if (!grant.usable.load(std::memory_order_relaxed)) return device.retry(Retry::credit);
  LargeMessage* record = begin_send(rank, tag, data, context);
  if (record == nullptr) return device.retry(Retry::record);
  // acquire: partner is the release in handle_grant(), so this thread sees the address and the key
  // of the peer's buffer.
  if (!grant.usable.exchange(false, std::memory_order_acquire)) {
    abandon(*record);
    return device.retry(Retry::credit);
  }
  record->put.size = data.size();
  record->put.address = grant.address;
  record->put.key = grant.key;
  record->put.moved = 0;
  const std::int32_t used =
      granted_place(device.transport->rank(), config.grant_bytes, data.size());
  record->put.immediate = {PacketKind::granted, id, used, tag};
  record->phase.store(kPutting, std::memory_order_release);
  device.put_or_defer(*record);
  return Answer::posted();
}

void DeviceState::handle_grant(Packet& packet) {
  Offer offer;
  std::memcpy(&offer, packet.payload(), sizeof offer);
  if (packet.endpoint->grants != nullptr) {
    Grant& grant = packet.endpoint->grants[static_cast<std::size_t>(packet.header.rank)];
    grant.address = offer.address;
    grant.key = offer.key;
    grant.usable.store(true, std::memory_order_release);
  }
  consume(packet);
}

void DeviceState::handle_granted(const Header& header) {
  // acquire: partner is the release in open_endpoint(), which made the grant's buffer before it
  // told the peer of the buffer.
  EndpointState* endpoint = endpoints[header.endpoint].load(std::memory_order_acquire);
  if (endpoint == nullptr || endpoint->grants == nullptr) return;
  const auto place = static_cast<std::size_t>(header.rank);
  const std::size_t rank = place / (endpoint->config.grant_bytes + 1);
  if (rank >= peers.size()) return;
  Grant& grant = endpoint->grants[rank];
  grant.event.size = place % (endpoint->config.grant_bytes + 1);
  grant.event.tag = header.tag;
  count().large_received.fetch_add(1, std::memory_order_relaxed);
  if (!deliver(*this, grant)) defer(grant, deliver);
}

}  // namespace mh::lci::detail
