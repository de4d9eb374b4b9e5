// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, sending: MPI_Send, Ssend, Rsend and their non-blocking forms.
//
// Short messages go straight on. A message that could wait for its receiver becomes start + wait,
// so that the rank can help meanwhile. A long contiguous message to a neighbour is described
// where that pays (sender.hpp). A described send is a synchronous one (it ends when the bytes
// were taken), which satisfies the standard, synchronous and ready modes alike; the buffered mode
// is left to the library. A long noncontiguous one to another node goes by internode pipeline
// (internode.hpp).
#include "mpi/calls/exchange.hpp"
#include "mpi/calls/shortcut.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/protocol/sender.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// Below this a standard-mode send never waits for its receiver (every supported library sends it
// eagerly), so it needs no wait loop and no request.
constexpr std::uint64_t kNeverWaits = 2048;

// The library's call for a mode. Inlined, so that for a short message it is a jump.
template <class... Arguments>
[[gnu::always_inline]] inline int send_now(Mode mode, Arguments... arguments) {
  if (mode == Mode::standard) return by_count::Send(next, arguments...);
  return mode == Mode::ready ? by_count::Rsend(next, arguments...)
                             : by_count::Ssend(next, arguments...);
}
template <class... Arguments>
[[gnu::always_inline]] inline int start_now(Mode mode, Arguments... arguments) {
  if (mode == Mode::standard) return by_count::Isend(next, arguments...);
  return mode == Mode::ready ? by_count::Irsend(next, arguments...)
                             : by_count::Issend(next, arguments...);
}

}  // namespace

template <class Count>
int depart(Mode mode, const void* buffer, Count count, MPI_Datatype type, int dest, int tag,
           MPI_Comm comm, Departure& departure) {
  const datatypes::Info info = datatypes::info(type);
  Outgoing message{buffer, message_bytes(count, info), dest, tag, comm, departure.exchange};
  if (message.bytes == p2p::kDescriptorBytes) note_short(dest, comm);
  if (message.bytes >= config.threshold && may_describe(message, type, info)) {
    departure.slot = post(message, p2p::kNoFin);
    if (departure.slot) return send_descriptor(*departure.slot, message);
  }
  if (mode != Mode::synchronous) {
    departure.internode_id = internode::take(message, type, info);
    if (departure.internode_id) return internode::send(*departure.internode_id, message);
  }
  return start_now(mode, buffer, count, type, dest, tag, comm, &departure.request);
}

template int depart(Mode, const void*, int, MPI_Datatype, int, int, MPI_Comm, Departure&);
template int depart(Mode, const void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, Departure&);

int await(Departure& departure) {
  if (departure.slot) {
    await_taken(*departure.slot);
  } else if (departure.internode_id) {
    internode::await(*departure.internode_id);
  } else {
    return await_request(&departure.request, MPI_STATUS_IGNORE);
  }
  return MPI_SUCCESS;
}

namespace {

template <class Count>
[[gnu::noinline]] int send_any(Mode mode, const void* buffer, Count count, MPI_Datatype type,
                               int dest, int tag, MPI_Comm comm) {
  const std::uint64_t bytes = message_bytes(count, datatypes::info(type));
  const bool never_waits = bytes < kNeverWaits && mode != Mode::synchronous;
  if (never_waits || (is_short(bytes) && may_wait_in_library())) {
    if (bytes == p2p::kDescriptorBytes) note_short(dest, comm);
    return send_now(mode, buffer, count, type, dest, tag, comm);
  }
  Departure departure;
  const int code = depart(mode, buffer, count, type, dest, tag, comm, departure);
  return code == MPI_SUCCESS ? await(departure) : code;
}

template <class Count>
int send(Mode mode, const void* buffer, Count count, MPI_Datatype type, int dest, int tag,
         MPI_Comm comm) {
  const std::uint64_t bytes = datatypes::known(count, type).bytes;
  const bool ends_there =
      bytes < kNeverWaits && bytes != p2p::kDescriptorBytes && mode != Mode::synchronous;
  return ends_there ? send_now(mode, buffer, count, type, dest, tag, comm)
                    : send_any(mode, buffer, count, type, dest, tag, comm);
}

template <class Count>
[[gnu::noinline]] int start_any_send(Mode mode, const void* buffer, Count count, MPI_Datatype type,
                                     int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  const datatypes::Info info = datatypes::info(type);
  Outgoing message{buffer, message_bytes(count, info), dest, tag, comm};
  if (message.bytes == p2p::kDescriptorBytes) note_short(dest, comm);
  message.exchange = Exchange::started;
  if (message.bytes >= config.threshold && may_describe(message, type, info)) {
    if (const auto slot = post(message, p2p::SendQueue::kOwnTag)) {
      int code = receive_completion(*slot, request);
      if (code != MPI_SUCCESS) return code;
      code = send_descriptor(*slot, message);
      if (code != MPI_SUCCESS) drop_receive(*request);
      return code;
    }
  }
  if (mode != Mode::synchronous) {
    if (const auto internode_id = internode::take(message, type, info, internode::kOwnFin)) {
      int code = internode::receive_fin(*internode_id, request);
      if (code != MPI_SUCCESS) return code;
      code = internode::send(*internode_id, message);
      if (code != MPI_SUCCESS) drop_receive(*request);
      return code;
    }
  }
  return start_now(mode, buffer, count, type, dest, tag, comm, request);
}

template <class Count>
int start_send(Mode mode, const void* buffer, Count count, MPI_Datatype type, int dest, int tag,
               MPI_Comm comm, MPI_Request* request) {
  const std::uint64_t bytes = datatypes::known(count, type).bytes;
  const bool as_given = bytes < config.threshold && bytes != p2p::kDescriptorBytes;
  return as_given ? start_now(mode, buffer, count, type, dest, tag, comm, request)
                  : start_any_send(mode, buffer, count, type, dest, tag, comm, request);
}

}  // namespace
}  // namespace mh::mpi

// The wrappers, generated from calls.json.
#include "mpi/calls/send.inc"
