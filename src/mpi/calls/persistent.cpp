// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3 of the MPI standard, persistent requests, and MPI_Request_free.
#include "mpi/calls/start_and_wait.hpp"
#include "mpi/collective/arrivals.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/held_messages.hpp"
#include "mpi/rndv/persistent_sends.hpp"
#include "mpi/rndv/receive.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

using rndv::ReceiveRequest;
using rndv::receives;

void make_persistent_send(SendMode mode, const void* buffer, MPI_Count count, MPI_Datatype type,
                          int dest, int tag, MPI_Comm comm, MPI_Request* request) {
  if (!switches.active || count <= 0) return;
  rndv::note_rts_sized_send(count, type, dest, tag, comm);
  rndv::make_persistent_send({.buffer = buffer,
                              .bytes = message_bytes(count, datatypes::info(type)),
                              .dest = dest,
                              .tag = tag,
                              .comm = comm,
                              .synchronous = mode == SendMode::synchronous},
                             type, request);
}

int start_in_library(MPI_Request* request) {
  const rndv::MatchingStep step(rndv::MatchingStep::Kind::shared);
  return next.Start(request);
}

int start_receive(MPI_Request* request) {
  const int code = start_in_library(request);
  if (code != MPI_SUCCESS) return code;
  if (const rndv::ReceiveClaim claim = receives.claim(*request)) {
    rndv::post_receive(*claim);
    receives.start(*claim);
    arrivals::started_receive();
  }
  return code;
}

int start_one(MPI_Request* request) {
  const auto code = rndv::start_persistent_send(request);
  return code ? *code : start_receive(request);
}

int start_all(int count, MPI_Request* requests) {
  for (int i = 0; i < count; ++i) {
    const int code = start_one(&requests[i]);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

template <class Count>
int make_receive(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                 MPI_Request* handle) {
  const int code = by_count::Recv_init(next, buffer, count, type, source, tag, comm, handle);
  if (code != MPI_SUCCESS) return code;
  // A receive request that is still known under this handle belongs to a persistent receive that
  // has failed: Open MPI has freed the receive and reuses its handle. The failed receive's request
  // is removed here.
  if (rndv::ReceiveClaim failed = receives.claim(*handle)) {
    rndv::unpost_receive(*failed);
    receives.erase(*failed);
    failed.drop();
  }
  ReceiveRequest& request =
      receives.make(rndv::receive_buffer(buffer, count, type, source, comm), {source, tag});
  request.persistent = true;
  if (request.buffer) {
    receives.enter(request, *handle);
  } else {
    receives.discard(request);
  }
  return code;
}

int free_request(MPI_Request* request) {
  if (rndv::free_persistent_send(*request)) {
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
  }
  rndv::ReceiveClaim claim = receives.claim(*request);
  if (!claim) return next.Request_free(request);
  // If the receive that the program frees is started, its message will still come. The wait loop
  // completes the receive request then; the program no longer knows it.
  if (claim->started) {
    detached_operations.fetch_add(1, std::memory_order_relaxed);
    receives.free(*claim);
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
  }
  receives.free(*claim);
  claim.drop();
  return next.Request_free(request);
}

}  // namespace
}  // namespace mh::mpi

#include "mpi/calls/persistent.inc"
