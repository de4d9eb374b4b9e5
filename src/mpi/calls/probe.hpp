// SPDX-License-Identifier: BSD-3-Clause
// Telling what a probe saw: a descriptor shows as a message of kDescriptorBytes, and its true size
// is looked up in the sender's send queue.
//
// Words: a *short* message is an ordinary one of just a descriptor's size. Where a sender has sent
// a rank both short messages and descriptors of one tag, size alone cannot tell them apart; then
// the message is taken out of the library, looked at, and *set aside*: it is sent to this rank
// itself on a private communicator, so that it is a real, matchable message again. Receives and
// probes look at what was set aside first.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "mpi/job/comms.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/protocol/send_descriptors.hpp"

namespace mh::mpi {

// Messages set aside on any communicator; relaxed, read by every receive. 0 in nearly every
// program.
[[gnu::visibility("hidden")]] extern std::atomic<std::uint32_t> set_aside_count;

// A message that was set aside, ready for MPI_Imrecv.
struct SetAside {
  MPI_Message message;
  Envelope envelope;
  std::optional<SendDescriptor> send;  // what it describes, of this node
};

// The first one that a receive or probe with these arguments would match, taken out.
std::optional<SetAside> take_set_aside(int source, int tag, MPI_Comm comm);

// A receive by message handle (MPI_Mprobe) needs to know where the message came from.
struct Origin {
  std::shared_ptr<Comm> comm;  // the program may free it before it receives the message
  Envelope envelope;
  bool substitute;  // a message set aside: the library takes this rank for its source
  std::optional<SendDescriptor> send;  // what it describes, of this node
};
std::optional<Origin> take_origin(MPI_Message message);

}  // namespace mh::mpi
