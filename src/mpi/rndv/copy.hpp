// SPDX-License-Identifier: BSD-3-Clause
// The copy of a rendezvous message by its receiver, after it has taken the send (send_table.hpp).
// The message is copied by a job, whose chunks several ranks claim; by a pipeline; or as a message
// of the MPI library, if the copy failed.
//
// Any thread. A call returns when its bytes are copied.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/abi.hpp"
#include "mpi/rndv/posted_sends.hpp"
#include "mpi/rndv/receive_buffer.hpp"
#include "observe/trace.hpp"
#include "p2p/end.hpp"
#include "p2p/rts_header.hpp"
#include "p2p/send_table.hpp"
#include "steal/job.hpp"

namespace mh::mpi::rndv {

// Bytes to be copied from one view (memory/view.hpp), an address in the process of a rank, to
// another. At least one of the views is of memory of this process. With `shapes`, the data has gaps
// at an end, and all ranks of the node map both ends.
struct ChunkedCopy {
  memory::View to;
  memory::View from;
  std::uint64_t bytes;
  steal::CopyOrder order;
  p2p::SendSlot* send = nullptr;  // in state `taken`: its sender may claim chunks
  const steal::Shapes* shapes = nullptr;
};
// Copies as a job of this rank if all ranks map both ends or the kernel copies between processes.
// The sender and, for long jobs, idle third ranks claim chunks. This thread copies alone if no
// other rank can, if all job slots are in use, or if the processes that have claimed chunks have
// died. Returns the way of the bytes, mapped memory or copies by the kernel; nothing if the copy
// failed.
std::optional<observe::MessagePath> copy_in_chunks(const ChunkedCopy& copy);

// Copies to the receive buffer `buffer` the message of a send that this rank has taken; if the copy
// fails, asks the sender for a resend. The caller releases the sender afterwards
// (release_sender()). The result has an error code of the MPI library if the resend failed as well.
Delivery copy_taken(const PostedSend& send, const ReceiveBuffer& buffer);

// Records in the trace that this rank has copied a message from the tick `begin` until now.
// `other`: the rank on the node at the other end of the message. With `begin` 0 it records nothing.
void trace_copied(std::uint64_t begin, std::uint64_t bytes, std::uint32_t other,
                  observe::MessagePath path);

// Gives the send buffer back to the sender, and sends the FIN that completes its request, unless a
// blocking call sends (kNoFin). Called by the rank that has moved the data. `sender`: the sender's
// rank on the node.
void release_sender(p2p::SendSlot& send, std::uint32_t sender);

// Sends through the MPI library a contiguous message of this rank that the receiver could not copy.
// `slot`: the index of `send` in this rank's send table. The send buffer stays in use until the
// receiver releases the sender.
void send_by_library(std::uint32_t slot, const p2p::SendSlot& send);

}  // namespace mh::mpi::rndv
