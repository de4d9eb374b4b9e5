// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, completion: MPI_Waitall.
//
// Where a message of ours may come in, requests complete one by one, each settled as soon as it is
// there. Otherwise the call waits for the one that is likely to be the last and then asks for all.
#include <algorithm>
#include <utility>

#include "mpi/calls/completion.hpp"
#include "mpi/calls/shortcut.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// Requests of an array complete one by one, so that a long message is fetched as soon as it is
// there and not when the last one is.
class WaitAll {
 public:
  WaitAll(int count, MPI_Request* requests, MPI_Status* users)
      : count_(count),
        requests_(requests),
        size_(length(count)),
        handles_(count, requests, true),
        statuses_(count, users, true),
        left_(length(count)),
        indices_(length(count)),
        completed_(length(count)),
        codes_(length(count)) {}

  int run() {
    clear_statuses();
    std::copy_n(requests_, size_, left_.data());
    for (;;) {
      wait::until_shared([&] { return look(); });
      if (is_refused()) return code_;
      if (found_ == MPI_UNDEFINED) return errors_ ? with_errors() : MPI_SUCCESS;
      take();
    }
  }

 private:
  // True if all are complete, or some are that the thread which waits has to look at itself.
  bool look() {
    code_ = next.Testsome(count_, left_.data(), &found_, indices_.data(), completed_.data());
    if (code_ != MPI_SUCCESS || found_ == MPI_UNDEFINED) return true;
    if (switches.threads && is_of_interest()) return true;
    take();
    return false;
  }
  // The call has failed, and not the requests.
  [[nodiscard]] bool is_refused() const {
    return code_ != MPI_SUCCESS && code_ != MPI_ERR_IN_STATUS;
  }
  // A message may have to be fetched for one of those that were found.
  bool is_of_interest() {
    return std::any_of(indices_.data(), indices_.data() + length(found_), [this](int index) {
      return handles_.entry(static_cast<std::size_t>(index)) != nullptr;
    });
  }

  // Requests that are null or inactive have the empty status, with no error.
  void clear_statuses() {
    MPI_Request none = MPI_REQUEST_NULL;
    MPI_Status empty{};
    int flag = 0;
    real.Test(&none, &flag, &empty);
    for (std::size_t i = 0; i < size_; ++i) set_status(i, empty);
    std::fill_n(codes_.data(), size_, MPI_SUCCESS);
  }

  // Its error is the program's own unless the call has one.
  void set_status(std::size_t i, const MPI_Status& status) {
    const int error = statuses_[i].MPI_ERROR;
    statuses_[i] = status;
    statuses_[i].MPI_ERROR = error;
  }
  int with_errors() {
    for (std::size_t i = 0; i < size_; ++i) statuses_[i].MPI_ERROR = codes_[i];
    return MPI_ERR_IN_STATUS;
  }

  // Those that were found.
  void take() {
    const bool with_errors = code_ == MPI_ERR_IN_STATUS;
    for (std::size_t i = 0; i < length(found_); ++i) {
      const auto index = static_cast<std::size_t>(indices_[i]);
      MPI_Status& status = completed_[i];
      // MPICH 4.0 takes a persistent collective that is complete for an active one.
      requests_[index] = std::exchange(left_[index], MPI_REQUEST_NULL);
      const int code = with_errors ? status.MPI_ERROR : MPI_SUCCESS;
      codes_[index] = settled(code, handles_[index], handles_.entry(index), &status);
      errors_ = errors_ || codes_[index] != MPI_SUCCESS;
      set_status(index, status);
    }
  }

  int count_;
  MPI_Request* requests_;
  std::size_t size_;
  Handles handles_;
  Statuses statuses_;
  Scratch<MPI_Request> left_;
  Scratch<int> indices_;
  Scratch<MPI_Status> completed_;
  Scratch<int> codes_;
  int found_ = 0;  // by the last look, and its code
  int code_ = MPI_SUCCESS;
  bool errors_ = false;
};

[[gnu::noinline]] int wait_all_settling(int count, MPI_Request* requests, MPI_Status* statuses) {
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
         await_request(&requests_[i], users_ == nullptr ? MPI_STATUS_IGNORE : &users_[i], looks()));
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

// The only short receive under way, in the array: -1 if it is not there, or not the only one.
int place_of_only_short(int count, const MPI_Request* requests) {
  if (short_receives.count() != 1) return -1;
  for (int i = 0; i < count; ++i) {
    if (short_receives.find(requests[i]) != nullptr) return i;
  }
  return -1;
}

// In a tight loop the library may wait for all.
int wait_all_for_only_short(int at, int count, MPI_Request* requests, MPI_Status* users) {
  const MPI_Request handle = requests[at];
  const int code = may_wait_in_library(true) ? next.Waitall(count, requests, users)
                                             : wait_all_from(at, count, requests, users, false);
  short_receives.settle(handle);
  return code;
}

// In a tight loop the library may wait for the rest once the last short receive is there: had one
// before met a message that is too long, whose sender may have to wait for us, that would not have
// come.
[[gnu::noinline]] int wait_all_for_shorts(int count, MPI_Request* requests, MPI_Status* users) {
  Scratch<MPI_Request> handles(length(count));
  std::copy_n(requests, length(count), handles.data());
  const ShortOnes found = short_ones(count, requests);
  const bool awaited = found.of_one_source && found.count == short_receives.count();
  const int last = found.count == 0 ? count - 1 : found.last;
  const int code = wait_all_from(last, count, requests, users, may_wait_in_library(awaited));
  for (std::size_t i = 0; i < length(count); ++i) short_receives.settle(handles[i]);
  return code;
}

[[gnu::noinline]] int await_any_all(int count, MPI_Request* requests, MPI_Status* statuses) {
  // Where short receives are under way and nothing is in the pending requests.
  if (short_receives.any() && !pending_requests.any()) {
    const int at = place_of_only_short(count, requests);
    return at < 0 ? wait_all_for_shorts(count, requests, statuses)
                  : wait_all_for_only_short(at, count, requests, statuses);
  }
  if (may_wait_in_library() && switches.errors_are_fatal) {
    return next.Waitall(count, requests, statuses);
  }
  if (pending_requests.any() || !switches.errors_are_fatal) {
    return wait_all_settling(count, requests, statuses);
  }
  return wait_all_from(count - 1, count, requests, statuses, false);
}

// The usual case of it: the receive was alone from its start on, in a tight loop.
[[gnu::noinline]] int await_all_with_short(int count, MPI_Request* requests, MPI_Status* statuses) {
  int at = 0;
  while (!short_receives.is_alone(requests[at])) {
    if (++at == count) return await_any_all(count, requests, statuses);
  }
  if (!nothing_long_under_way() || !short_calls.known_tight())
    return await_any_all(count, requests, statuses);
  const int code = next.Waitall(count, requests, statuses);
  short_receives.settle_alone();
  return code;
}

// A tail call: see receive.cpp.
int await_all(int count, MPI_Request* requests, MPI_Status* statuses) {
  if (short_receives.any()) return await_all_with_short(count, requests, statuses);
  if (switches.errors_are_fatal && passes()) return next.Waitall(count, requests, statuses);
  return await_any_all(count, requests, statuses);
}

}  // namespace
}  // namespace mh::mpi

// The wrappers, generated from calls.json.
#include "mpi/calls/wait_all.inc"
