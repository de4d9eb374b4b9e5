// SPDX-License-Identifier: BSD-3-Clause
// Large messages inside a node, the sender's side: send descriptors that sends leave in this rank's
// send queue, the descriptors that go in their place, and what happens to them until the buffer is
// free again. The wrappers of MPI_Send and its kin (send.cpp, persistent.cpp) are written with
// these.
//
// Any thread; a slot is its poster's until it is given back. Limit: SharedSendQueue::kSlots send
// descriptors at a time, further messages are the library's.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/datatype/datatypes.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/protocol/message.hpp"
#include "p2p/descriptor.hpp"
#include "p2p/send_queue.hpp"

namespace mh::mpi {

// Whether the sender of a message receives a long one meanwhile.
enum class Exchange : std::uint8_t {
  unknown,  // what it has started to receive tells
  started,  // a send that it does not await: what follows such sends tells as well
  yes,
  no,
};

struct Outgoing {
  const void* buffer;
  std::uint64_t bytes;
  int dest;
  int tag;
  MPI_Comm comm;
  Exchange exchange = Exchange::unknown;
  layout::LayoutPtr layout{};  // of an element, where the data is not contiguous; by may_describe()
  std::uint64_t count = 0;     // of elements, likewise
};

// A posted send descriptor: the slot in the send queue whose descriptor is to be sent.
using Slot = std::uint32_t;

// Whether this send could be described at all: helping is on, the receiver is another rank of this
// node, the data is long enough, and contiguous or of a known layout; and a contiguous one is no
// part of an exchange, or longer, or others could help with it.
bool may_describe(Outgoing& message, MPI_Datatype type, const datatypes::Info& info);

// Takes a slot for the message, if there is a free one. How a send learns that its buffer is free:
// by a flag in the segment, at which a blocking call looks (p2p::kNoFin), or by a completion
// message, whose receive is the user's request, with the slot's own tag (p2p::SendQueue::kOwnTag)
// or a persistent send's, which completes `request`.
std::optional<Slot> post(const Outgoing& message, std::uint32_t fin_tag,
                         MPI_Request request = MPI_REQUEST_NULL);

// Sends the slot's descriptor on the user's communicator. On failure the slot is given back, and no
// completion message will come.
int send_descriptor(Slot slot, const Outgoing& message);

// The receive of the completion message: the user's request of a described MPI_Isend.
int receive_completion(Slot slot, MPI_Request* request);

// A blocking send waits for the receiver to take the bytes, copying with it; gives the slot back.
void await_taken(Slot slot);

// Gives back slots whose messages have arrived.
void reap_sent();

// MPI_Cancel of a described send's request: true if `request` is that of a send descriptor that is
// not over (and its fate is settled: either it completes as cancelled or it was matched and
// completes as usual).
bool cancel_described(MPI_Request request);
// ... of a persistent send that was started as the library's: true if `request` is one.
bool cancel_undescribed(MPI_Request request);
// ... of one whose send descriptor is over: waits until the request is complete, so that a
// cancellation finds nothing to cancel. Does nothing for a request of anything else.
void await_completion_of(MPI_Request request);
// The tag of the completion messages of a persistent send.
std::optional<int> persistent_fin(MPI_Request request);

// Notes that an ordinary message of just a descriptor's size goes to `dest`: from then on a probe
// there cannot tell by its size what it sees (see probe.cpp).
void note_short(int dest, MPI_Comm comm);
template <class Count>
void note_short(Count count, MPI_Datatype type, int dest, MPI_Comm comm) {
  if (message_bytes(count, datatypes::info(type)) == p2p::kDescriptorBytes) note_short(dest, comm);
}

// Sends again, through the library, what receivers could not reach. Part of the wait loop.
void resend_wanted();

// The wait loop's turn for messages this rank sends: a chunk of one that its receiver is copying,
// or the push of one whose receiver does not look. True if data was moved.
bool push_sent();

}  // namespace mh::mpi
