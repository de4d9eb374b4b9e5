// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, completion: MPI_Wait, MPI_Waitany, MPI_Waitsome, MPI_Test* and MPI_Cancel.
//
// Every wait is a loop over the library's matching test. When no receive is under way in which a
// descriptor could land, rightly (the pending requests) or by an error (short receives), a call is
// just that; otherwise the handles are noted before the library clears them, and every request that
// completes is settled before the caller sees it.
#include <algorithm>

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

// Statuses of several requests: the caller's, or, if it wants none and errors return, our own.
class StatusesOrOwn {
 public:
  StatusesOrOwn(int count, MPI_Status* users)
      : own_(users == MPI_STATUSES_IGNORE && !switches.errors_are_fatal ? length(count) : 0),
        statuses_(users == MPI_STATUSES_IGNORE && !switches.errors_are_fatal ? own_.data()
                                                                             : users) {}
  MPI_Status* get() { return statuses_; }

 private:
  Scratch<MPI_Status> own_;
  MPI_Status* statuses_;
};

[[gnu::noinline]] int wait_one(MPI_Request* request, MPI_Status* users) {
  const MPI_Request handle = *request;
  const PendingReceivePtr entry = pending_requests.find(handle);
  StatusOrOwn status(users);
  const int code = await_request(request, status.get(), looks());
  if (code != MPI_SUCCESS) return failed(code, handle, entry, status.get());
  return settle_and_raise(handle, entry, status.get());
}

// For the only short receive under way.
[[gnu::noinline]] int wait_short(MPI_Request* request, MPI_Status* status) {
  if (!may_wait_in_library(true)) return wait_one(request, status);
  const MPI_Request handle = *request;
  const int code = next.Wait(request, status);
  short_receives.settle(handle);
  return code;
}

// Settles `found` completed requests of a batch whose statuses lie in order of completion.
int settle_some(Batch& batch, int found, const int* indices, int code) {
  bool errors = code == MPI_ERR_IN_STATUS;
  bool settled_badly = false;
  for (std::size_t i = 0; i < length(found); ++i) {
    MPI_Status& status = batch.status(i);
    const auto index = static_cast<std::size_t>(indices[i]);
    if (errors && is_pending(status.MPI_ERROR)) continue;
    if (errors && status.MPI_ERROR != MPI_SUCCESS) {
      failed(status.MPI_ERROR, batch.handle(index), batch.entry(index), &status);
      continue;
    }
    const int settled = settle_and_raise(batch.handle(index), batch.entry(index), &status);
    if (settled == MPI_SUCCESS) continue;
    // The first error of the call: from now on every status has to say how its request fared.
    for (std::size_t j = 0; j < length(found) && !errors && !settled_badly; ++j) {
      batch.status(j).MPI_ERROR = MPI_SUCCESS;
    }
    settled_badly = true;
    status.MPI_ERROR = settled;
  }
  return settled_badly ? MPI_ERR_IN_STATUS : code;
}

int settle_all(Batch& batch, int code) {
  Scratch<int> indices(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) indices[i] = static_cast<int>(i);
  return settle_some(batch, static_cast<int>(batch.size()), indices.data(), code);
}

// How a test of several requests is made: once, or until it says something.
enum class Looks : std::uint8_t { once, until_over };

// `test` returns a code; `says()`: something is to be done after it.
template <class Test, class Says>
int look(Looks looks, Test&& test, Says&& says) {
  if (looks == Looks::once) return test();
  int code = MPI_SUCCESS;
  wait::until_told([&] {
    code = test();
    return code != MPI_SUCCESS || says();
  });
  return code;
}

int test_any(Looks looks, int count, MPI_Request* requests, int* index, int* flag,
             MPI_Status* users) {
  StatusOrOwn status(users);
  const auto test = [&] {
    return look(
        looks, [&] { return next.Testany(count, requests, index, flag, status.get()); },
        [flag] { return *flag != 0; });
  };
  if (!is_watching()) return checked(test(), *status.get());
  Batch batch(count, requests, MPI_STATUSES_IGNORE);
  const int code = test();
  if ((code == MPI_SUCCESS && *flag == 0) || *index < 0 || *index == MPI_UNDEFINED) return code;
  const auto at = static_cast<std::size_t>(*index);
  if (code == MPI_SUCCESS) {
    return settle_and_raise(batch.handle(at), batch.entry(at), status.get());
  }
  return failed(code, batch.handle(at), batch.entry(at), status.get());
}

