// SPDX-License-Identifier: BSD-3-Clause
// Rendezvous messages that this rank copies to memory of its own before their receives are matched.
//
// Only programs with errors that return need this. A message that is too long for its receive may
// be cut by the library, header and all: then the header never comes, and the sender would wait for
// a FIN for ever. So after a truncation every send posted to this rank is *buffered*: its message
// is copied here and its sender is released, as if the library had sent the message eagerly. A
// header that arrives later finds the message here. Rendezvous has ended on the node by then
// (comms::end_rendezvous), so the memory is bounded by what was posted.
//
// A receive may meet such a message long before the program completes it. So in such programs the
// wait loop also buffers what has been posted for kLostAfterNs.
//
// Any thread. Limit: kMostBuffered bytes by the wait loop. A message for which there is no memory
// stays posted.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/rndv/posted_sends.hpp"

namespace mh::mpi::rndv {

inline constexpr std::uint64_t kMostBuffered = 256U << 20U;

// A receive of this rank has failed with MPI_ERR_TRUNCATE: ends rendezvous on the node, and buffers
// every send that is posted to this rank.
void note_truncation();

// Buffers the sends that have been posted for too long. Part of the wait loop.
void buffer_overdue_sends();

// A probe may see the header of a buffered message with this envelope.
bool may_be_buffered(std::uint32_t sender, std::uint64_t communicator, int tag);

// Copies the buffered message of that header to `buffer`, and forgets it. Empty if it is not here.
std::optional<Delivery> deliver_buffered(const p2p::RtsHeader& header, const ReceiveBuffer& buffer);

// The oldest buffered message with this envelope, as if by its header.
std::optional<p2p::RtsHeader> oldest_buffered(std::uint32_t sender, std::uint64_t communicator,
                                              int tag);

// The message will never be read: its sender is released, its copy is forgotten.
void discard_message(const p2p::RtsHeader& header);

}  // namespace mh::mpi::rndv
