// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous sends of other ranks of the node to this rank, as their send tables show them.
//
// A send is *posted* from before its RTS header is sent until a rank takes the send. A posted send
// is *matched* once its header lies in the buffer of a started receive, or a probe holds it. Any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mpi/job/services.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "p2p/rts_header.hpp"
#include "p2p/send_table.hpp"

namespace mh::mpi::rndv {

// The envelope of sends from another rank of the node to this rank.
struct SendEnvelope {
  std::uint32_t sender;        // rank on the node
  std::uint64_t communicator;  // Comm::key
  int tag;
};

// A send in a slot of a rank's send table. Later sends may use the same slot.
struct PostedSend {
  std::uint32_t sender;  // rank on the node
  std::uint32_t slot;
  p2p::PostedFields says;

  [[nodiscard]] p2p::SendSlot& table_slot() const {
    return services.area(sender).send_table.slots[slot];
  }
  [[nodiscard]] bool has(const SendEnvelope& envelope) const {
    return sender == envelope.sender && says.communicator == envelope.communicator &&
           says.tag == envelope.tag;
  }
  bool operator==(const PostedSend& other) const {
    return sender == other.sender && slot == other.slot && says.generation == other.says.generation;
  }
};

// The send to which an RTS header of this node belongs. The send may be over.
PostedSend send_of(const p2p::RtsHeader& header);
p2p::SendSlot& slot_of(const p2p::RtsHeader& header);

// The RTS header in a buffer. Nothing unless the header is whole: the library may be writing the
// header, and the sender may be writing the message over the header.
std::optional<p2p::RtsHeader> read_rts(const ReceiveBuffer& buffer);

// Posted sends to this rank: all, or those with this envelope.
std::vector<PostedSend> posted_sends();
std::vector<PostedSend> posted_sends(const SendEnvelope& envelope);
// True if a sender has taken its own send with this envelope to push the message, and may give the
// send back.
bool any_held_by_sender(const SendEnvelope& envelope);

// True if the library may have an unexpected message with the envelope of this send.
bool may_be_unexpected(const PostedSend& send);
// The bit, 0 to 63, that stands for an envelope in a word.
constexpr std::size_t bucket_of(std::uint64_t communicator, int tag) {
  const std::uint64_t mixed =
      (communicator ^ static_cast<std::uint32_t>(tag)) * 0x9e3779b97f4a7c15ULL;
  return mixed >> 58U;
}

// ---- Messages of the program that are just as long as an RTS header

// Before a rank sends a message of kRtsBytes, it notes the message's communicator and tag in the
// segment for the receiver. Without a note, every message of this size with this communicator and
// tag is an RTS header. Does nothing for a message of another size.
void note_rts_sized_send(std::uint64_t bytes, int dest, int tag, MPI_Comm comm);
template <class Count>
void note_rts_sized_send(Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  note_rts_sized_send(message_bytes(count, datatypes::info(type)), dest, tag, comm);
}
bool may_send_rts_sized(const SendEnvelope& envelope);

// True if the status reports a message as long as an RTS header.
bool has_rts_size(const MPI_Status& status);

}  // namespace mh::mpi::rndv
