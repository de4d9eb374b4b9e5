// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/completion.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/compat/error_handlers.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/buffered_sends.hpp"
#include "mpi/rndv/receive.hpp"
#include "p2p/rts_header.hpp"

namespace mh::mpi::rndv {
namespace {

// Pins the request: gives this thread alone the right to fetch the request's message. Waits while
// another thread has pinned the request.
void await_pin(ReceiveRequest& request) {
  wait::until([&] { return request.pin(); });
}

// Gives the status the source, tag and size of the program's message, where those that the MPI
// library has reported are of an RTS header or of a message from this rank to itself.
void correct(MPI_Status* status, const ReceiveRequest& request) {
  if (request.is_held_message) set_envelope(status, request.envelope);
  if (request.delivery) set_bytes(status, request.delivery->bytes);
}

// True if searching the buffer of a started receive for an RTS header is worth its cost. If only
// the MPI library can read the datatype, a search costs a message from this rank to itself, so only
// the rare `patient` searches are then worth it. MPI_Test cannot replace the search, because
// another thread may have completed the request in the library, which frees the handle.
bool may_look_into(const ReceiveRequest& request, bool patient) {
  return request.buffer.contiguous || patient || layouts::of(request.buffer.type) != nullptr;
}

// True if the RTS header of a send of this node is in the buffer of the started receive. The
// request is then pinned, so that only the caller may fetch its message. If the buffer holds the
// header of a message from another node, the function begins to receive that message and returns
// false.
bool pin_if_landed(ReceiveRequest& request, bool patient) {
  // After the message of an orphaned request, one that the program has freed, has come, the program
  // may have freed the buffer.
  if (!request.buffer || request.blocking || request.orphaned) return false;
  if (!may_look_into(request, patient)) return false;
  if (!request.pin()) return false;
  if (!request.delivery && !request.incoming) {
    request.incoming = begin_incoming(request);
    if (!request.incoming && has_landed(request)) return true;
  }
  request.unpin();
  return false;
}

// True if other receives among `others`, which include `request`, have the buffer of `request`,
// too. The RTS header in that buffer may belong to any of these receives until the MPI library
// completes one of them.
bool shares_buffer(const ReceiveRequest& request, const std::vector<ReceiveRequest*>& others) {
  return std::ranges::count_if(others, [&](const ReceiveRequest* other) {
           return other->buffer.address == request.buffer.address;
         }) > 1;
}

// Ends the request of `claim`, which this thread has pinned (no other thread may fetch its
// message). Removes the request from the table of receive requests, in which only a persistent
// request stays.
void end_request(ReceiveClaim& claim) {
  ReceiveRequest& request = *claim;
  unpost_receive(request);
  request.delivery.reset();
  receives.finish(request);  // now the wait loop no longer finds the request
  request.unpin();
  if (request.persistent) return;
  claim.drop();
  receives.discard(request);
}

// Completes a request that has failed in the MPI library with `code`, and so has no message to
// fetch. Returns the code for the program.
int complete_failed(ReceiveClaim& claim, int code, MPI_Status* status) {
  if (is_truncation(code)) end_rendezvous_after_truncation();
  if (!claim || !claim->started) return code;
  ReceiveRequest& request = *claim;
  await_pin(request);
  if (request.is_held_message) {
    set_envelope(status, request.envelope);
    code = error_handlers::raise_for_held_message(request.kept_comm.get(), code);
  }
  end_request(claim);
  return code;
}

// Calls the error handler for the error `code` of a rendezvous message on the communicator of its
// receive. If no call of the program awaits the message, no handler is called. Returns `code`.
int fail_on(const std::shared_ptr<Comm>& comm, int code, bool is_awaited) {
  if (code == MPI_ERR_TRUNCATE) end_rendezvous_after_truncation();
  if (!is_awaited) return code;
  return raise(comm != nullptr ? comms::for_errors(*comm) : MPI_COMM_WORLD, code);
}

}  // namespace

int complete(ReceiveClaim claim, int code, MPI_Status* status) {
  if (code != MPI_SUCCESS) return complete_failed(claim, code, status);
  if (!claim || !claim->started) return code;
  ReceiveRequest& request = *claim;
  await_pin(request);
  if (!request.delivery) request.delivery = fetch_message(request, status);
  correct(status, request);
  if (request.delivery) code = request.delivery->code;
  if (code == MPI_SUCCESS) {
    end_request(claim);
    return code;
  }
  const auto comm = comms::share(request.buffer.comm);
  const bool is_awaited = !request.orphaned;
  end_request(claim);
  return fail_on(comm, code, is_awaited);
}

int complete_blocking(const ReceiveBuffer& buffer, const MessageEnvelope& envelope,
                      MPI_Status* status) {
  if (!buffer) return MPI_SUCCESS;
  ReceiveRequest request;
  request.buffer = buffer;
  request.envelope = envelope;
  const auto delivery = fetch_message(request, status);
  if (!delivery) return MPI_SUCCESS;
  set_bytes(status, delivery->bytes);
  return delivery->code == MPI_SUCCESS ? MPI_SUCCESS
                                       : fail_on(comms::share(buffer.comm), delivery->code, true);
}

void correct_status(MPI_Request handle, MPI_Status* status) {
  const ReceiveClaim claim = receives.claim(handle);
  if (!claim || !claim->started) return;
  ReceiveRequest& request = *claim;
  await_pin(request);
  if (!request.delivery) request.delivery = fetch_message(request, status);
  correct(status, request);
  request.unpin();
}

void fetch_landed_messages() {
  // The ticks at which the wait loop next looks for RTS headers in receive buffers. Guarded by the
  // lock under which the wait loop calls its steps (wait/wait.cpp).
  static std::uint64_t next_look = 0;
  static std::uint64_t next_patient_look = 0;
  static std::uint64_t next_look_at_short = 0;
  if (!receives.any()) return;
  const std::uint64_t now = ticks();
  if (now < next_look) return;
  next_look = now + ticks_from_ns(tuning::kLookAtLandedNs);
  const bool patient = now >= next_patient_look;
  if (patient) next_patient_look = now + ticks_from_ns(tuning::kGatherLandedNs);
  const bool all = now >= next_look_at_short;
  if (all) next_look_at_short = now + ticks_from_ns(tuning::kLookAtShortNs);
  const auto landed = receives.select(
      all, [&](ReceiveRequest& request) { return pin_if_landed(request, patient); });
  for (ReceiveRequest* request : landed) {
    if (!shares_buffer(*request, landed)) request->delivery = fetch_message(*request, nullptr);
    request->unpin();
  }
}

void complete_orphans() {
  if (detached_operations.load(std::memory_order_relaxed) == 0) return;
  struct Orphan {
    ReceiveRequest* request;
    int code;
    MPI_Status status;
  };
  std::vector<Orphan> over;
  receives.select(true, [&](ReceiveRequest& request) {
    if (!request.orphaned) return false;
    MPI_Request handle = request.handle;
    int flag = 0;
    MPI_Status status{};
    const int code = next.Test(&handle, &flag, &status);
    if (code == MPI_SUCCESS && flag == 0) return false;
    request.persistent = false;
    request.claimed.store(true, std::memory_order_relaxed);
    over.push_back({&request, code, status});
    if (handle != MPI_REQUEST_NULL) next.Request_free(&handle);
    return false;
  });
  for (auto& [request, code, status] : over) {
    complete(ReceiveClaim(request), code, &status);
    detached_operations.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace mh::mpi::rndv
