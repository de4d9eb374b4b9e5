// SPDX-License-Identifier: BSD-3-Clause
// A device: its memory, its progress, the credits of its peers, and the list of deferred steps
// (steps that lacked memory or room, and that progress() repeats).
#include <algorithm>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "lci/state.hpp"

namespace mh::lci::detail {
namespace {

constexpr std::size_t kFewestCredits = 8;  // for one peer, however many peers there are
// The most credits (rights to send one message) for one peer: twice as many as a rank has tasks
// that send to one peer at a time (about 1000). Half of the credits may be on their way back, and a
// task without a credit has to be parked and woken.
constexpr std::size_t kMostCredits = 2048;
constexpr std::size_t kMostLarge = 32;  // to one peer at a time
// The number of keys for which the matching table is made; the table grows when there are more. At
// this size the table has 128 KB, which stay in the second-level cache.
constexpr std::size_t kFirstKeys = 2048;
// The most network events that one call of progress() handles. They take 5 KB of stack. With 32
// events a call, the server of a thousand tasks handles 8 % fewer messages a second.
constexpr std::size_t kEventsPerStep = 128;
constexpr unsigned kMostLanes = 64;  // of a packet pool

unsigned lanes() { return std::clamp(std::thread::hardware_concurrency() * 2, 2U, kMostLanes); }

void free_packets(std::byte* memory) { ::operator delete[](memory, std::align_val_t{kCacheLine}); }

std::byte* allocate_packets(std::size_t bytes) {
  return static_cast<std::byte*>(
      ::operator new[](bytes, std::align_val_t{kCacheLine}, std::nothrow));
}

std::size_t stride(const DeviceConfig& config) { return sizeof(Packet) + config.packet_bytes; }

bool usable(const DeviceConfig& config) {
  return config.packet_bytes % kCacheLine == 0 && config.packet_bytes >= 2 * kCacheLine &&
         config.send_packets > 0 && config.large_messages > 0 && config.expected_keys > 0;
}

}  // namespace

// Divides the packets among the peers; all ranks compute the same shares. A packet that the
// transport cannot post would hold up the credits that wait for it (rights to send one message
// each), so there are at most as many packets as the transport posts. At most a quarter of a peer's
// packets is for the rendezvous of large messages.
Shares shares_of(const DeviceConfig& config, const Transport& transport) {
  const auto peers = static_cast<std::size_t>(transport.size());
  const std::size_t most = transport.post_limit() / peers;
  Shares shares{};
  shares.large = std::min({config.large_messages, kMostLarge, most / 4});
  const std::size_t others = std::min(most, shares.large + kSpareReceives);
  shares.credits = std::clamp(config.receive_packets / peers, kFewestCredits, kMostCredits);
  shares.credits = std::min(shares.credits, most - others);
  shares.large = std::min(shares.large, shares.credits);
  const std::size_t each = shares.credits + shares.large + kSpareReceives;
  for (int rank = 0; rank < transport.size(); ++rank) {
    shares.receives[transport.is_near(rank) ? 1 : 0] += each;
  }
  return shares;
}

Result<std::unique_ptr<DeviceState>> DeviceState::make(std::unique_ptr<Transport> transport,
                                                       const DeviceConfig& config) {
  if (!usable(config)) return Status{Code::misuse};
  try {
    auto device = std::make_unique<DeviceState>(std::move(transport), config);
    const std::size_t count = device->shares.all_receives() + config.send_packets;
    std::byte* memory = device->packet_memory.get();
    if (memory == nullptr) return Status{Code::full};
    if (device->shares.large == 0) return Status{Code::unsupported};
    const Status attached = device->transport->attach({memory, device->packet_bytes()});
    if (!attached) return attached;
    for (std::size_t i = 0; i < count; ++i) {
      auto* packet = ::new (memory + i * stride(config)) Packet{};
      device->packets.give(packet);
    }
    for (const bool near : {false, true}) {
      device->unposted[near].store(device->shares.receives[near], std::memory_order_relaxed);
      device->post_receives(near);
    }
    return device;
  } catch (const std::bad_alloc&) {
    return Status{Code::full};
  }
}

DeviceState::DeviceState(std::unique_ptr<Transport> network, const DeviceConfig& chosen)
    : transport(std::move(network)),
      config(chosen),
      shares(shares_of(chosen, *transport)),
      peers(static_cast<std::size_t>(transport->size())),
      packet_memory(allocate_packets(packet_bytes()), free_packets),
      records(2 * chosen.large_messages),
      receives(chosen.expected_keys),
      table(std::min(chosen.expected_keys, kFirstKeys), chosen.expected_keys),
      packets(shares.all_receives() + chosen.send_packets, lanes()),
      free_sends(chosen.large_messages, lanes()),
      free_arrivals(chosen.large_messages, lanes()),
      free_receives(receives.size(), lanes()) {
  for (int rank = 0; rank < transport->size(); ++rank) {
    Peer& peer = this->peer(rank);
    peer.is_near = transport->is_near(rank);
    peer.inject_limit = std::min(transport->inject_limit(rank), chosen.packet_bytes);
    peer.credits.store(static_cast<std::int32_t>(shares.credits), std::memory_order_relaxed);
    peer.large.store(static_cast<std::int32_t>(shares.large), std::memory_order_relaxed);
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    free_records(i < chosen.large_messages).give(&records[i]);
  }
  for (PooledReceive& receive : receives) free_receives.give(&receive);
}

std::size_t DeviceState::packet_bytes() const {
  return (shares.all_receives() + config.send_packets) * stride(config);
}

DeviceState::~DeviceState() {
  for (auto& slot : endpoints) {
    EndpointState* endpoint = slot.load(std::memory_order_relaxed);
    if (endpoint == nullptr) continue;
    endpoint->drain();
    endpoint->end_grants();
  }
  for (LargeMessage& record : records) {
    if (record.event.allocated && record.region.handle != nullptr) transport->remove(record.region);
  }
  transport.reset();  // before the packets and the memory of messages, which the transport uses
  free_undelivered();
  for (auto& slot : endpoints) delete slot.load(std::memory_order_relaxed);
}

// Releases the memory that allocators have given for messages that were not delivered: large
// messages under way, and those of both sizes whose next step was deferred.
void DeviceState::free_undelivered() {
  for (const LargeMessage& record : records) {
    if (record.event.allocated) record.endpoint->free(record.event.data);
  }
  for (Deferred* step = first_deferred; step != nullptr; step = step->next_deferred) {
    if (step->again != settle_again) continue;
    const auto& packet = static_cast<const Packet&>(*step);
    const bool allocates = packet.endpoint->config.buffers == Buffers::dynamic;
    if (allocates && packet.place != nullptr) packet.endpoint->free(packet.place);
  }
}

namespace {

// True: the endpoint's grants (buffers for one message of each peer) are allowed. A put carries the
// size of its message in the immediate data (granted_place()), which limits the size of a grant.
bool may_grant(const EndpointConfig& chosen, int ranks) {
  if (chosen.grant_bytes == 0) return true;
  return chosen.buffers == Buffers::dynamic && chosen.completion != Completion::synchronizer &&
         chosen.grant_bytes < static_cast<std::size_t>(kMaxRanks / ranks);
}

}  // namespace

Result<EndpointState*> DeviceState::open_endpoint(const EndpointConfig& chosen) {
  const bool complete =
      (chosen.completion != Completion::queue || chosen.queue != nullptr) &&
      (chosen.completion != Completion::handler || chosen.handler != nullptr) &&
      (chosen.allocator.allocate == nullptr) == (chosen.allocator.release == nullptr);
  if (!complete || !may_grant(chosen, transport->size())) return Status{Code::misuse};
  for (std::size_t id = 0; id < endpoints.size(); ++id) {
    if (endpoints[id].load(std::memory_order_relaxed) != nullptr) continue;
    std::unique_ptr<EndpointState> endpoint(
        new (std::nothrow) EndpointState(*this, chosen, static_cast<std::uint8_t>(id)));
    if (endpoint == nullptr) break;
    if (const Code code = endpoint->make_grants(); code != Code::ok) {
      endpoint->end_grants();
      return Status{code};
    }
    endpoints[id].store(endpoint.get(), std::memory_order_release);
    endpoint->send_grants();
    return endpoint.release();
  }
  return Status{Code::full};
}

// --- progress: what the one thread in progress() does ---------------------------------------

std::size_t DeviceState::progress() {
  if (progressing.load(std::memory_order_relaxed) ||
      progressing.exchange(true, std::memory_order_acquire)) {
    return 0;
  }
  // Deferred steps run first, because the memory that they lacked may have been released since the
  // last call. A peer that waits for an RTR (the answer to its rendezvous request) then gets the
  // RTR before the puts that the events below start.
  retry_deferred();
  NetEvent events[kEventsPerStep];
  const std::size_t count = transport->poll(events);
  for (std::size_t i = 0; i < count; ++i) handle(events[i]);
  for (const bool near : {false, true}) {
    if (unposted[near].load(std::memory_order_relaxed) != 0) post_receives(near);
  }
  // The steps that this call has deferred run last: a credit goes back to its peer only after a
  // packet has been posted for it, and post_receives() has now posted the packets.
  retry_deferred();
  progressing.store(false, std::memory_order_release);
  return count;
}

void DeviceState::handle(const NetEvent& event) {
  switch (event.kind) {
    case NetEvent::Kind::arrived: {
      auto* packet = static_cast<Packet*>(event.context);
      packet->header = event.header;
      packet->size = event.size;
      if (!dispatch(*packet)) {
        defer(*packet, [](DeviceState& device, Deferred& step) {
          return device.dispatch(static_cast<Packet&>(step));
        });
      }
      return;
    }
    case NetEvent::Kind::sent:
      return packets.give(static_cast<Packet*>(event.context));
    case NetEvent::Kind::put_done:
      return put_done(*static_cast<LargeMessage*>(event.context), Code::ok);
    case NetEvent::Kind::put_arrived:
      if (event.header.kind == PacketKind::granted) return handle_granted(event.header);
      return handle_put(event.header);
    case NetEvent::Kind::failed:
      return handle_failure(event);
    case NetEvent::Kind::unposted:
      packets.give(static_cast<Packet*>(event.context));
      unposted[false].fetch_add(1, std::memory_order_release);
      return;
    case NetEvent::Kind::gone:
      return handle_gone(event.header.rank);
  }
}

// Handles a send or put that the transport reports as failed: the device treats the peer as dead
// from then on.
void DeviceState::handle_failure(const NetEvent& event) {
  if (event.context->use == NetContext::Use::send) {
    auto* packet = static_cast<Packet*>(event.context);
    const int rank = packet->header.rank;
    packets.give(packet);
    handle_gone(rank);
    return;
  }
  put_done(*static_cast<LargeMessage*>(event.context), event.code);
}

// Posts free packets as receives, for messages of near ranks (of this node) or far ranks. Called by
// the thread in progress(). acquire: partner is the release in recycle(), which has returned the
// packets to the pool.
void DeviceState::post_receives(bool near) {
  std::size_t count = unposted[near].exchange(0, std::memory_order_acquire);
  while (count != 0) {
    Packet* packet = packets.take();
    if (packet == nullptr) break;
    packet->receive = nullptr;
    packet->place = nullptr;
    if (transport->post({packet->payload(), config.packet_bytes}, *packet, near) != Code::ok) {
      packets.give(packet);
      break;
    }
    --count;
  }
  if (count != 0) unposted[near].fetch_add(count, std::memory_order_relaxed);
}

// --- credits: rights to send one message to a peer ------------------------------------------

namespace {

// Returns to a peer the credits of the messages that this rank has consumed, after packets for the
// peer's next messages have been posted. False: try again in the next progress().
bool tell_credits(DeviceState& device, Deferred& step) {
  auto& peer = static_cast<Peer&>(step);
  if (device.unposted[peer.is_near].load(std::memory_order_relaxed) != 0) return false;
  // seq_cst, as in consume(). A concurrent consume() adds to `owed`, and queues this step unless it
  // sees `telling` set. If it still sees `telling` set, the exchange below picks up the credit that
  // it has added.
  peer.telling.store(false, std::memory_order_seq_cst);
  const std::uint32_t owed = peer.owed.exchange(0, std::memory_order_seq_cst);
  const auto rank = static_cast<int>(&peer - device.peers.data());
  const Header header{PacketKind::credit, 0, device.transport->rank(), owed};
  if (owed == 0 || device.is_gone(rank)) return true;
  const Code code = device.transport->inject(rank, header, {});
  if (code == Code::ok || code == Code::gone) return true;
  peer.owed.fetch_add(owed, std::memory_order_seq_cst);
  return peer.telling.exchange(true, std::memory_order_seq_cst);  // true: consume() deferred `peer`
}

}  // namespace

void DeviceState::consume(Packet& packet) {
  Peer& sender = peer(packet.header.rank);
  recycle(packet, packet.header.rank);
  const std::uint32_t owed = sender.owed.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (owed < shares.credits / 2 || sender.telling.load(std::memory_order_seq_cst)) return;
  if (!sender.telling.exchange(true, std::memory_order_seq_cst)) defer(sender, tell_credits);
}

void DeviceState::give_credits(Peer& peer, std::int32_t count) {
  peer.credits.fetch_add(count, std::memory_order_seq_cst);
  if (!peer.awaited.load(std::memory_order_seq_cst)) return;
  for (; count > 0; --count) {
    ult::detail::Waiting* next = nullptr;
    {
      const std::lock_guard guard(peer.waiting_lock);
      next = peer.waiting.pop();
      if (peer.waiting.empty()) peer.awaited.store(false, std::memory_order_seq_cst);
    }
    if (next == nullptr) return;
    ult::detail::wake(next);
  }
}

void DeviceState::await_credit(int rank) {
  Peer& awaited = peer(rank);
  ult::detail::Waiting me{.task = ult::detail::self()};
  {
    const std::lock_guard guard(awaited.waiting_lock);
    awaited.awaited.store(true, std::memory_order_seq_cst);
    if (awaited.credits.load(std::memory_order_seq_cst) > 0 || is_gone(rank)) return;
    awaited.waiting.push(&me);
  }
  ult::detail::sleep(me);
}

void DeviceState::handle_credit(Packet& packet) {
  give_credits(peer(packet.header.rank), static_cast<std::int32_t>(packet.header.tag));
  recycle(packet, packet.header.rank);
}

void DeviceState::recycle(Packet& packet, int rank) {
  packets.give(&packet);
  unposted[peer(rank).is_near].fetch_add(1, std::memory_order_release);
}

// --- deferred steps and counters ------------------------------------------------------------

Answer DeviceState::retry(Retry reason) {
  count().retries[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  return Answer::retry(reason);
}

void DeviceState::defer(Deferred& step, bool (*again)(DeviceState&, Deferred&)) {
  count().deferred.fetch_add(1, std::memory_order_relaxed);
  step.again = again;
  step.next_deferred = nullptr;
  const std::lock_guard guard(deferred_lock);
  (first_deferred == nullptr ? first_deferred : last_deferred->next_deferred) = &step;
  last_deferred = &step;
  any_deferred.store(true, std::memory_order_relaxed);
}

// Runs each deferred step (one that lacked memory or room in a queue) once, on the thread in
// progress(). Steps that fail again go to the end of the list.
void DeviceState::retry_deferred() {
  if (!any_deferred.load(std::memory_order_relaxed)) return;
  Deferred* step = nullptr;
  {
    const std::lock_guard guard(deferred_lock);
    step = std::exchange(first_deferred, nullptr);
    any_deferred.store(false, std::memory_order_relaxed);
  }
  while (step != nullptr) {
    Deferred* const next = step->next_deferred;
    auto* const again = step->again;
    if (!again(*this, *step)) defer(*step, again);
    step = next;
  }
}

void DeviceState::give_receive(UserReceive* receive) {
  if (receive != nullptr) free_receives.give(static_cast<PooledReceive*>(receive));
}

Counters DeviceState::counters() const {
  Counters sum{};
  const auto value = [](const auto& count) { return count.load(std::memory_order_relaxed); };
  for (const LaneCounts& lane : counts) {
    sum.eager_sent += value(lane.eager_sent);
    sum.eager_received += value(lane.eager_received);
    sum.large_sent += value(lane.large_sent);
    sum.large_received += value(lane.large_received);
    sum.unexpected += value(lane.unexpected);
    sum.deferred += value(lane.deferred);
    for (int i = 0; i < kRetryReasons; ++i) {
      const auto reason = static_cast<std::size_t>(i);
      sum.retries[reason] += value(lane.retries[reason]);
    }
  }
  return sum;
}

}  // namespace mh::lci::detail
