// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3 of the MPI standard, completion: MPI_Wait, MPI_Waitany, MPI_Waitsome, MPI_Test* and
// MPI_Cancel.
//
// A wait is a loop over the corresponding test of the library (MPI_Waitany: MPI_Testany). If any
// started receive may get an RTS header, the call records the handles before the library clears
// them. It then passes every completed request to rndv::complete(), which fetches the message.
#include <optional>

#include "mpi/calls/completion.hpp"
#include "mpi/calls/shortcut.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/internode/send.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/persistent_sends.hpp"
#include "mpi/rndv/send.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

using rndv::ReceiveClaim;
using rndv::receives;

[[gnu::noinline]] int wait_helping(MPI_Request* request, MPI_Status* users) {
  ReceiveClaim claim = receives.claim(*request);
  StatusOrOwn status(users);
  const int code = await_request(request, status.get(), polls_before_help());
  return rndv::complete(std::move(claim), code, status.get());
}

// Waits for one request, in the library if the wait is part of a tight loop of short messages
// (shortcut.hpp). The library's call is a tail call, which saves a return from deep in the
// library's wait: 50 ns in Open MPI 5.
int wait_one(MPI_Request* request, MPI_Status* status) {
  if (switches.errors_are_fatal && may_wait_in_library()) return next.Wait(request, status);
  return wait_helping(request, status);
}

// Called after the program's MPI_Test, MPI_Testany or similar has found no completed request: this
// rank may help other ranks, and calls test() again after each step of help. True if a test set
// `flag` or failed; `code` is then the code of that test.
template <class Test>
[[gnu::noinline]] bool found_while_helping(const int* flag, int* code, Test test) {
  return wait::help_if_polling([&] {
    *code = test();
    return *code != MPI_SUCCESS || *flag != 0;
  });
}

// Tests one request in a process with several threads in MPI. If the request is a receive, this
// thread claims it before the test: once the library has completed the request, another thread may
// get the same handle for a new request.
[[gnu::noinline]] int test_one_claimed(MPI_Request* request, int* flag, MPI_Status* users) {
  ReceiveClaim claim = receives.claim(*request);
  StatusOrOwn status(users);
  const int code =
      poll_requests(Polls::once, flag, [&] { return next.Test(request, flag, status.get()); });
  if (code == MPI_SUCCESS && *flag == 0) return code;
  return rndv::complete(std::move(claim), code, status.get());
}

int test_one(MPI_Request* request, int* flag, MPI_Status* users) {
  if (switches.threads) return test_one_claimed(request, flag, users);
  const MPI_Request handle = *request;
  StatusOrOwn status(users);
  int code = next.Test(request, flag, status.get());
  if (code == MPI_SUCCESS && *flag == 0) [[likely]] {
    if (!note_failed_test()) [[likely]]
      return code;
    const auto test = [=, at = status.get()] { return next.Test(request, flag, at); };
    if (!found_while_helping(flag, &code, test)) return code;
  }
  return rndv::complete(receives.claim(handle), code, status.get());
}

