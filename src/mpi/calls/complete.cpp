// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, completion: MPI_Wait, MPI_Waitany, MPI_Waitsome, MPI_Test* and MPI_Cancel.
//
// Every wait is a loop over the library's matching test. When no receive is under way in which a
// descriptor could land, rightly (the pending requests) or by an error (short receives), a call is
// just that; otherwise the handles are noted before the library clears them, and every request that
// completes is settled before the caller sees it.
#include "mpi/calls/completion.hpp"
#include "mpi/calls/shortcut.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/internode_send.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/protocol/pending_requests.hpp"
#include "mpi/protocol/receiver.hpp"
#include "mpi/protocol/send_descriptors.hpp"
#include "mpi/protocol/sender.hpp"
#include "mpi/protocol/short_receives.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

[[gnu::noinline]] int wait_one(MPI_Request* request, MPI_Status* users) {
  const MPI_Request handle = *request;
  const PendingReceivePtr entry = pending_requests.find(handle);
  StatusOrOwn status(users);
  const int code = await_request(request, status.get(), looks());
  return settled(code, handle, entry, status.get());
}

// For the only short receive under way.
[[gnu::noinline]] int wait_short(MPI_Request* request, MPI_Status* status) {
  if (!may_wait_in_library(true)) return wait_one(request, status);
  const MPI_Request handle = *request;
  const int code = next.Wait(request, status);
  short_receives.settle(handle);
  return code;
}

int await_one(MPI_Request* request, MPI_Status* status) {
  if (short_receives.is_all(*request)) return wait_short(request, status);
  // A tail call: see receive.cpp.
  if (may_wait_in_library() && switches.errors_are_fatal) return next.Wait(request, status);
  return wait_one(request, status);
}

// With several threads the entry is looked up early: another may use the handle again as soon as it
// is completed.
[[gnu::noinline]] int test_one_of_threads(MPI_Request* request, int* flag, MPI_Status* users) {
  const MPI_Request handle = *request;
  const PendingReceivePtr entry = pending_requests.find(handle);
  StatusOrOwn status(users);
  const int code = look(Looks::once, flag, [&] { return next.Test(request, flag, status.get()); });
  if (code == MPI_SUCCESS && *flag == 0) return code;
  return settled(code, handle, entry, status.get());
}

int test_one(MPI_Request* request, int* flag, MPI_Status* users) {
  if (switches.threads) return test_one_of_threads(request, flag, users);
  const MPI_Request handle = *request;
  StatusOrOwn status(users);
  const int code = next.Test(request, flag, status.get());
  if (code != MPI_SUCCESS || *flag != 0) [[unlikely]]
    return settled(code, handle, pending_requests.find(handle), status.get());
  looked_in_vain();
  return code;
}

// Whether a look at `count` requests has completed one. A call that fails may leave `index` alone.
bool has_found(int code, int flag, int index, int count) {
  return (code != MPI_SUCCESS || flag != 0) && index >= 0 && index < count;
}

int any(Looks looks, int count, MPI_Request* requests, int* index, int* flag, MPI_Status* users) {
  StatusOrOwn status(users);
  Handles handles(count, requests, is_watching());
  const int code =
      look(looks, flag, [&] { return next.Testany(count, requests, index, flag, status.get()); });
  if (!handles.watched()) return checked(code, *status.get());
  if (!has_found(code, *flag, *index, count)) return code;
  const auto at = static_cast<std::size_t>(*index);
  return settled(code, handles[at], handles.entry(at), status.get());
}

// A program that polls looks at few requests, again and again.
int test_any(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* users) {
  constexpr int kFew = 4;
  if (switches.threads || count > kFew || requests == nullptr)
    return any(Looks::once, count, requests, index, flag, users);
  std::array<MPI_Request, kFew> handles;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (int i = 0; i < count; ++i) handles[i] = requests[i];
  StatusOrOwn status(users);
  const int code = next.Testany(count, requests, index, flag, status.get());
  if (code == MPI_SUCCESS && *flag == 0) [[likely]] {
    looked_in_vain();
    return code;
  }
  if (!is_watching()) return checked(code, *status.get());
  if (!has_found(code, *flag, *index, count)) return code;
  const MPI_Request handle = handles[*index];
  return settled(code, handle, pending_requests.find(handle), status.get());
}

int await_any(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  int flag = 0;
  return any(Looks::until_over, count, requests, index, &flag, status);
}

// Settles `found` requests of an array for which a call has returned `code`, and whose statuses lie
// in order of completion. `indices`: null if all were found.
int settle_some(Handles& handles, Statuses& statuses, int found, const int* indices, int code) {
  bool errors = code == MPI_ERR_IN_STATUS;
  const bool has_statuses = statuses.get() != MPI_STATUSES_IGNORE;
  if ((code != MPI_SUCCESS && !errors) || !has_statuses) return code;
  if (!handles.watched() && !errors) return code;
  for (std::size_t i = 0; i < length(found); ++i) {
    MPI_Status& status = statuses[i];
    if (!handles.watched()) {
      checked(status.MPI_ERROR, status);
      continue;
    }
    const auto at = indices != nullptr ? static_cast<std::size_t>(indices[i]) : i;
    const int own = errors ? status.MPI_ERROR : MPI_SUCCESS;
    if (is_pending(own)) continue;
    const int settled_with = settled(own, handles[at], handles.entry(at), &status);
    if (own != MPI_SUCCESS || settled_with == MPI_SUCCESS) continue;
    // The first error of the call: from now on every status has to say how its request fared.
    for (std::size_t j = 0; j < length(found) && !errors; ++j) statuses[j].MPI_ERROR = MPI_SUCCESS;
    errors = true;
    status.MPI_ERROR = settled_with;
  }
  return errors ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int some(Looks looks, int count, MPI_Request* requests, int* found, int* indices,
         MPI_Status* users) {
  Handles handles(count, requests, is_watching());
  Statuses statuses(count, users, handles.watched() || !switches.errors_are_fatal);
  const int code = look(
      looks, found, [&] { return next.Testsome(count, requests, found, indices, statuses.get()); });
  return settle_some(handles, statuses, *found, indices, code);
}

int test_all(int count, MPI_Request* requests, int* flag, MPI_Status* users) {
  Handles handles(count, requests, is_watching());
  Statuses statuses(count, users, handles.watched() || !switches.errors_are_fatal);
  const int code =
      look(Looks::once, flag, [&] { return next.Testall(count, requests, flag, statuses.get()); });
  if (code == MPI_SUCCESS && *flag == 0) return code;
  return settle_some(handles, statuses, count, nullptr, code);
}

int cancel(MPI_Request* request) {
  if (cancel_described(*request) || cancel_undescribed(*request) || internode::keeps(*request)) {
    return MPI_SUCCESS;
  }
  await_completion_of(*request);
  return next.Cancel(request);
}

}  // namespace
}  // namespace mh::mpi

// The wrappers, generated from calls.json.
#include "mpi/calls/complete.inc"
