// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3 of the MPI standard, receiving: MPI_Recv, Irecv, Mrecv, Imrecv and the receiving half
// of MPI_Isendrecv.
//
// A blocking receive becomes a nonblocking receive and a wait, so that the rank can help other
// ranks meanwhile. In a tight loop of short messages a blocking receive stays the library's call
// (shortcut.hpp). A receive whose buffer has room for an RTS header is entered in the table of
// receive requests (rndv/receive_requests.hpp), and completed by rndv::complete().
#include "mpi/rndv/receive.hpp"

#include "mpi/calls/shortcut.hpp"
#include "mpi/calls/start_and_wait.hpp"
#include "mpi/collective/arrivals.hpp"
#include "mpi/compat/error_handlers.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/buffered_sends.hpp"
#include "mpi/rndv/completion.hpp"
#include "mpi/rndv/held_messages.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

using rndv::ReceiveRequest;
using rndv::receives;

// Starts to receive a held message, which an earlier probe has taken out of the library
// (rndv/held_messages.hpp).
template <class Count>
int start_held(void* buffer, Count count, MPI_Datatype type, rndv::HeldMessage& held,
               ReceiveRequest& request, MPI_Request* handle) {
  request.is_held_message = held.is_renewed;
  request.envelope = held.envelope();
  request.kept_comm = held.comm;
  request.buffer = {};
  if (held.comm && held.is_renewed) {
    request.buffer = rndv::receive_buffer(*held.comm, buffer, count, type, held.status.MPI_SOURCE);
  }
  const int code = by_count::Imrecv(next, buffer, count, type, &held.message, handle);
  // The buffer is shorter than an RTS header, so this receive truncates the rendezvous message and
  // no other receive will read it. Its sender need not wait any longer.
  if (code == MPI_SUCCESS && held.send && !request.buffer) rndv::discard_message(*held.send);
  return code;
}

// Returns the library's error for these arguments of a receive, which is not started.
template <class Count>
int check_receive(void* buffer, Count count, MPI_Datatype type, int source, int tag,
                  MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = by_count::Recv_init(real, buffer, count, type, source, tag, comm, &request);
  if (code == MPI_SUCCESS) real.Request_free(&request);
  return code;
}

template <class Count>
int start(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
          ReceiveRequest& request, MPI_Request* handle) {
  if (!rndv::may_be_held()) [[likely]]
    return by_count::Irecv(next, buffer, count, type, source, tag, comm, handle);
  const rndv::MatchingStep step(rndv::MatchingStep::Kind::shared);
  if (rndv::report_held(source, tag, comm, MPI_STATUS_IGNORE)) {
    // A receive that the library refuses leaves the held message to the next receive.
    const int code = check_receive(buffer, count, type, source, tag, comm);
    if (code != MPI_SUCCESS) return code;
    if (auto held = rndv::take_held(source, tag, comm))
      return start_held(buffer, count, type, *held, request, handle);
  }
  return by_count::Irecv(next, buffer, count, type, source, tag, comm, handle);
}

template <class Count>
int start_matched(void* buffer, Count count, MPI_Datatype type, MPI_Message* message,
                  ReceiveRequest& request, MPI_Request* handle) {
  auto held = rndv::take_held(*message);
  if (!held) return by_count::Imrecv(next, buffer, count, type, message, handle);
  const std::shared_ptr<Comm> comm = held->comm;
  const int code = start_held(buffer, count, type, *held, request, handle);
  if (code == MPI_SUCCESS) {
    *message = MPI_MESSAGE_NULL;
    return code;
  }
  rndv::return_as_matched(std::move(*held), message, MPI_STATUS_IGNORE);
  return comm ? raise(comm->handle, code) : code;
}

bool needs_completion(const ReceiveRequest& request) {
  return request.buffer || request.is_held_message;
}

// Enters a nonblocking receive in the table of receive requests, by the handle that the program
// will complete. `code`: the result of the receive's start.
int enter_started(int code, ReceiveRequest& request, MPI_Request handle) {
  if (code != MPI_SUCCESS || !needs_completion(request)) {
    receives.discard(request);
    return code;
  }
  rndv::post_receive(request);
  receives.enter(request, handle);
  arrivals::started_receive();
  return code;
}

// Enters a blocking receive in the table of receive requests, already claimed by this thread, which
// waits for it. `code`: the result of the receive's start.
int enter_blocking(int code, ReceiveRequest& request, BlockingReceive& receive) {
  if (code != MPI_SUCCESS || !needs_completion(request)) {
    receives.discard(request);
    return code;
  }
  request.blocking = true;
  request.claimed.store(true, std::memory_order_relaxed);  // before other threads find the request
  receives.enter(request, receive.request);
  receive.claim = rndv::ReceiveClaim(&request);
  return code;
}

}  // namespace

template <class Count>
int start_blocking_receive(void* buffer, Count count, MPI_Datatype type, int source, int tag,
                           MPI_Comm comm, BlockingReceive& receive) {
  receive.comm = comm;
  if (source == MPI_PROC_NULL) return MPI_SUCCESS;
  ReceiveRequest& request =
      receives.make(rndv::receive_buffer(buffer, count, type, source, comm), {source, tag});
  const int code = start(buffer, count, type, source, tag, comm, request, &receive.request);
  return enter_blocking(code, request, receive);
}

