// SPDX-License-Identifier: BSD-3-Clause
// The calls of an endpoint: send, by one packet or by rendezvous, and the posting of receives.
#include <cstring>

#include "lci/state.hpp"
#include "manyhands/lci/device.hpp"

namespace mh::lci {
namespace detail {
namespace {

void put_back(std::atomic<std::int32_t>& count) { count.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

Answer EndpointState::send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                           void* context, Synchronizer* done) {
  if (!device.has(rank) || (done != nullptr) != (config.completion == Completion::synchronizer)) {
    return Answer::error(Code::misuse);
  }
  if (device.is_gone(rank)) return Answer::error(Code::gone);
  if (data.size() <= device.config.packet_bytes) return send_eager(rank, tag, data);
  if (config.buffers == Buffers::piggy_back) return Answer::error(Code::misuse);
  if (is_granted(rank, data.size())) return send_granted(rank, tag, data, context);
  return send_large(rank, tag, data, context, done);
}

Answer EndpointState::send_eager(int rank, std::uint32_t tag, std::span<const std::byte> data) {
  Peer& peer = device.peer(rank);
  if (!take_one(peer.credits)) return device.retry(Retry::credit);
  const Header header{PacketKind::eager, id, device.transport->rank(), tag};
  Code code = Code::ok;
  if (data.size() <= peer.inject_limit) {
    code = device.transport->inject(rank, header, data);
  } else {
    Packet* packet = device.packets.take();
    if (packet == nullptr) {
      device.give_credits(peer, 1);
      return device.retry(Retry::packet);
    }
    std::memcpy(packet->payload(), data.data(), data.size());
    packet->header.rank = rank;  // for handle_failure()
    code = device.transport->send(rank, header, {packet->payload(), data.size()}, *packet);
    if (code != Code::ok) device.packets.give(packet);
  }
  if (code == Code::ok) {
    device.count().eager_sent.fetch_add(1, std::memory_order_relaxed);
    return Answer::done();
  }
  device.give_credits(peer, 1);
  return code == Code::full ? device.retry(Retry::network) : Answer::error(code);
}

// Takes a record, which describes a large message to `rank` until its completion, and sends nothing
// yet. nullptr: no record is free, or too many large messages to `rank` are under way.
LargeMessage* EndpointState::begin_send(int rank, std::uint32_t tag,
                                        std::span<const std::byte> data, void* context) {
  Peer& peer = device.peer(rank);
  if (!take_one(peer.large)) return nullptr;
  LargeMessage* record = device.take_record(rank, *this, true);
  if (record == nullptr) {
    put_back(peer.large);
    return nullptr;
  }
  record->put.data = data.data();
  record->event = {.endpoint = this,
                   .size = data.size(),
                   .context = context,
                   .tag = tag,
                   .rank = rank,
                   .kind = Kind::sent};
  return record;
}

void EndpointState::abandon(LargeMessage& record) {
  put_back(device.peer(record.rank).large);
  device.give_record(record);
}

Answer EndpointState::send_large(int rank, std::uint32_t tag, std::span<const std::byte> data,
                                 void* context, Synchronizer* done) {
  Peer& peer = device.peer(rank);
  LargeMessage* record = begin_send(rank, tag, data, context);
  if (record == nullptr) return device.retry(Retry::record);
  if (!take_one(peer.credits)) {
    abandon(*record);
    return device.retry(Retry::credit);
  }
  record->done = done;
  if (done != nullptr) done->start();
  record->phase.store(waiting_for(rank, true), std::memory_order_seq_cst);
  const ReadyToSend rts{data.size(), static_cast<std::uint32_t>(record - device.records.data())};
  const Header header{PacketKind::rts, id, device.transport->rank(), tag};
  const Code code = device.is_gone(rank)
                        ? Code::gone
                        : device.transport->inject(rank, header, std::as_bytes(std::span(&rts, 1)));
  if (code == Code::ok) return Answer::posted();
  // The RTS was not sent, so this call frees the large message's record. If the exchange below
  // fails, the thread that handles the peer's death has ended the record, and gone.cpp delivers the
  // completion.
  std::uint64_t waiting = waiting_for(rank, true);
  if (!record->phase.compare_exchange_strong(waiting, kIdle, std::memory_order_acq_rel)) {
    return Answer::posted();
  }
  abandon(*record);
  device.give_credits(peer, 1);
  return code == Code::full ? device.retry(Retry::network) : Answer::error(code);
}

// --- the posting of receives ----------------------------------------------------------------

// Answer posted: the receive `posted` is in the matching table. Answer done: `posted` has matched a
// message that had arrived before.
Answer EndpointState::receive(int rank, std::uint32_t tag, UserReceive& posted) {
  const std::uint64_t key = match_key(id, rank, tag);
  const MatchingTable::Match match = device.table.access(key, &posted, Side::receive);
  if (match.full) return device.retry(Retry::table);
  if (match.partner != nullptr) {
    auto* packet = static_cast<Packet*>(match.partner);
    packet->receive = &posted;
    device.settle_or_defer(*packet);
    return Answer::done();
  }
  // The peer may have died before the receive was in the table. The thread that handles the death
  // has then missed the receive, so this call removes it (Peer::gone).
  if (device.is_gone(rank) && device.table.remove(key, &posted)) return Answer::error(Code::gone);
  return Answer::posted();
}

Answer EndpointState::receive_pooled(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                                     void* context) {
  const bool fits = posts && config.completion != Completion::synchronizer;
  if (!fits || !device.has(rank)) return Answer::error(Code::misuse);
  PooledReceive* posted = device.free_receives.take();
  if (posted == nullptr) return device.retry(Retry::record);
  *posted = {{{}, buffer.data(), buffer.size(), context, nullptr}, {}, this, rank, tag};
  const Answer answer = receive(rank, tag, *posted);
  if (answer.is_retry() || answer.is_error()) device.free_receives.give(posted);
  return answer.is_done() ? Answer::posted() : answer;
}

Answer EndpointState::receive_at(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                                 Synchronizer& done) {
  const bool fits = posts && config.completion == Completion::synchronizer;
  if (!fits || !device.has(rank)) return Answer::error(Code::misuse);
  static_assert(sizeof(UserReceive) <= sizeof(done.receive_));
  done.start();
  auto* posted = ::new (static_cast<void*>(done.receive_))
      UserReceive{{}, buffer.data(), buffer.size(), nullptr, &done};
  const Answer answer = receive(rank, tag, *posted);
  // A receive that has matched a message need not be complete: the message may be large and still
  // under way, or its delivery deferred.
  return answer.is_done() && !done.test() ? Answer::posted() : answer;
}

}  // namespace detail

Answer Endpoint::send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                      void* context) noexcept {
  return state_->send(rank, tag, data, context, nullptr);
}
Answer Endpoint::send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                      Synchronizer& done) noexcept {
  return state_->send(rank, tag, data, nullptr, &done);
}
Answer Endpoint::receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                         void* context) noexcept {
  return state_->receive_pooled(rank, tag, buffer, context);
}
Answer Endpoint::receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                         Synchronizer& done) noexcept {
  return state_->receive_at(rank, tag, buffer, done);
}
Answer Endpoint::receive(int rank, std::uint32_t tag, Synchronizer& done) noexcept {
  return state_->receive_at(rank, tag, {}, done);
}

}  // namespace mh::lci
