// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, completion: MPI_Wait*, MPI_Test*, Request_free, Cancel, Request_get_status.
//
// Every wait is a loop over the library's matching test. When the ledger is empty (no receive under
// way in which a descriptor could land) a call is just that; otherwise the handles are noted before
// the library clears them, and every request that completes is settled before the caller sees it.
#include <algorithm>
#include <array>
#include <vector>

#include "mpi/landing.hpp"
#include "mpi/ledger.hpp"
#include "mpi/message.hpp"
#include "mpi/outgoing.hpp"
#include "mpi/runtime.hpp"
#include "mpi/shortcut.hpp"
#include "mpi/wires.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// A few elements without an allocation.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::size_t size) {
    if (size > few_.size()) many_.resize(size);
    data_ = many_.empty() ? few_.data() : many_.data();
  }
  T* data() { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }

 private:
  std::array<T, 32> few_{};
  std::vector<T> many_;
  T* data_;
};

std::size_t length(int count) { return count > 0 ? static_cast<std::size_t>(count) : 0; }

// The handles of an array as they were, their entries, and statuses to write to.
class Batch {
 public:
  Batch(int count, const MPI_Request* requests, MPI_Status* users)
      : count_(length(count)),
        handles_(count_),
        own_(users == MPI_STATUSES_IGNORE ? count_ : 0),
        statuses_(users == MPI_STATUSES_IGNORE ? own_.data() : users) {
    if (requests == nullptr) return;
    std::copy_n(requests, count_, handles_.data());
    if (!g.threads) return;
    entries_.reserve(count_);
    for (std::size_t i = 0; i < count_; ++i) entries_.push_back(ledger.find(handles_[i]));
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  MPI_Status* statuses() { return statuses_; }
  MPI_Status& status(std::size_t i) { return statuses_[i]; }
  MPI_Request handle(std::size_t i) { return handles_[i]; }
  // Looked up early where another thread may use the handle again as soon as it is completed.
  EntryPtr entry(std::size_t i) { return g.threads ? entries_[i] : ledger.find(handles_[i]); }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  std::size_t count_;
  Scratch<MPI_Request> handles_;
  std::vector<EntryPtr> entries_;  // empty without threads
  Scratch<MPI_Status> own_;
  MPI_Status* statuses_;
};

// The communicator of a request is known only from its entry; errors of settling are raised there.
int settle_and_raise(MPI_Request handle, const EntryPtr& entry, MPI_Status* status) {
  const int code = settle_request(handle, entry, status);
  return code == MPI_SUCCESS ? code : raise(entry->receipt.landing.comm->handle, code);
}

// The outcome of a call for one request. A receive too short for a descriptor may have been matched
// with one: the error is right, and the sender must get its buffer back.
int checked(int code, const MPI_Status& status) {
  if (code != MPI_SUCCESS && is_truncation(code)) truncated(nullptr, status);
  return code;
}

// Likewise for several requests; nothing can be said without statuses.
int checked(int code, int count, const MPI_Status* statuses) {
  if (code != MPI_ERR_IN_STATUS || statuses == MPI_STATUSES_IGNORE) return code;
  for (std::size_t i = 0; i < length(count); ++i) {
    if (statuses[i].MPI_ERROR != MPI_SUCCESS) checked(statuses[i].MPI_ERROR, statuses[i]);
  }
  return code;
}

[[gnu::noinline]] int wait_one(MPI_Request* request, MPI_Status* users) {
  const MPI_Request handle = *request;
  const EntryPtr entry = ledger.find(handle);
  StatusOrOwn status(users);
  const int code = wait_request(request, status.get());
  if (code != MPI_SUCCESS) {
    drop_request(handle, entry);
    return checked(code, *status.get());
  }
  return settle_and_raise(handle, entry, status.get());
}

[[gnu::noinline]] int wait_ordinary(MPI_Request* request, MPI_Status* users) {
  StatusOrOwn status(users);
  const int looks = g.outbox.empty() ? wait::kManyLooks : wait::kFewLooks;
  return checked(wait_request(request, status.get(), looks), *status.get());
}

// Requests of an array complete one by one, so that a long message is fetched as soon as it is
// there and not when the last one is.
class WaitAll {
 public:
  WaitAll(int count, MPI_Request* requests, MPI_Status* users)
      : count_(count),
        requests_(requests),
        batch_(count, requests, users),
        indices_(length(count)),
        completed_(length(count)) {}

  int run() {
    clear_statuses();
    int code = MPI_SUCCESS;
    wait::until([&] {
      int found = 0;
      code = next.Testsome(count_, requests_, &found, indices_.data(), completed_.data());
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return true;
      if (found == MPI_UNDEFINED) return true;
      take(found, code == MPI_ERR_IN_STATUS);
      return false;
    });
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return code;
    return errors_ ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
  }