template int start_blocking_receive(void*, int, MPI_Datatype, int, int, MPI_Comm, BlockingReceive&);
template int start_blocking_receive(void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
                                    BlockingReceive&);

int await_library(BlockingReceive& receive, MPI_Status* status) {
  // A receive from MPI_PROC_NULL was not started. The library's blocking receive fills the status
  // as the standard says.
  if (receive.request == MPI_REQUEST_NULL)
    return next.Recv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, receive.comm, status);
  // If no RTS header can come and this rank has no rendezvous send under way, only the latency of
  // the receive counts: this wait tests many times before it helps other ranks.
  const bool latency = !receive.claim && services.send_table.empty();
  const int polls = latency ? wait::kManyPolls : wait::kFewPolls;
  if (switches.errors_are_fatal) return await_request(&receive.request, status, polls);
  error_handlers::ReceiveErrors errors(receive.comm);
  return errors.raised(await_request(&receive.request, status, polls));
}

int complete_short_receive(int code, void* buffer, MPI_Count count, MPI_Datatype type, int source,
                           int tag, MPI_Comm comm, MPI_Status* status) {
  if (code != MPI_SUCCESS) return rndv::complete({}, code, status);
  const datatypes::Info info = datatypes::info(type);
  if (message_bytes(count, info) < p2p::kRtsBytes || buffer == nullptr) return code;
  if (info.contiguous && !p2p::opens_rts(buffer, config.key)) return code;
  return rndv::complete_blocking(rndv::receive_buffer(buffer, count, type, source, comm),
                                 {.source = source, .tag = tag}, status);
}

namespace {

template <class Count>
int receive_short(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Status* users) {
  StatusOrOwn status(users);
  const int code = by_count::Recv(next, buffer, count, type, source, tag, comm, status.get());
  return complete_short_receive(code, buffer, count, type, source, tag, comm, status.get());
}

// True if MPI_Recv needs nothing but the library's call: no RTS header fits into the buffer, and
// errors end the program. The library's call is then a tail call, which saves a return from deep in
// the library's wait: 50 ns in Open MPI 5.
template <class Count>
bool passes_to_library(Count count, MPI_Datatype type) {
  return datatypes::known(count, type).bytes < p2p::kRtsBytes && switches.errors_are_fatal &&
         may_pass_to_library();
}

template <class Count>
[[gnu::noinline]] int receive(void* buffer, Count count, MPI_Datatype type, int source, int tag,
                              MPI_Comm comm, MPI_Status* users) {
  if (is_short(message_bytes(count, datatypes::info(type))) && may_wait_in_library())
    return receive_short(buffer, count, type, source, tag, comm, users);
  StatusOrOwn status(users);
  BlockingReceive receive;
  int code = start_blocking_receive(buffer, count, type, source, tag, comm, receive);
  if (code != MPI_SUCCESS) return code;
  code = await_library(receive, status.get());
  return rndv::complete(std::move(receive.claim), code, status.get());
}

template <class Count>
[[gnu::noinline]] int start_any_receive(void* buffer, Count count, MPI_Datatype type, int source,
                                        int tag, MPI_Comm comm, MPI_Request* handle) {
  ReceiveRequest& request =
      receives.make(rndv::receive_buffer(buffer, count, type, source, comm), {source, tag});
  const int code = start(buffer, count, type, source, tag, comm, request, handle);
  return enter_started(code, request, *handle);
}

template <class Count>
int start_receive(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request* handle) {
  // No RTS header fits into the buffer, so the library's call is enough, as a tail call.
  if (datatypes::known(count, type).bytes < p2p::kRtsBytes && !rndv::may_be_held()) [[likely]] {
    return by_count::Irecv(next, buffer, count, type, source, tag, comm, handle);
  }
  return start_any_receive(buffer, count, type, source, tag, comm, handle);
}

template <class Count>
int receive_matched(void* buffer, Count count, MPI_Datatype type, MPI_Message* message,
                    MPI_Status* status) {
  if (*message == MPI_MESSAGE_NO_PROC)
    return by_count::Mrecv(next, buffer, count, type, message, status);
  ReceiveRequest& request = receives.make({}, {});
  BlockingReceive receive;
  int code = start_matched(buffer, count, type, message, request, &receive.request);
  if (enter_blocking(code, request, receive) != MPI_SUCCESS) return code;
  StatusOrOwn seen(status);
  code = await_library(receive, seen.get());
  return rndv::complete(std::move(receive.claim), code, seen.get());
}

template <class Count>
int start_receive_matched(void* buffer, Count count, MPI_Datatype type, MPI_Message* message,
                          MPI_Request* handle) {
  ReceiveRequest& request = receives.make({}, {});
  const int code = start_matched(buffer, count, type, message, request, handle);
  return enter_started(code, request, *handle);
}

// Enters the receiving half of MPI_Isendrecv, which the library has started, in the table of
// receive requests.
void enter_combined(void* buffer, MPI_Count count, MPI_Datatype type, int source, int tag,
                    MPI_Comm comm, MPI_Request handle) {
  if (!switches.active || source == MPI_PROC_NULL) return;
  ReceiveRequest& request =
      receives.make(rndv::receive_buffer(buffer, count, type, source, comm), {source, tag});
  request.ignores_status = true;  // in MPICH 4.1 and later
  enter_started(MPI_SUCCESS, request, handle);
}

}  // namespace
}  // namespace mh::mpi

#include "mpi/calls/receive.inc"
