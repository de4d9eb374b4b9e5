// SPDX-License-Identifier: BSD-3-Clause
// Large messages: rendezvous by RTS, RTR and a direct put (wire.hpp describes these messages).
//
// Sender and receiver each have a record of the message, which goes idle -> waiting -> (sender:
// putting ->) idle. The awaited message, the death of the peer or a failed call moves the record
// out of `waiting`. The thread that moves the record owns its next step. The receiver keeps the
// packet of the RTS, and with the packet the sender's credit, until the message has been consumed.
// Credits therefore bound the memory of large messages, too.
#include <algorithm>
#include <cstring>

#include "lci/state.hpp"

namespace mh::lci::detail {
namespace {

bool leave_waiting(LargeMessage& record, int rank, bool sends, std::uint64_t next) {
  std::uint64_t waiting = waiting_for(rank, sends);
  return record.phase.compare_exchange_strong(waiting, next, std::memory_order_acq_rel);
}

// Fills in the receiver's record of a large message from the packet of its RTS. Returns the number
// of bytes that the sender has to put.
std::size_t describe(LargeMessage& record, Packet& packet) {
  const UserReceive* receive = packet.receive;
  const bool limited = packet.endpoint->config.buffers == Buffers::explicit_address;
  const std::size_t wanted = limited ? std::min(packet.size, receive->capacity) : packet.size;
  record.packet = &packet;
  record.receive = packet.receive;
  record.done = receive == nullptr ? nullptr : receive->done;
  record.event = {.endpoint = packet.endpoint,
                  .data = packet.place,
                  .size = packet.size,
                  .context = receive == nullptr ? nullptr : receive->context,
                  .packet = &packet,
                  .tag = packet.header.tag,
                  .rank = packet.header.rank,
                  .code = wanted < packet.size ? Code::mismatch : Code::ok,
                  .allocated = packet.place != nullptr && !limited};
  return wanted;
}

}  // namespace

LargeMessage* DeviceState::take_record(int rank, EndpointState& endpoint, bool sends) {
  LargeMessage* record = free_records(sends).take();
  if (record == nullptr) return nullptr;
  record->sends = sends;
  record->rank = rank;
  record->endpoint = &endpoint;
  record->packet = nullptr;
  record->receive = nullptr;
  record->done = nullptr;
  record->region = {};
  return record;
}

void DeviceState::give_record(LargeMessage& record) {
  if (record.region.handle != nullptr) transport->remove(record.region);
  record.event.allocated = false;
  record.phase.store(kIdle, std::memory_order_release);
  free_records(record.sends).give(&record);
}

// --- the receiver of a large message --------------------------------------------------------

// Answers the RTS in `packet` with an RTR, which tells the sender where to put the data. Any thread
// may call this. False: no record of a large message is free, the memory cannot be registered, or
// the network is full; the caller tries again.
bool DeviceState::begin_transfer(Packet& packet) {
  const int rank = packet.header.rank;
  LargeMessage* record = take_record(rank, *packet.endpoint, false);
  if (record == nullptr) return false;
  const std::size_t wanted = describe(*record, packet);
  ReadyToSend rts;
  std::memcpy(&rts, packet.payload(), sizeof rts);
  if (wanted != 0 && !is_gone(rank)) {
    const Result<Region> region = transport->add(rank, {packet.place, wanted}, true);
    if (!region) {
      give_record(*record);
      return false;
    }
    record->region = *region;
  }
  const ReadyToReceive rtr{record->region.address, record->region.key, wanted, rts.sender_record,
                           static_cast<std::uint32_t>(record - records.data())};
  record->phase.store(waiting_for(rank, false), std::memory_order_seq_cst);
  const Header header{PacketKind::rtr, packet.header.endpoint, transport->rank(), 0};
  const Code code = is_gone(rank)
                        ? Code::gone
                        : transport->inject(rank, header, std::as_bytes(std::span(&rtr, 1)));
  if (code == Code::ok || !leave_waiting(*record, rank, false, kIdle)) return true;
  if (code == Code::full) {
    give_record(*record);
    return false;
  }
  record->event.code = code;
  finish_or_defer(*record);
  return true;
}

void DeviceState::handle_put(const Header& header) {
  if (header.tag >= records.size()) return;
  LargeMessage& record = records[header.tag];
  if (!leave_waiting(record, header.rank, false, kIdle)) return;
  count().large_received.fetch_add(1, std::memory_order_relaxed);
  finish_or_defer(record);
}

// --- the sender of a large message ----------------------------------------------------------

void DeviceState::handle_rtr(Packet& packet) {
  ReadyToReceive rtr;
  std::memcpy(&rtr, packet.payload(), sizeof rtr);
  const int rank = packet.header.rank;
  recycle(packet, rank);
  if (rtr.sender_record >= records.size()) return;
  LargeMessage& record = records[rtr.sender_record];
  if (!leave_waiting(record, rank, true, kPutting)) return;
  record.put.size = rtr.size;
  record.put.address = rtr.address;
  record.put.key = rtr.key;
  record.put.moved = 0;
  record.put.immediate = {PacketKind::put, 0, transport->rank(), rtr.receiver_record};
  put_or_defer(record);
}

void DeviceState::put_or_defer(LargeMessage& record) {
  if (put(record)) return;
  defer(record, [](DeviceState& device, Deferred& step) {
    return device.put(static_cast<LargeMessage&>(step));
  });
}

// Called on the sender of a large message, whose record is `record`: starts the put of its data.
// False: the network is full, or the memory cannot be registered now; the caller tries again.
bool DeviceState::put(LargeMessage& record) {
  if (record.region.handle == nullptr && record.put.size != 0) {
    auto* data = const_cast<std::byte*>(record.put.data);  // add() takes no const memory
    const Result<Region> region = transport->add(record.rank, {data, record.put.size}, false);
    if (!region) return false;
    record.region = *region;
  }
  record.put.descriptor = record.region.descriptor;
  const Code code = transport->put(record.rank, record.put, record);
  if (code == Code::full) return false;
  if (code != Code::ok) put_done(record, code);
  return true;
}

void DeviceState::put_done(LargeMessage& record, Code code) {
  record.event.code = code;
  if (code == Code::ok) count().large_sent.fetch_add(1, std::memory_order_relaxed);
  const int rank = record.rank;
  peer(rank).large.fetch_add(1, std::memory_order_relaxed);
  finish_or_defer(record);
  if (code != Code::ok) handle_gone(rank);
}

// --- the completion of a large message, at either end ---------------------------------------

void DeviceState::finish_or_defer(LargeMessage& record) {
  // The memory is deregistered before the completion is delivered, because the user may reuse the
  // memory from then on.
  if (record.region.handle != nullptr) transport->remove(record.region);
  if (finish(record)) return;
  defer(record, [](DeviceState& device, Deferred& step) {
    return device.finish(static_cast<LargeMessage&>(step));
  });
}

bool DeviceState::finish(LargeMessage& record) {
  EndpointState& endpoint = *record.endpoint;
  // A message that lies in the buffer of a posted receive needs no later release by the user. Its
  // RTS packet, which holds the sender's credit, is therefore consumed right after the delivery.
  Packet* consumed = nullptr;
  Event event = record.event;
  if (event.packet != nullptr && !event.allocated) std::swap(consumed, event.packet);
  if (!endpoint.deliver(endpoint, event, record.done)) return false;
  if (endpoint.config.completion != Completion::synchronizer) give_receive(record.receive);
  if (consumed != nullptr) consume(*consumed);
  give_record(record);
  return true;
}

}  // namespace mh::lci::detail
