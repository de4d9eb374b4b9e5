// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous sends of other ranks of the node to this rank, as this rank finds them in the send
// tables of those ranks.
//
// A send is *posted* from before its RTS header is sent until sender or receiver takes it
// (SendSlot::take()). A posted send is *matched* once its RTS header lies in the buffer of a
// started receive, or is held by a probe (held_messages.hpp). Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mpi/job/services.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "p2p/rts_header.hpp"
#include "p2p/send_table.hpp"

namespace mh::mpi::rndv {

// The sender, communicator and tag of sends from another rank of the node to this rank.
struct SendEnvelope {
  std::uint32_t sender;        // rank on the node
  std::uint64_t communicator;  // Comm::key
  int tag;
};

// A send as this rank has found it in the send table of `sender`. Later sends may use the same
// slot.
struct PostedSend {
  std::uint32_t sender;  // rank on the node
  std::uint32_t slot;
  p2p::PostedFields fields;  // a copy of the slot's fields

  [[nodiscard]] p2p::SendSlot& table_slot() const {
    return services.area(sender).send_table.slots[slot];
  }
  [[nodiscard]] bool has(const SendEnvelope& envelope) const {
    return sender == envelope.sender && fields.communicator == envelope.communicator &&
           fields.tag == envelope.tag;
  }
  bool operator==(const PostedSend& other) const {
    return sender == other.sender && slot == other.slot &&
           fields.generation == other.fields.generation;
  }
};

// The send, and the slot, to which an RTS header from a rank of this node belongs. The send may
// already be over. Of PostedSend::fields, send_of() sets those that the header tells: the
// generation (which of the slot's sends it is), bytes and receiver.
PostedSend send_of(const p2p::RtsHeader& header);
p2p::SendSlot& slot_of(const p2p::RtsHeader& header);

// The RTS header in a receive buffer. Nothing if there is no header, or a part of one: the MPI
// library may be writing the header, or the sender may be pushing the message over it.
std::optional<p2p::RtsHeader> read_rts(const ReceiveBuffer& buffer);

// All posted sends to this rank, or only those with this envelope (sender, communicator, tag).
std::vector<PostedSend> posted_sends();
std::vector<PostedSend> posted_sends(const SendEnvelope& envelope);
// True if the sender has taken one of its own sends with this envelope (communicator and tag, to
// this rank) to push the message. If the push fails, the send is posted again, so the caller waits.
bool any_taken_by_sender(const SendEnvelope& envelope);

// True if this rank's MPI library may hold an unexpected message with the envelope of this send,
// which may be its RTS header.
bool may_be_unexpected(const PostedSend& send);
// The number, 0 to 63, of the bit that stands for messages with this communicator (Comm::key) and
// tag in a word of RankArea::rts_sized_sends.
constexpr std::size_t bucket_of(std::uint64_t communicator, int tag) {
  const std::uint64_t mixed =
      (communicator ^ static_cast<std::uint32_t>(tag)) * 0x9e3779b97f4a7c15ULL;
  return mixed >> 58U;
}

// ---- Messages of the program that are just as long as an RTS header

// Called before the program sends a message. If the message has kRtsBytes bytes, this rank notes
// its communicator and tag in the segment for the receiver. A message of this size whose
// communicator and tag are not noted is therefore an RTS header. Does nothing for a message of
// another size.
void note_rts_sized_send(std::uint64_t bytes, int dest, int tag, MPI_Comm comm);
template <class Count>
void note_rts_sized_send(Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  note_rts_sized_send(message_bytes(count, datatypes::info(type)), dest, tag, comm);
}
// True if the sender has called note_rts_sized_send() for a message of the program with this
// envelope, or with another envelope whose bit in the segment is the same.
bool may_send_rts_sized(const SendEnvelope& envelope);

// True if the status reports a message as long as an RTS header.
bool has_rts_size(const MPI_Status& status);

}  // namespace mh::mpi::rndv