 private:
  // Requests that are null or inactive have the empty status, with no error.
  void clear_statuses() {
    MPI_Request none = MPI_REQUEST_NULL;
    MPI_Status empty{};
    int flag = 0;
    real.Test(&none, &flag, &empty);
    empty.MPI_ERROR = MPI_SUCCESS;
    std::fill_n(batch_.statuses(), batch_.size(), empty);
  }

  void take(int found, bool with_errors) {
    for (std::size_t i = 0; i < length(found); ++i) {
      const auto index = static_cast<std::size_t>(indices_[i]);
      MPI_Status& status = completed_[i];
      if (!with_errors) status.MPI_ERROR = MPI_SUCCESS;
      if (status.MPI_ERROR == MPI_SUCCESS) {
        status.MPI_ERROR = settle_and_raise(batch_.handle(index), batch_.entry(index), &status);
      } else {
        drop_request(batch_.handle(index), batch_.entry(index));
        checked(status.MPI_ERROR, status);
      }
      errors_ = errors_ || status.MPI_ERROR != MPI_SUCCESS;
      batch_.status(index) = status;
    }
  }

  int count_;
  MPI_Request* requests_;
  Batch batch_;
  Scratch<int> indices_;
  Scratch<MPI_Status> completed_;
  bool errors_ = false;
};

// Settles `found` completed requests of a batch whose statuses lie in order of completion.
int settle_some(Batch& batch, int found, const int* indices, int code) {
  bool errors = code == MPI_ERR_IN_STATUS;
  bool settled_badly = false;
  for (std::size_t i = 0; i < length(found); ++i) {
    MPI_Status& status = batch.status(i);
    const auto index = static_cast<std::size_t>(indices[i]);
    if (errors && status.MPI_ERROR != MPI_SUCCESS) {
      drop_request(batch.handle(index), batch.entry(index));
      checked(status.MPI_ERROR, status);
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

bool done_or_failed(int code, int flag) { return flag != 0 || code != MPI_SUCCESS; }

int test_in_vain(int code) {
  wait::polled_in_vain();
  return code;
}

int test_any(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* users) {
  if (!g.active) return next.Testany(count, requests, index, flag, users);
  if (!ledger.any()) {
    StatusOrOwn seen(users);
    return checked(next.Testany(count, requests, index, flag, seen.get()), *seen.get());
  }
  Batch batch(count, requests, MPI_STATUSES_IGNORE);
  StatusOrOwn status(users);
  const int code = next.Testany(count, requests, index, flag, status.get());
  if ((code == MPI_SUCCESS && *flag == 0) || *index < 0 || *index == MPI_UNDEFINED) return code;
  const auto at = static_cast<std::size_t>(*index);
  if (code == MPI_SUCCESS) {
    return settle_and_raise(batch.handle(at), batch.entry(at), status.get());
  }
  drop_request(batch.handle(at), batch.entry(at));
  return checked(code, *status.get());
}

int test_some(int count, MPI_Request* requests, int* found, int* indices, MPI_Status* users) {
  if (!g.active || !ledger.any()) {
    const int code = next.Testsome(count, requests, found, indices, users);
    return checked(code, *found, users);
  }
  Batch batch(count, requests, users);
  const int code = next.Testsome(count, requests, found, indices, batch.statuses());
  const bool completed = code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS;
  if (!completed || *found == 0 || *found == MPI_UNDEFINED) return code;
  return settle_some(batch, *found, indices, code);
}

[[gnu::noinline]] int wait_all(int count, MPI_Request* requests, MPI_Status* statuses) {
  return WaitAll(count, requests, statuses).run();
}

[[gnu::noinline]] int wait_all_ordinary(int count, MPI_Request* requests, MPI_Status* statuses) {
  int flag = 0;
  int code = MPI_SUCCESS;
  wait::until([&] {
    code = next.Testall(count, requests, &flag, statuses);
    return done_or_failed(code, flag);
  });
  return checked(code, count, statuses);
}

}  // namespace

namespace wrap {

int Wait(MPI_Request* request, MPI_Status* status) {
  if (!g.active || request == nullptr) return next.Wait(request, status);
  // A tail call: see receive.cpp.
  if (may_wait_in_library() && g.errors_are_fatal) return next.Wait(request, status);
  return ledger.any() ? wait_one(request, status) : wait_ordinary(request, status);
}

int Waitall(int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[]) {
  if (!g.active || count <= 0 || (may_wait_in_library() && g.errors_are_fatal)) {
    return next.Waitall(count, array_of_requests, array_of_statuses);
  }
  return ledger.any() ? wait_all(count, array_of_requests, array_of_statuses)
                      : wait_all_ordinary(count, array_of_requests, array_of_statuses);
}

int Waitany(int count, MPI_Request array_of_requests[], int* index, MPI_Status* status) {
  if (!g.active) return next.Waitany(count, array_of_requests, index, status);
  int flag = 0;
  int code = MPI_SUCCESS;
  wait::until([&] {
    code = test_any(count, array_of_requests, index, &flag, status);
    return done_or_failed(code, flag);
  });
  return code;
}

int Waitsome(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
             MPI_Status array_of_statuses[]) {
  if (!g.active) {
    return next.Waitsome(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
  }
  int code = MPI_SUCCESS;
  wait::until([&] {
    code = test_some(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
    return code != MPI_SUCCESS || *outcount != 0;
  });
  return code;
}

int Test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (!g.active || request == nullptr) return next.Test(request, flag, status);
  const MPI_Request handle = *request;
  if (!ledger.any()) {
    StatusOrOwn seen(status);
    const int code = next.Test(request, flag, seen.get());
    return code == MPI_SUCCESS && *flag == 0 ? test_in_vain(code) : checked(code, *seen.get());
  }
  const EntryPtr entry = ledger.find(handle);
  StatusOrOwn seen(status);
  const int code = next.Test(request, flag, seen.get());
  if (code != MPI_SUCCESS) {
    drop_request(handle, entry);
    return checked(code, *seen.get());
  }
  return *flag != 0 ? settle_and_raise(handle, entry, seen.get()) : test_in_vain(code);
}

int Testall(int count, MPI_Request array_of_requests[], int* flag, MPI_Status array_of_statuses[]) {
  if (!g.active || !ledger.any()) {
    const int code = next.Testall(count, array_of_requests, flag, array_of_statuses);
    return g.active && code == MPI_SUCCESS && *flag == 0 ? test_in_vain(code) : code;
  }
  Batch batch(count, array_of_requests, array_of_statuses);
  const int code = next.Testall(count, array_of_requests, flag, batch.statuses());
  if (*flag == 0 && code == MPI_SUCCESS) return test_in_vain(code);
  return code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS ? settle_all(batch, code) : code;
}

int Testany(int count, MPI_Request array_of_requests[], int* index, int* flag, MPI_Status* status) {
  const int code = test_any(count, array_of_requests, index, flag, status);
  return g.active && code == MPI_SUCCESS && *flag == 0 ? test_in_vain(code) : code;
}

int Testsome(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
             MPI_Status array_of_statuses[]) {
  const int code =
      test_some(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
  return g.active && code == MPI_SUCCESS && *outcount == 0 ? test_in_vain(code) : code;
}

int Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  if (!g.active) return next.Request_get_status(request, flag, status);
  StatusOrOwn seen(status);
  const int code = next.Request_get_status(request, flag, seen.get());
  if (code != MPI_SUCCESS) return code;
  if (*flag == 0) return test_in_vain(code);
  if (ledger.any()) peek(request, seen.get());
  return code;
}

int Request_get_status_any(int count, const MPI_Request array_of_requests[], int* index, int* flag,
                           MPI_Status* status) {
  StatusOrOwn seen(status);
  const int code = next.Request_get_status_any(count, array_of_requests, index, flag, seen.get());
  if (code != MPI_SUCCESS || !g.active) return code;
  if (*flag == 0) return test_in_vain(code);
  if (*index != MPI_UNDEFINED && ledger.any()) peek(array_of_requests[*index], seen.get());
  return code;
}

int Request_get_status_all(int count, const MPI_Request array_of_requests[], int* flag,
                           MPI_Status array_of_statuses[]) {
  if (!g.active || !ledger.any()) {
    const int code = next.Request_get_status_all(count, array_of_requests, flag, array_of_statuses);
    return g.active && code == MPI_SUCCESS && *flag == 0 ? test_in_vain(code) : code;
  }
  Batch batch(count, array_of_requests, array_of_statuses);
  const int code = next.Request_get_status_all(count, array_of_requests, flag, batch.statuses());
  if (code == MPI_SUCCESS && *flag == 0) return test_in_vain(code);
  for (std::size_t i = 0; code == MPI_SUCCESS && i < batch.size(); ++i) {
    peek(batch.handle(i), &batch.status(i));
  }
  return code;
}

int Request_get_status_some(int incount, const MPI_Request array_of_requests[], int* outcount,
                            int array_of_indices[], MPI_Status array_of_statuses[]) {
  if (!g.active || !ledger.any()) {
    const int code = next.Request_get_status_some(incount, array_of_requests, outcount,
                                                  array_of_indices, array_of_statuses);
    return g.active && code == MPI_SUCCESS && *outcount == 0 ? test_in_vain(code) : code;
  }
  Batch batch(incount, array_of_requests, array_of_statuses);
  const int code = next.Request_get_status_some(incount, array_of_requests, outcount,
                                                array_of_indices, batch.statuses());
  if (code != MPI_SUCCESS || *outcount == MPI_UNDEFINED) return code;
  if (*outcount == 0) return test_in_vain(code);
  for (std::size_t i = 0; i < length(*outcount); ++i) {
    peek(batch.handle(static_cast<std::size_t>(array_of_indices[i])), &batch.status(i));
  }
  return code;
}

int Cancel(MPI_Request* request) {
  if (g.active && (cancel_described(*request) || wires::keeps(*request))) return MPI_SUCCESS;
  return next.Cancel(request);
}

}  // namespace wrap
}  // namespace mh::mpi
