// SPDX-License-Identifier: BSD-3-Clause
// Blocking communication as a nonblocking start and a wait in the wait loop: the parts of MPI_Send
// and of MPI_Recv, from which MPI_Sendrecv is made, too.
//
// `Count` is int, or MPI_Count for the calls with large counts (MPI_Send_c).
#pragma once

#include "mpi/compat/outgoing_message.hpp"
#include "mpi/internode/send.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "mpi/rndv/send.hpp"

namespace mh::mpi {

enum class SendMode : std::uint8_t { standard, synchronous, ready };

// A send under way in a blocking call: by rendezvous, by internode pipeline, or by the library.
struct SendRequest {
  SendPattern pattern = SendPattern::unknown;  // set before start_send()
  bool holds_rts_header = false;               // as in OutgoingMessage; set before start_send()
  std::optional<rndv::Slot> slot{};
  std::optional<internode::SendId> internode_id{};
  MPI_Request request = MPI_REQUEST_NULL;
};

// Starts the send of a blocking call and returns the library's code. After a success,
// wait_for(send) waits until the program may use its buffer again.
template <class Count>
int start_send(SendMode mode, const void* buffer, Count count, MPI_Datatype type, int dest, int tag,
               MPI_Comm comm, SendRequest& send);
int wait_for(SendRequest& send);

// A receive under way in a blocking call (MPI_Recv or MPI_Sendrecv).
struct BlockingReceive {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;  // null: from MPI_PROC_NULL
  rndv::ReceiveClaim claim{};              // empty if no RTS header can come
};

// Starts the receive of a blocking call and returns the library's code. Starts nothing if `source`
// is MPI_PROC_NULL; await_library() then fills the status.
template <class Count>
int start_blocking_receive(void* buffer, Count count, MPI_Datatype type, int source, int tag,
                           MPI_Comm comm, BlockingReceive& receive);
// Waits until the library has completed the receive, and returns the library's code. The caller
// then passes receive.claim to rndv::complete(), which fetches a rendezvous message.
int await_library(BlockingReceive& receive, MPI_Status* status);

// Completes a receive whose buffer is shorter than any rendezvous message, after the library's
// blocking call has returned `code`. Such a buffer holds an RTS header only if the sender's message
// was too long for the receive. Returns the code for the program.
int complete_short_receive(int code, void* buffer, MPI_Count count, MPI_Datatype type, int source,
                           int tag, MPI_Comm comm, MPI_Status* status);

}  // namespace mh::mpi