// True if a test, which returned `code`, has completed the request that had the handle `before` and
// now has the handle `now`. Open MPI leaves a request that has failed under its handle.
bool has_ended(int code, MPI_Request before, MPI_Request now) {
  if (code == MPI_SUCCESS || now != before) return true;
  int flag = 0;
  return real.Request_get_status(now, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag != 0;
}

// The request that a test of `count` requests has completed; nothing if the test has found none. A
// failed test may leave `index` and `flag` as they were, or null.
std::optional<std::size_t> found_at(int code, const int* flag, const int* index, int count) {
  if (code == MPI_SUCCESS && *flag == 0) return std::nullopt;
  if (index == nullptr || *index < 0 || *index >= count) return std::nullopt;
  return static_cast<std::size_t>(*index);
}

int complete_any(Polls polls, int count, MPI_Request* requests, int* index, int* flag,
                 MPI_Status* users) {
  StatusOrOwn status(users);
  RequestHandles handles(count, requests, receives.any());
  const int code = poll_requests(
      polls, flag, [&] { return next.Testany(count, requests, index, flag, status.get()); });
  const auto at = found_at(code, flag, index, count);
  if (!at || !handles.needed() || !has_ended(code, handles[*at], requests[*at]))
    return rndv::complete({}, code, status.get());
  return rndv::complete(handles.claim(*at), code, status.get());
}

// Carries out MPI_Testany. Some programs poll millions of times a second, so a poll of a few
// requests that finds nothing is as short as can be.
int test_any(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* users) {
  std::array<MPI_Request, 4> handles;  // NOLINT(*-member-init): a poll writes what it needs
  if (switches.threads || length(count) > handles.size())
    return complete_any(Polls::once, count, requests, index, flag, users);
  const bool needed = receives.any();
  if (needed) std::copy_n(requests, length(count), handles.data());
  StatusOrOwn status(users);
  int code = next.Testany(count, requests, index, flag, status.get());
  if (code == MPI_SUCCESS && *flag == 0) [[likely]] {
    if (!note_failed_test()) [[likely]]
      return code;
    const auto test = [=, at = status.get()] {
      return next.Testany(count, requests, index, flag, at);
    };
    if (!found_while_helping(flag, &code, test)) return code;
  }
  ReceiveClaim claim;
  const auto at = found_at(code, flag, index, count);
  if (needed && at && has_ended(code, handles[*at], requests[*at]))
    claim = receives.claim(handles[*at]);
  return rndv::complete(std::move(claim), code, status.get());
}

int wait_any(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  int flag = 0;
  const int code = complete_any(Polls::until_found, count, requests, index, &flag, status);
  // If no request is active (index MPI_UNDEFINED), MPI_Testany of MPICH has left the program's
  // status as it is. MPI_Waitany sets the status, so this wait calls MPI_Waitany as well.
  return code == MPI_SUCCESS && *index == MPI_UNDEFINED
             ? next.Waitany(count, requests, index, status)
             : code;
}

// Corrects what a test of an array of requests has found, after the library's call has returned
// `code`: fetches rendezvous messages, and sets the statuses of the `found` completed requests. The
// statuses are in the order of `indices`, which is null if every request is complete. Returns the
// code for the program.
int complete_found(RequestHandles& handles, Statuses& statuses, int found, const int* indices,
                   int code) {
  bool has_errors = code == MPI_ERR_IN_STATUS;
  const bool has_statuses = statuses.get() != MPI_STATUSES_IGNORE;
  if ((code != MPI_SUCCESS && !has_errors) || !has_statuses) return code;
  if (!handles.needed() && !has_errors) return code;
  for (std::size_t i = 0; i < length(found); ++i) {
    MPI_Status& status = statuses[i];
    const auto at = indices != nullptr ? static_cast<std::size_t>(indices[i]) : i;
    const int own = has_errors ? status.MPI_ERROR : MPI_SUCCESS;
    if (is_pending(own)) continue;
    const int completed =
        rndv::complete(handles.needed() ? handles.claim(at) : ReceiveClaim(), own, &status);
    if (own != MPI_SUCCESS || completed == MPI_SUCCESS) continue;
    // The fetch of this message is the first error of the call, which therefore returns
    // MPI_ERR_IN_STATUS: the program then reads MPI_ERROR of every status. The library reported no
    // error, so it has not set MPI_ERROR in the statuses.
    for (std::size_t j = 0; j < length(found) && !has_errors; ++j)
      statuses[j].MPI_ERROR = MPI_SUCCESS;
    has_errors = true;
    status.MPI_ERROR = completed;
  }
  return has_errors ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int complete_some(Polls polls, int count, MPI_Request* requests, int* found, int* indices,
                  MPI_Status* users) {
  RequestHandles handles(count, requests, receives.any());
  Statuses statuses(count, users, handles.needed() || !switches.errors_are_fatal);
  const int code = poll_requests(
      polls, found, [&] { return next.Testsome(count, requests, found, indices, statuses.get()); });
  return complete_found(handles, statuses, *found, indices, code);
}

int test_all(int count, MPI_Request* requests, int* flag, MPI_Status* users) {
  RequestHandles handles(count, requests, receives.any());
  Statuses statuses(count, users, handles.needed() || !switches.errors_are_fatal);
  const int code = poll_requests(
      Polls::once, flag, [&] { return next.Testall(count, requests, flag, statuses.get()); });
  if (code == MPI_SUCCESS && *flag == 0) return code;
  return complete_found(handles, statuses, count, nullptr, code);
}

int cancel(MPI_Request* request) {
  if (rndv::cancel_send(*request) || rndv::cancel_library_start(*request) ||
      internode::complete_instead_of_cancel(*request)) {
    return MPI_SUCCESS;
  }
  rndv::await_fin_of(*request);
  return next.Cancel(request);
}

}  // namespace
}  // namespace mh::mpi

#include "mpi/calls/complete.inc"
