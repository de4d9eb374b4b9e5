// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, completion: MPI_Wait*, MPI_Test*, Request_free, Cancel, Request_get_status.
//
// Every wait is a loop over the library's matching test. When no receive is under way in which a
// descriptor could land, rightly (the pending requests) or by an error (short receives), a call is
// just that; otherwise the handles are noted before the library clears them, and every request that
// completes is settled before the caller sees it.
#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "mpi/calls/shortcut.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/internode.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/protocol/pending_requests.hpp"
#include "mpi/protocol/receiver.hpp"
#include "mpi/protocol/send_descriptors.hpp"
#include "mpi/protocol/sender.hpp"
#include "mpi/protocol/short_receives.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// A few elements without an allocation.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::size_t size) {
    if (size <= few_.size()) return;
    many_ = std::make_unique_for_overwrite<T[]>(size);
    data_ = many_.get();
  }
  T* data() { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }

 private:
  std::array<T, 32> few_;
  std::unique_ptr<T[]> many_;
  T* data_ = few_.data();
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
    if (!switches.threads) return;
    entries_.reserve(count_);
    for (std::size_t i = 0; i < count_; ++i) entries_.push_back(pending_requests.find(handles_[i]));
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  MPI_Status* statuses() { return statuses_; }
  MPI_Status& status(std::size_t i) { return statuses_[i]; }
  MPI_Request handle(std::size_t i) { return handles_[i]; }
  // Looked up early where another thread may use the handle again as soon as it is completed.
  PendingReceivePtr entry(std::size_t i) {
    return switches.threads ? entries_[i] : pending_requests.find(handles_[i]);
  }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  std::size_t count_;
  Scratch<MPI_Request> handles_;
  std::vector<PendingReceivePtr> entries_;  // empty without threads
  Scratch<MPI_Status> own_;
  MPI_Status* statuses_;
};

// Receives are under way that need a look when they complete.
bool is_watching() { return pending_requests.any() || short_receives.any(); }

// The communicator of a request is known only from its entry; errors of settling are raised there.
int settle_and_raise(MPI_Request handle, const PendingReceivePtr& entry, MPI_Status* status) {
  if (!entry) {
    short_receives.settle(handle);
    return MPI_SUCCESS;
  }
  const int code = settle_request(handle, entry, status);
  return code == MPI_SUCCESS ? code : raise(comms::for_errors(*entry->receipt.comm), code);
}

// The outcome of a call for one request that had no entry under way. A receive may have been too
// short for a descriptor, and matched with one: the error is right, and the sender must get its
// buffer back.
int checked(int code, const MPI_Status& status) {
  if (code != MPI_SUCCESS && is_truncation(code)) send_descriptors::truncated(nullptr, status);
  return code;
}

// Likewise for several requests.
int checked(int code, int count, const MPI_Status* statuses) {
  if (code != MPI_ERR_IN_STATUS) return code;
  for (std::size_t i = 0; i < length(count); ++i) checked(statuses[i].MPI_ERROR, statuses[i]);
  return code;
}

// The outcome for one that has failed.
int failed(int code, MPI_Request handle, const PendingReceivePtr& entry, MPI_Status* status) {
  return drop_request(handle, entry, status) ? code : checked(code, *status);
}

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

// How often a wait looks for its end before it looks around: as a latency-bound exchange needs it,
// if nothing long is under way.
int looks() {
  return services.send_queue.empty() && !pending_requests.any() ? wait::kManyLooks
                                                                : wait::kFewLooks;
}

