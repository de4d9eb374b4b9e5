// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous messages that the receiving rank copies to its own memory before a receive matches.
//
// Only programs to which MPI errors return, or that overwrite an RTS header (receive.hpp), need
// such copies. If a receive is shorter than an RTS header, the MPI library cuts the header of a
// message that matches the receive. This rank then never gets the header, and the sender would wait
// for the FIN for ever. After a truncation, every send posted to this rank is therefore *buffered*:
// this rank copies the message to memory of its own and releases the sender, as if the library had
// sent the message eagerly. A receive that gets the header later takes the message from the copy.
// Rendezvous has ended on the node by then (comms::end_rendezvous()), so the posted sends bound the
// memory.
//
// The library may have cut an RTS header long before the program completes the receive. Therefore
// the wait loop also buffers each send that has been posted for kLostAfterNs, if errors return to
// the program or a header may have been overwritten (receive.hpp).
//
// Any thread. Limits: the wait loop buffers at most kMostBuffered bytes; a message for which there
// is no memory stays posted.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/rndv/posted_sends.hpp"

namespace mh::mpi::rndv {

inline constexpr std::uint64_t kMostBuffered = 256U << 20U;

// Ends rendezvous on the node after a receive has failed with MPI_ERR_TRUNCATE, and buffers every
// send that is posted to this rank.
void end_rendezvous_after_truncation();

// Buffers the sends to this rank that have been posted for longer than tuning::kLostAfterNs, if MPI
// errors return to the program or start_to_buffer_overdue_sends() was called. A step of the wait
// loop.
void buffer_overdue_sends();
void start_to_buffer_overdue_sends();

// Copies the buffered message of this send to the receive buffer `buffer`, and frees the buffered
// copy. Returns the outcome of the receive; nothing if the message is not buffered.
std::optional<Delivery> deliver_buffered(const PostedSend& send, const ReceiveBuffer& buffer);

// The send of the oldest buffered message with this sender, communicator and tag; nothing if there
// is none.
std::optional<PostedSend> oldest_buffered(const SendEnvelope& envelope);

// Releases the sender of a message that no receive will read, and frees the message's copy.
void discard_message(const PostedSend& send);

}  // namespace mh::mpi::rndv
