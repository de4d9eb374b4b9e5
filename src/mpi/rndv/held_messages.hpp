// SPDX-License-Identifier: BSD-3-Clause
// What a probe saw: an RTS header shows as a message of kRtsBytes, and the size of its message is
// looked up in the sender's send table.
//
// Size alone does not tell a header from an ordinary message of that size, and another thread may
// receive a message while this one looks at it. In these cases the message is taken out of the
// library, read, and *held*: this rank sends its content to itself on a private communicator, so
// that there is a message which a receive can match. Receives and probes look at held messages
// first.
//
// Any thread. Limit: a persistent receive and MPI_Isendrecv do not find a held message.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/compat/message.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/next.hpp"
#include "p2p/rts_header.hpp"

namespace mh::mpi::rndv {

struct PostedSend;

// Messages held by MPI_Probe and MPI_Iprobe, on any communicator; relaxed, read by every receive. 0
// in nearly every program.
[[gnu::visibility("hidden")]] extern std::atomic<std::uint32_t> held_message_count;

struct HeldMessage {
  std::shared_ptr<Comm> comm;            // the program may free it before it receives the message
  MPI_Message message;                   // on this rank's private communicator
  Envelope envelope;                     // of the message that the program is sent
  std::uint64_t bytes;                   // likewise
  std::optional<p2p::RtsHeader> header;  // if the message is a rendezvous message of this node
};

// Replaces `message`, which the library has taken out for MPI_Mprobe, by a held one. Returns the
// size of the program's message.
std::uint64_t hold_matched(MPI_Comm comm, MPI_Message* message, const Envelope& envelope);
// Takes the message that MPI_Iprobe saw out of the library, and holds it. Returns its size; nothing
// if another thread has received it.
std::optional<std::uint64_t> hold_probed(MPI_Comm comm, const MPI_Status& seen);

// A held message that a probe or a receive with these arguments would match: reported; taken.
bool report_held(int source, int tag, MPI_Comm comm, MPI_Status* status);
std::optional<HeldMessage> take_held(int source, int tag, MPI_Comm comm);
// The held message behind a handle of MPI_Mprobe or MPI_Improbe.
std::optional<HeldMessage> take_held(MPI_Message message);
// A held message becomes the one behind a handle that MPI_Mprobe returns.
void return_as_matched(HeldMessage held, MPI_Message* message);

// The rendezvous sends whose headers are held.
std::vector<PostedSend> held_sends();

}  // namespace mh::mpi::rndv
