// SPDX-License-Identifier: BSD-3-Clause
// The copy of a rendezvous message once the receiver has taken the send: a job of several ranks,
// a pipeline, or a message of the library if memory could not be read.
//
// Any thread. A call returns when its bytes are copied.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/abi.hpp"
#include "mpi/job/services.hpp"
#include "observe/trace.hpp"
#include "p2p/end.hpp"
#include "p2p/rts_header.hpp"
#include "p2p/send_table.hpp"
#include "steal/job.hpp"

namespace mh::mpi::rndv {

inline p2p::End end_at(const void* address) { return {.base = layout::address_of(address)}; }

// Copies contiguous bytes as a job that the sender of `send` (unless null) and idle ranks help
// with. If the bytes are not mapped and the kernel copies nothing between processes, this rank
// copies alone. Returns the path of the bytes, mapped or kernel; nothing if memory could not be
// read or written.
std::optional<observe::MessagePath> copy_in_chunks(const memory::View& to, const memory::View& from,
                                                   std::uint64_t bytes, steal::CopyOrder order,
                                                   p2p::SendSlot* send);

// A message whose send this rank has taken, and the destination of its first `bytes`.
struct TakenMessage {
  std::uint32_t sender;  // rank on the node
  std::uint32_t slot;    // of the sender's send table
  p2p::End to;
  std::uint64_t bytes;
  steal::CopyOrder order;

  [[nodiscard]] p2p::SendSlot& send() const { return services.area(sender).send_table.slots[slot]; }
};
// Copies the message. The sender is not released yet. Returns MPI_SUCCESS, or the library's code if
// both the copy and the resend failed.
int copy_taken(const TakenMessage& message);

// Records in the trace that this rank has copied a message, from `begin` until now. `other`: the
// other end's rank on the node. `begin` 0: records nothing.
void trace_copied(std::uint64_t begin, std::uint64_t bytes, std::uint32_t other,
                  observe::MessagePath path);

// Gives the send buffer back to the sender, and sends the FIN.
void release_sender(p2p::SendSlot& send, std::uint32_t sender);

// Sends, through the MPI library, a message of contiguous data that the receiver could not copy.
// The buffer stays in use until the receiver releases the sender.
void send_by_library(std::uint32_t slot, const p2p::SendSlot& send);

// Copies between two layouts by a message from this rank to itself. Unlike MPI_Pack, a message
// accepts MPI_BOTTOM in every library, and an incomplete last element. Returns the library's code.
int send_to_self(const void* from, MPI_Count count, MPI_Datatype type, void* to, MPI_Count room,
                 MPI_Datatype to_type);

}  // namespace mh::mpi::rndv
