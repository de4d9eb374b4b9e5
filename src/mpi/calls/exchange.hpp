// SPDX-License-Identifier: BSD-3-Clause
// The two halves of blocking communication: a send and a receive that are started, and awaited with
// the wait loop. MPI_Send is one half, MPI_Recv the other, MPI_Sendrecv both.
//
// `Count` is int or MPI_Count (the library's _c forms).
#pragma once

#include "mpi/protocol/internode_send.hpp"
#include "mpi/protocol/pending_requests.hpp"
#include "mpi/protocol/sender.hpp"

namespace mh::mpi {

enum class Mode : std::uint8_t { standard, synchronous, ready };

// A send under way: described (then the slot is awaited), by internode pipeline, or the library's
// own request.
struct Departure {
  Exchange exchange = Exchange::unknown;  // set before depart()
  std::optional<Slot> slot;
  std::optional<internode::SendId> internode_id{};
  MPI_Request request = MPI_REQUEST_NULL;
};

template <class Count>
int depart(Mode mode, const void* buffer, Count count, MPI_Datatype type, int dest, int tag,
           MPI_Comm comm, Departure& departure);
int await(Departure& departure);

// A receive under way, and what is to be done when it completes.
struct Arrival {
  MPI_Request request = MPI_REQUEST_NULL;
  Receipt receipt{};
  TypeHold hold{};
  MPI_Comm comm = MPI_COMM_NULL;
  bool is_matched = false;  // with a message that a probe has taken out
};

template <class Count>
int expect(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
           Arrival& arrival);
int await(Arrival& arrival, MPI_Status* status);

// A receive shorter than any described message that the library's blocking call has completed with
// `code`. Only by mistake can a descriptor lie there: then the message was too long. Returns the
// code for the caller.
int close_short(int code, void* buffer, MPI_Count count, MPI_Datatype type, int source,
                MPI_Comm comm, MPI_Status* status);

}  // namespace mh::mpi
