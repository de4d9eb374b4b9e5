// SPDX-License-Identifier: BSD-3-Clause
// The copy of a rendezvous message once the receiver has taken the send: a job of several ranks,
// a pipeline, or a message of the library if memory could not be read.
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

// Bytes to be copied from a view to a view, at least one of them of this process. With `shapes`,
// the bytes have gaps at an end, and all ranks of the node map both ends.
struct ChunkedCopy {
  memory::View to;
  memory::View from;
  std::uint64_t bytes;
  steal::CopyOrder order;
  p2p::SendSlot* send = nullptr;  // in state `taken`: its sender helps
  const steal::Shapes* shapes = nullptr;
};
// Copies as a job with which idle ranks help, if the bytes are mapped or the kernel copies between
// processes; third ranks help only with long jobs. This thread copies alone if no other rank can,
// all job slots are in use, or the helpers have died. Returns the path of the bytes, mapped or
// kernel; nothing if the copy failed.
std::optional<observe::MessagePath> copy_in_chunks(const ChunkedCopy& copy);

// Copies the message of a send that this rank has taken to the buffer, and does not release the
// sender yet. The result has a code of the library if both the copy and the resend failed.
Delivery copy_taken(const PostedSend& send, const ReceiveBuffer& buffer);

// Records in the trace that this rank has copied a message, from `begin` until now. `other`: the
// other end's rank on the node. `begin` 0: records nothing.
void trace_copied(std::uint64_t begin, std::uint64_t bytes, std::uint32_t other,
                  observe::MessagePath path);

// Gives the send buffer back to the sender, and sends a FIN if a request waits for one.
void release_sender(p2p::SendSlot& send, std::uint32_t sender);

// Sends, through the MPI library, a message of contiguous data that the receiver could not copy.
// The buffer stays in use until the receiver releases the sender.
void send_by_library(std::uint32_t slot, const p2p::SendSlot& send);

}  // namespace mh::mpi::rndv
