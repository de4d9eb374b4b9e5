// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3 of the MPI standard, completion: MPI_Waitall.
//
// In a tight loop of short messages the call goes straight to the library, if errors are fatal and
// no operation of Manyhands is under way (shortcut.hpp): then no status needs a correction by
// Manyhands. Otherwise one loop completes the requests in the order of their completion, and
// fetches a rendezvous message once its RTS header has come.
#include <algorithm>
#include <utility>

#include "mpi/calls/completion.hpp"
#include "mpi/calls/shortcut.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// The state of an MPI_Waitall. The wait calls MPI_Testsome again and again rather than MPI_Testall,
// because MPI_Testall fails in MPICH 4.0 if a persistent collective is among the requests.
class WaitAll {
 public:
  WaitAll(int count, MPI_Request* requests, MPI_Status* users)
      : count_(count),
        requests_(requests),
        users_(users == MPI_STATUSES_IGNORE ? nullptr : users),
        handles_(count, requests, true),
        left_(length(count)),
        indices_(length(count)),
        completed_(length(count)),
        codes_(length(count)) {}

  int run() {
    std::copy_n(requests_, length(count_), left_.data());
    std::fill_n(codes_.data(), length(count_), kOpen);
    for (;;) {
      wait::until_shared([&] { return poll(); }, polls_before_help());
      if (is_refused()) return code_;
      if (found_ == MPI_UNDEFINED) return finish();
      complete_found();
    }
  }

 private:
  static constexpr int kOpen = -1;  // in `codes_`: the request is not complete

  // Tests the requests that are not complete yet. Where many threads wait, another thread of the
  // rank may do this for the thread of the call. True if all requests are complete, or if only the
  // thread of the call may complete those that the test has found.
  bool poll() {
    code_ = next.Testsome(count_, left_.data(), &found_, indices_.data(), completed_.data());
    if (is_refused() || found_ == MPI_UNDEFINED) return true;
    if (found_ == 0) return false;
    if (switches.threads && (code_ != MPI_SUCCESS || is_claimed())) return true;
    complete_found();
    return done_ == count_;
  }
  // True if MPI_Testsome itself has failed, rather than a request.
  [[nodiscard]] bool is_refused() const {
    return code_ != MPI_SUCCESS && code_ != MPI_ERR_IN_STATUS;
  }
  // True if the test has found a receive that the thread of this call has claimed, and whose
  // message therefore only that thread may fetch.
  bool is_claimed() {
    return std::any_of(indices_.data(), indices_.data() + length(found_), [this](int index) {
      return handles_.is_claimed(static_cast<std::size_t>(index));
    });
  }

  void complete_found() {
    const bool with_errors = code_ == MPI_ERR_IN_STATUS;
    for (std::size_t i = 0; i < length(found_); ++i) {
      const auto index = static_cast<std::size_t>(indices_[i]);
      MPI_Status& status = completed_[i];
      // The request is taken out of the array that MPI_Testsome gets, because MPICH 4.0 treats a
      // completed persistent collective as active in the next test.
      requests_[index] = std::exchange(left_[index], MPI_REQUEST_NULL);
      const int code = with_errors ? status.MPI_ERROR : MPI_SUCCESS;
      codes_[index] = rndv::complete(handles_.claim(index), code, &status);
      has_errors_ = has_errors_ || codes_[index] != MPI_SUCCESS;
      if (users_ != nullptr) users_[index] = status;
      ++done_;
    }
    found_ = 0;
  }

  int finish() {
    for (std::size_t i = 0; users_ != nullptr && i < length(count_); ++i) {
      if (codes_[i] != kOpen) users_[i].MPI_ERROR = codes_[i];
      // A request that no test has found complete is null or inactive: the library's MPI_Waitall
      // writes the empty status for it, in which libraries differ.
      if (codes_[i] == kOpen) next.Waitall(1, &requests_[i], &users_[i]);
      if (codes_[i] == kOpen && has_errors_) users_[i].MPI_ERROR = MPI_SUCCESS;
    }
    return has_errors_ ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
  }

  int count_;
  MPI_Request* requests_;
  MPI_Status* users_;  // null if the caller ignores them
  RequestHandles handles_;
  Scratch<MPI_Request> left_;
  Scratch<int> indices_;
  Scratch<MPI_Status> completed_;
  Scratch<int> codes_;
  int done_ = 0;
  int found_ = 0;           // requests that the last test has found
  int code_ = MPI_SUCCESS;  // of the last test
  bool has_errors_ = false;
};

[[gnu::noinline]] int wait_all_helping(int count, MPI_Request* requests, MPI_Status* statuses) {
  return WaitAll(count, requests, statuses).run();
}

// Carries out MPI_Waitall, in the library if the call is part of a tight loop of short messages.
// The library's call is a tail call, which saves a return from deep in the library's wait: 50 ns in
// Open MPI 5.
int wait_all(int count, MPI_Request* requests, MPI_Status* statuses) {
  if (switches.errors_are_fatal && may_wait_in_library())
    return next.Waitall(count, requests, statuses);
  return wait_all_helping(count, requests, statuses);
}

}  // namespace
}  // namespace mh::mpi

#include "mpi/calls/wait_all.inc"