[[gnu::noinline]] int wait_one(MPI_Request* request, MPI_Status* users) {
  const MPI_Request handle = *request;
  const PendingReceivePtr entry = pending_requests.find(handle);
  StatusOrOwn status(users);
  const int code = wait_request(request, status.get(), looks());
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

// Requests of an array complete one by one, so that a long message is fetched as soon as it is
// there and not when the last one is.
class WaitAll {
 public:
  WaitAll(int count, MPI_Request* requests, MPI_Status* users)
      : count_(count),
        requests_(requests),
        batch_(count, requests, users),
        left_(length(count)),
        indices_(length(count)),
        completed_(length(count)),
        codes_(length(count)) {}

  int run() {
    clear_statuses();
    std::copy_n(requests_, batch_.size(), left_.data());
    int code = MPI_SUCCESS;
    wait::until([&] {
      int found = 0;
      code = next.Testsome(count_, left_.data(), &found, indices_.data(), completed_.data());
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return true;
      if (found == MPI_UNDEFINED) return true;
      take(found, code == MPI_ERR_IN_STATUS);
      return false;
    });
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return code;
    return errors_ ? with_errors() : MPI_SUCCESS;
  }

 private:
  // Requests that are null or inactive have the empty status, with no error.
  void clear_statuses() {
    MPI_Request none = MPI_REQUEST_NULL;
    MPI_Status empty{};
    int flag = 0;
    real.Test(&none, &flag, &empty);
    for (std::size_t i = 0; i < batch_.size(); ++i) set_status(i, empty);
    std::fill_n(codes_.data(), batch_.size(), MPI_SUCCESS);
  }

  // Its error is the program's own unless the call has one.
  void set_status(std::size_t i, const MPI_Status& status) {
    const int error = batch_.status(i).MPI_ERROR;
    batch_.status(i) = status;
    batch_.status(i).MPI_ERROR = error;
  }
  int with_errors() {
    for (std::size_t i = 0; i < batch_.size(); ++i) batch_.status(i).MPI_ERROR = codes_[i];
    return MPI_ERR_IN_STATUS;
  }

  void take(int found, bool with_errors) {
    for (std::size_t i = 0; i < length(found); ++i) {
      const auto index = static_cast<std::size_t>(indices_[i]);
      MPI_Status& status = completed_[i];
      // MPICH 4.0 takes a persistent collective that is complete for an active one.
      requests_[index] = std::exchange(left_[index], MPI_REQUEST_NULL);
      int& code = codes_[index];
      code = with_errors ? status.MPI_ERROR : MPI_SUCCESS;
      if (code == MPI_SUCCESS) {
        code = settle_and_raise(batch_.handle(index), batch_.entry(index), &status);
      } else {
        failed(code, batch_.handle(index), batch_.entry(index), &status);
      }
      errors_ = errors_ || code != MPI_SUCCESS;
      set_status(index, status);
    }
  }

  int count_;
  MPI_Request* requests_;
  Batch batch_;
  Scratch<MPI_Request> left_;
  Scratch<int> indices_;
  Scratch<MPI_Status> completed_;
  Scratch<int> codes_;
  bool errors_ = false;
};

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

bool done_or_failed(int code, int flag) { return flag != 0 || code != MPI_SUCCESS; }

// A completed request stays in place.
void look_at(MPI_Request request, MPI_Status* status) {
  short_receives.look(request);
  if (pending_requests.any()) peek(request, status);
}

int test_in_vain(int code) {
  wait::polled_in_vain();
  return code;
}

int test_any(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* users) {
  if (!switches.active) return next.Testany(count, requests, index, flag, users);
  if (!is_watching()) {
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
  return failed(code, batch.handle(at), batch.entry(at), status.get());
}

int test_some(int count, MPI_Request* requests, int* found, int* indices, MPI_Status* users) {
  if (!switches.active) return next.Testsome(count, requests, found, indices, users);
  if (!is_watching()) {
    StatusesOrOwn statuses(count, users);
    const int code = next.Testsome(count, requests, found, indices, statuses.get());
    return checked(code, *found, statuses.get());
  }
  Batch batch(count, requests, users);
  const int code = next.Testsome(count, requests, found, indices, batch.statuses());
  const bool completed = code == MPI_SUCCESS || code == MPI_ERR_IN_STATUS;
  if (!completed || *found == 0 || *found == MPI_UNDEFINED) return code;
  return settle_some(batch, *found, indices, code);
}

int test_all_ordinary(int count, MPI_Request* requests, int* flag, MPI_Status* users) {
  StatusesOrOwn statuses(count, users);
  const int code = next.Testall(count, requests, flag, statuses.get());
  return checked(code, count, statuses.get());
}

[[gnu::noinline]] int wait_all(int count, MPI_Request* requests, MPI_Status* statuses) {
  return WaitAll(count, requests, statuses).run();
}

// Requests of an array are completed one by one, or as many as are there. Never by MPI_Testall:
// that of MPICH 4.0 fails if a persistent collective is among them.
class OneByOne {
 public:
  OneByOne(int count, MPI_Request* requests, MPI_Status* users)
      : count_(count),
        requests_(requests),
        users_(users == MPI_STATUSES_IGNORE ? nullptr : users),
        codes_(length(count)) {
    std::fill_n(codes_.data(), length(count), kOpen);
  }

  void wait_for(int i) {
    note(i,
         wait_request(&requests_[i], users_ == nullptr ? MPI_STATUS_IGNORE : &users_[i], looks()));
  }
  // False if some are left.
  bool take_those_there() {
    Scratch<int> indices(length(count_));
    Scratch<MPI_Status> statuses(users_ == nullptr ? 0 : length(count_));
    int found = 0;
    const int code = next.Testsome(count_, requests_, &found, indices.data(),
                                   users_ == nullptr ? MPI_STATUSES_IGNORE : statuses.data());
    failed_ = failed_ || code != MPI_SUCCESS;
    if (found == MPI_UNDEFINED) return users_ == nullptr;
    for (std::size_t k = 0; k < length(found); ++k) {
      if (codes_[static_cast<std::size_t>(indices[k])] != kOpen) continue;
      take(indices[k], code, users_ == nullptr ? nullptr : &statuses[k]);
    }
    return done_ == count_;
  }
  void wait_for_rest() {
    for (int i = count_ - 1; i >= 0; --i) {
      if (codes_[static_cast<std::size_t>(i)] == kOpen) wait_for(i);
    }
  }
  // All but one, which is complete.
  int leave_to_library(int one) {
    const MPI_Status kept = users_ == nullptr ? MPI_Status{} : users_[one];
    const int code =
        next.Waitall(count_, requests_, users_ == nullptr ? MPI_STATUSES_IGNORE : users_);
    if (users_ == nullptr) return code;
    users_[one] = kept;
    if (code == MPI_ERR_IN_STATUS) users_[one].MPI_ERROR = MPI_SUCCESS;
    return code;
  }
  int result() {
    if (!failed_) return MPI_SUCCESS;
    for (std::size_t i = 0; users_ != nullptr && i < length(count_); ++i) {
      users_[i].MPI_ERROR = codes_[i] == kOpen ? MPI_SUCCESS : codes_[i];
    }
    return MPI_ERR_IN_STATUS;
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  static constexpr int kOpen = -1;

  void note(int i, int code) {
    codes_[static_cast<std::size_t>(i)] = code;
    failed_ = failed_ || code != MPI_SUCCESS;
    ++done_;
  }
  void take(int i, int code, const MPI_Status* status) {
    note(i, code == MPI_ERR_IN_STATUS && status != nullptr ? status->MPI_ERROR : MPI_SUCCESS);
    if (status == nullptr) return;
    const int error = users_[i].MPI_ERROR;
    users_[i] = *status;
    users_[i].MPI_ERROR = error;
  }

  int count_;
  MPI_Request* requests_;
  MPI_Status* users_;   // null if nobody wants them
  Scratch<int> codes_;  // of those that are complete
  int done_ = 0;
  bool failed_ = false;
};

// A look at one request costs less than one at all of them: waits for `last`, which is likely to
// complete last, when mostly all are there, and else for one after the other; or, `in_library`,
// leaves what is not there yet to the library's own wait. Where errors end the program; those of
// files and windows may return all the same.
[[gnu::noinline]] int wait_all_from(int last, int count, MPI_Request* requests, MPI_Status* users,
                                    bool in_library) {
  OneByOne all(count, requests, users);
  all.wait_for(last);
  if (count == 1) return all.result();
  if (in_library && !all.failed()) return all.leave_to_library(last);
  if (!all.take_those_there()) all.wait_for_rest();
  return all.result();
}

[[gnu::noinline]] int wait_all_ordinary(int count, MPI_Request* requests, MPI_Status* statuses) {
  return switches.errors_are_fatal ? wait_all_from(count - 1, count, requests, statuses, false)
                                   : wait_all(count, requests, statuses);
}

// The short receives under way in an array.
struct ShortOnes {
  int last = -1;  // of them in the array
  std::size_t count = 0;
  bool of_one_source = true;  // and communicator, so they complete in their order
};

ShortOnes short_ones(int count, const MPI_Request* requests) {
  ShortOnes found;
  const ShortReceive* first = nullptr;
  for (int i = 0; i < count; ++i) {
    const ShortReceive* receive = short_receives.find(requests[i]);
    if (receive == nullptr) continue;
    if (first == nullptr) first = receive;
    found.of_one_source = found.of_one_source && receive->source != MPI_ANY_SOURCE &&
                          receive->source == first->source && receive->comm == first->comm;
    ++found.count;
    found.last = i;
  }
  return found;
}

// Where short receives are under way and nothing is in the pending requests. In a tight loop the
// library may wait for the rest once the last of them is there: had one before met a message that
// is too long, whose sender may have to wait for us, that would not have come.
[[gnu::noinline]] int wait_all_short(int count, MPI_Request* requests, MPI_Status* users) {
  Scratch<MPI_Request> handles(length(count));
  std::copy_n(requests, length(count), handles.data());
  const ShortOnes found = short_ones(count, requests);
  const bool awaited = found.of_one_source && found.count == short_receives.count();
  const int last = found.count == 0 ? count - 1 : found.last;
  const int code = wait_all_from(last, count, requests, users, may_wait_in_library(awaited));
  for (std::size_t i = 0; i < length(count); ++i) short_receives.settle(handles[i]);
  return code;
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

int Waitall(int count, MPI_Request array_of_requests[], MPI_Status array_of_statuses[]) {
  services.exchanges.completes();
  if (!switches.active || count <= 0)
    return next.Waitall(count, array_of_requests, array_of_statuses);
  if (short_receives.any() && !pending_requests.any()) {
    return wait_all_short(count, array_of_requests, array_of_statuses);
  }
  if (may_wait_in_library() && switches.errors_are_fatal) {
    return next.Waitall(count, array_of_requests, array_of_statuses);
  }
  return pending_requests.any() ? wait_all(count, array_of_requests, array_of_statuses)
                                : wait_all_ordinary(count, array_of_requests, array_of_statuses);
}

int Waitany(int count, MPI_Request array_of_requests[], int* index, MPI_Status* status) {
  services.exchanges.completes();
  if (!switches.active) return next.Waitany(count, array_of_requests, index, status);
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
  services.exchanges.completes();
  if (!switches.active) {
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
  const int code = test_any(count, array_of_requests, index, flag, status);
  return switches.active && code == MPI_SUCCESS && *flag == 0 ? test_in_vain(code) : code;
}

int Testsome(int incount, MPI_Request array_of_requests[], int* outcount, int array_of_indices[],
             MPI_Status array_of_statuses[]) {
  services.exchanges.completes();
  const int code =
      test_some(incount, array_of_requests, outcount, array_of_indices, array_of_statuses);
  return switches.active && code == MPI_SUCCESS && *outcount == 0 ? test_in_vain(code) : code;
}

int Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  if (!switches.active) return next.Request_get_status(request, flag, status);
  StatusOrOwn seen(status);
  const int code = next.Request_get_status(request, flag, seen.get());
  if (code != MPI_SUCCESS) return code;
  if (*flag == 0) return test_in_vain(code);
  look_at(request, seen.get());
  return code;
}

int Request_get_status_any(int count, const MPI_Request array_of_requests[], int* index, int* flag,
                           MPI_Status* status) {
  StatusOrOwn seen(status);
  const int code = next.Request_get_status_any(count, array_of_requests, index, flag, seen.get());
  if (code != MPI_SUCCESS || !switches.active) return code;
  if (*flag == 0) return test_in_vain(code);
  if (*index != MPI_UNDEFINED) look_at(array_of_requests[*index], seen.get());
  return code;
}

int Request_get_status_all(int count, const MPI_Request array_of_requests[], int* flag,
                           MPI_Status array_of_statuses[]) {
  if (!switches.active || !is_watching()) {
    const int code = next.Request_get_status_all(count, array_of_requests, flag, array_of_statuses);
    return switches.active && code == MPI_SUCCESS && *flag == 0 ? test_in_vain(code) : code;
  }
  Batch batch(count, array_of_requests, array_of_statuses);
  const int code = next.Request_get_status_all(count, array_of_requests, flag, batch.statuses());
  if (code == MPI_SUCCESS && *flag == 0) return test_in_vain(code);
  for (std::size_t i = 0; code == MPI_SUCCESS && i < batch.size(); ++i) {
    look_at(batch.handle(i), &batch.status(i));
  }
  return code;
}

int Request_get_status_some(int incount, const MPI_Request array_of_requests[], int* outcount,
                            int array_of_indices[], MPI_Status array_of_statuses[]) {
  if (!switches.active || !is_watching()) {
    const int code = next.Request_get_status_some(incount, array_of_requests, outcount,
                                                  array_of_indices, array_of_statuses);
    return switches.active && code == MPI_SUCCESS && *outcount == 0 ? test_in_vain(code) : code;
  }
  Batch batch(incount, array_of_requests, array_of_statuses);
  const int code = next.Request_get_status_some(incount, array_of_requests, outcount,
                                                array_of_indices, batch.statuses());
  if (code != MPI_SUCCESS || *outcount == MPI_UNDEFINED) return code;
  if (*outcount == 0) return test_in_vain(code);
  for (std::size_t i = 0; i < length(*outcount); ++i) {
    look_at(batch.handle(static_cast<std::size_t>(array_of_indices[i])), &batch.status(i));
  }
  return code;
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
