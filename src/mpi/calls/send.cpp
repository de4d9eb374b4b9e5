// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3 of the MPI standard, sending: MPI_Send, Ssend, Rsend and their non-blocking forms.
//
// A short message goes straight to the library. A send that may wait for its receiver becomes a
// nonblocking send and a wait, so that the rank can help meanwhile. A long message to a rank of the
// node goes by rendezvous where that is faster (rndv/send.hpp). A rendezvous send completes after
// the copy. This satisfies the standard, synchronous and ready modes of MPI; buffered sends are the
// library's. A long message with gaps to another node goes by internode pipeline
// (internode/internode.hpp).
#include "mpi/rndv/send.hpp"

#include "mpi/calls/shortcut.hpp"
#include "mpi/calls/start_and_wait.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// In bytes. Every supported library sends a shorter message in standard mode before its receiver
// has come. Such a send never waits and needs no wait loop.
constexpr std::uint64_t kNeverWaits = 2048;

// Makes the library's call for a send mode (MPI_Send, MPI_Ssend or MPI_Rsend). Inlined, so that a
// short send ends in a tail call of the library.
template <class... Arguments>
[[gnu::always_inline]] inline int send_now(SendMode mode, Arguments... arguments) {
  if (mode == SendMode::standard) return by_count::Send(next, arguments...);
  return mode == SendMode::ready ? by_count::Rsend(next, arguments...)
                                 : by_count::Ssend(next, arguments...);
}
template <class... Arguments>
[[gnu::always_inline]] inline int start_now(SendMode mode, Arguments... arguments) {
  if (mode == SendMode::standard) return by_count::Isend(next, arguments...);
  return mode == SendMode::ready ? by_count::Irsend(next, arguments...)
                                 : by_count::Issend(next, arguments...);
}

template <class Count>
OutgoingMessage message_of(SendMode mode, const void* buffer, Count count,
                           const datatypes::Info& info, int dest, int tag, MPI_Comm comm) {
  return {.buffer = buffer,
          .bytes = message_bytes(count, info),
          .dest = dest,
          .tag = tag,
          .comm = comm,
          .synchronous = mode == SendMode::synchronous};
}

// Reserves a slot of the send table, or else an internode send, for the message. False if the
// library has to send it. `has_request`: the program gets a request, which a FIN message completes
// (MPI_Isend).
bool reserve(OutgoingMessage& message, MPI_Datatype type, const datatypes::Info& info,
             bool has_request, SendRequest& send) {
  message.pattern = send.pattern;
  message.holds_rts_header = send.holds_rts_header;
  rndv::note_rts_sized_send(message.bytes, message.dest, message.tag, message.comm);
  if (rndv::choose_rendezvous(message, type, info))
    send.slot = rndv::post_send(message, has_request ? p2p::SendTable::kOwnTag : p2p::kNoFin);
  if (!send.slot && !message.synchronous) {
    const int fin_tag = has_request ? internode::kOwnFin : internode::kNoFin;
    send.internode_id = internode::reserve_send(message, type, info, fin_tag);
  }
  return send.slot || send.internode_id;
}

int start_reserved(const SendRequest& send, const OutgoingMessage& message) {
  return send.slot ? rndv::send_rts(*send.slot, message)
                   : internode::start_send(*send.internode_id, message);
}

// Starts a send for which reserve() has reserved a slot or an internode send. The program's request
// is the receive of the FIN, which is started before the RTS header is sent, so that the FIN is
// never an unexpected message.
int start_with_fin(const SendRequest& send, const OutgoingMessage& message, MPI_Request* request) {
  int code = send.slot ? rndv::receive_fin(*send.slot, request)
                       : internode::receive_fin(*send.internode_id, request);
  if (code != MPI_SUCCESS) return code;
  code = start_reserved(send, message);
  if (code != MPI_SUCCESS) drop_receive(*request);
  return code;
}

}  // namespace

template <class Count>
int start_send(SendMode mode, const void* buffer, Count count, MPI_Datatype type, int dest, int tag,
               MPI_Comm comm, SendRequest& send) {
  const datatypes::Info info = datatypes::info(type);
  OutgoingMessage message = message_of(mode, buffer, count, info, dest, tag, comm);
  if (reserve(message, type, info, false, send)) return start_reserved(send, message);
  return start_now(mode, buffer, count, type, dest, tag, comm, &send.request);
}

template int start_send(SendMode, const void*, int, MPI_Datatype, int, int, MPI_Comm, SendRequest&);
template int start_send(SendMode, const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
                        SendRequest&);

int wait_for(SendRequest& send) {
  if (send.slot) {
    rndv::await_done(*send.slot);
  } else if (send.internode_id) {
    internode::await_send(*send.internode_id);
  } else {
    return await_request(&send.request, MPI_STATUS_IGNORE);
  }
  return MPI_SUCCESS;
}

namespace {

template <class Count>
[[gnu::noinline]] int send_any(SendMode mode, const void* buffer, Count count, MPI_Datatype type,
                               int dest, int tag, MPI_Comm comm) {
  const std::uint64_t bytes = message_bytes(count, datatypes::info(type));
  const bool never_waits = bytes < kNeverWaits && mode != SendMode::synchronous;
  if (never_waits || (is_short(bytes) && may_wait_in_library())) {
    rndv::note_rts_sized_send(bytes, dest, tag, comm);
    return send_now(mode, buffer, count, type, dest, tag, comm);
  }
  SendRequest send;
  const int code = start_send(mode, buffer, count, type, dest, tag, comm, send);
  return code == MPI_SUCCESS ? wait_for(send) : code;
}

template <class Count>
int send(SendMode mode, const void* buffer, Count count, MPI_Datatype type, int dest, int tag,
         MPI_Comm comm) {
  const std::uint64_t bytes = datatypes::known(count, type).bytes;
  const bool ends_there =
      bytes < kNeverWaits && bytes != p2p::kRtsBytes && mode != SendMode::synchronous;
  return ends_there ? send_now(mode, buffer, count, type, dest, tag, comm)
                    : send_any(mode, buffer, count, type, dest, tag, comm);
}

template <class Count>
[[gnu::noinline]] int start_any_send(SendMode mode, const void* buffer, Count count,
                                     MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                                     MPI_Request* request) {
  const datatypes::Info info = datatypes::info(type);
  OutgoingMessage message = message_of(mode, buffer, count, info, dest, tag, comm);
  SendRequest send{.pattern = SendPattern::nonblocking};
  if (reserve(message, type, info, true, send)) return start_with_fin(send, message, request);
  return start_now(mode, buffer, count, type, dest, tag, comm, request);
}

template <class Count>
int start_send(SendMode mode, const void* buffer, Count count, MPI_Datatype type, int dest, int tag,
               MPI_Comm comm, MPI_Request* request) {
  const std::uint64_t bytes = datatypes::known(count, type).bytes;
  const bool as_given = bytes < config.least_threshold && bytes != p2p::kRtsBytes;
  return as_given ? start_now(mode, buffer, count, type, dest, tag, comm, request)
                  : start_any_send(mode, buffer, count, type, dest, tag, comm, request);
}

}  // namespace
}  // namespace mh::mpi

#include "mpi/calls/send.inc"
