// SPDX-License-Identifier: BSD-3-Clause
// Shared parts of the calls that complete requests (MPI_Wait* and MPI_Test*): copies of the
// handles, made before the library clears them, and statuses of our own if the program ignores its
// statuses.
//
// The objects belong to the calling thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mpi/abi.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/rndv/completion.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "wait/polling.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {

// An array that allocates only if it has more than 32 elements. Elements are not initialised.
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

inline std::size_t length(int count) { return count > 0 ? static_cast<std::size_t>(count) : 0; }

// A copy of the handles of an array of requests, made before the library clears them. The copy is
// empty unless `needed`, that is, unless this rank has started a receive whose message
// rndv::complete() may have to fetch.
class RequestHandles {
 public:
  RequestHandles(int count, const MPI_Request* requests, bool needed)
      : needed_(needed && requests != nullptr),
        count_(needed_ ? length(count) : 0),
        handles_(count_) {
    std::copy_n(requests, count_, handles_.data());
    if (!switches.threads) return;
    // Claims the receives among the requests before the library tests them: once a request is
    // complete, another thread may get its handle for a new request.
    claims_.reserve(count_);
    for (std::size_t i = 0; i < count_; ++i) claims_.push_back(rndv::receives.claim(handles_[i]));
  }

  [[nodiscard]] bool needed() const { return needed_; }
  MPI_Request operator[](std::size_t i) { return handles_[i]; }
  rndv::ReceiveClaim claim(std::size_t i) {
    return switches.threads ? std::move(claims_[i]) : rndv::receives.claim(handles_[i]);
  }
  // True if the thread of this call has claimed request `i`, a receive, and so has to fetch its
  // message.
  bool is_claimed(std::size_t i) { return static_cast<bool>(claims_[i]); }

 private:
  bool needed_;
  std::size_t count_;
  Scratch<MPI_Request> handles_;
  std::vector<rndv::ReceiveClaim> claims_;  // empty unless switches.threads
};

// The statuses of an array of requests: the program's, or our own if the program ignores statuses
// and `needed` is true, that is, if Manyhands itself has to read them.
class Statuses {
 public:
  Statuses(int count, MPI_Status* users, bool needed)
      : own_(users == MPI_STATUSES_IGNORE && needed ? length(count) : 0),
        statuses_(users == MPI_STATUSES_IGNORE && needed ? own_.data() : users) {}

  MPI_Status* get() { return statuses_; }
  MPI_Status& operator[](std::size_t i) { return statuses_[i]; }

 private:
  Scratch<MPI_Status> own_;
  MPI_Status* statuses_;
};

// Called by every call that completes requests: tells the detector of exchanges
// (p2p/exchange_detector.hpp) that the rank completes requests. True if Manyhands is active, so
// that any request may be of a rendezvous message, which rndv::complete() has to fetch.
inline bool may_complete_ours() {
  services.exchange_detector.completes();
  return switches.active;
}

// Called after a test of the program that found no completed request. A program may test once per
// element that it computes, so a test must be cheap. Therefore, while this rank has no send under
// way, only each kOwnDuties-th test that finds nothing moves chunks of the rank's own messages.
// Returns true if the caller is to call wait::help_if_polling(), which may help other ranks.
inline bool note_failed_test() {
  constexpr std::uint32_t kOwnDuties = 64;
  static constinit std::atomic<std::uint32_t> polled{0};  // relaxed: need not be exact
  const std::uint32_t before = polled.load(std::memory_order_relaxed);
  polled.store(before + 1, std::memory_order_relaxed);
  if (before % kOwnDuties != 0 && services.send_table.empty()) return false;
  wait::note_failed_poll();
  return before % wait::PollingStretch::kPolls == 0 && !switches.threads;
}

// Tells whether a call tests its requests once (MPI_Test*), or until one is complete (MPI_Wait*).
enum class Polls : std::uint8_t { once, until_found };

// Calls test() once, or until it has set `found` to another value than 0 or has failed. Returns the
// code of the last test, which is the library's. Helps other ranks between the tests.
template <class Test>
int poll_requests(Polls polls, const int* found, Test&& test) {
  int code = MPI_SUCCESS;
  auto is_over = [&] {
    code = test();
    return code != MPI_SUCCESS || *found != 0;
  };
  if (polls == Polls::until_found) {
    wait::until_shared(is_over);
  } else if (!is_over() && note_failed_test()) {
    wait::help_if_polling(is_over);
  }
  return code;
}

// Returns how many tests a wait makes before it begins to help other ranks. Many if the rank
// exchanges short messages, whose latency counts; few while a long message of the rank is under
// way.
inline int polls_before_help() {
  return services.send_table.empty() && !rndv::receives.any_long() ? wait::kManyPolls
                                                                   : wait::kFewPolls;
}

}  // namespace mh::mpi