int test_some(Looks looks, int count, MPI_Request* requests, int* found, int* indices,
              MPI_Status* users) {
  const auto test = [&](MPI_Status* statuses) {
    return look(
        looks, [&] { return next.Testsome(count, requests, found, indices, statuses); },
        [found] { return *found != 0; });
  };
  if (!is_watching()) {
    StatusesOrOwn statuses(count, users);
    const int code = test(statuses.get());
    return checked(code, *found, statuses.get());
  }
  Batch batch(count, requests, users);
  const int code = test(batch.statuses());
  const bool completed = code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS;
  if (!completed || *found == 0 || *found == MPI_UNDEFINED) return code;
  return settle_some(batch, *found, indices, code);
}

int test_all_ordinary(int count, MPI_Request* requests, int* flag, MPI_Status* users) {
  StatusesOrOwn statuses(count, users);
  const int code = next.Testall(count, requests, flag, statuses.get());
  return checked(code, count, statuses.get());
}

}  // namespace

namespace wrap {

int Wait(MPI_Request* request, MPI_Status* status) {
  services.exchanges.completes();
  if (!switches.active || request == nullptr) return next.Wait(request, status);
  if (short_receives.is_all(*request)) return wait_short(request, status);
  // A tail call: see receive.cpp.
  if (may_wait_in_library() && switches.errors_are_fatal) return next.Wait(request, status);
  return wait_one(request, status);
}

int Waitany(int count, MPI_Request array_of_requests[], int* index, MPI_Status* status) {
  services.exchanges.completes();
  if (!switches.active) return next.Waitany(count, array_of_requests, index, status);
  int flag = 0;
  return test_any(Looks::until_over, count, array_of_requests, index, &flag, status);
}

int Waitsome(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
             MPI_Status array_of_statuses[]) {
  services.exchanges.completes();
  if (!switches.active) {
    return next.Waitsome(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
  }
  return test_some(Looks::until_over, incount, array_of_requests, outcount, array_of_indices,
                   array_of_statuses);
}

int Test(MPI_Request* request, int* flag, MPI_Status* status) {
  services.exchanges.completes();
  if (!switches.active || request == nullptr) return next.Test(request, flag, status);
  const MPI_Request handle = *request;
  const PendingReceivePtr entry = pending_requests.find(handle);
  StatusOrOwn seen(status);
  const int code = next.Test(request, flag, seen.get());
  if (code != MPI_SUCCESS) return failed(code, handle, entry, seen.get());
  return *flag != 0 ? settle_and_raise(handle, entry, seen.get()) : test_in_vain(code);
}

int Testall(int count, MPI_Request array_of_requests[], int* flag, MPI_Status array_of_statuses[]) {
  services.exchanges.completes();
  if (!switches.active) return next.Testall(count, array_of_requests, flag, array_of_statuses);
  if (!is_watching()) {
    const int code = test_all_ordinary(count, array_of_requests, flag, array_of_statuses);
    return code == MPI_SUCCESS && *flag == 0 ? test_in_vain(code) : code;
  }
  Batch batch(count, array_of_requests, array_of_statuses);
  const int code = next.Testall(count, array_of_requests, flag, batch.statuses());
  if (*flag == 0 && code == MPI_SUCCESS) return test_in_vain(code);
  return code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS ? settle_all(batch, code) : code;
}

int Testany(int count, MPI_Request array_of_requests[], int* index, int* flag, MPI_Status* status) {
  services.exchanges.completes();
  if (!switches.active) return next.Testany(count, array_of_requests, index, flag, status);
  const int code = test_any(Looks::once, count, array_of_requests, index, flag, status);
  return code == MPI_SUCCESS && *flag == 0 ? test_in_vain(code) : code;
}

int Testsome(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
             MPI_Status array_of_statuses[]) {
  services.exchanges.completes();
  if (!switches.active) {
    return next.Testsome(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
  }
  const int code = test_some(Looks::once, incount, array_of_requests, outcount, array_of_indices,
                             array_of_statuses);
  return code == MPI_SUCCESS && *outcount == 0 ? test_in_vain(code) : code;
}

int Cancel(MPI_Request* request) {
  if (!switches.active) return next.Cancel(request);
  if (cancel_described(*request) || cancel_undescribed(*request) || internode::keeps(*request)) {
    return MPI_SUCCESS;
  }
  await_completion_of(*request);
  return next.Cancel(request);
}

}  // namespace wrap
}  // namespace mh::mpi
