// SPDX-License-Identifier: BSD-3-Clause
// What the calls that complete requests share: the handles of an array as they were before the
// library cleared them, and the settling of what has completed.
//
// Of the thread that makes the call.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "mpi/abi.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/protocol/pending_requests.hpp"
#include "mpi/protocol/short_receives.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {

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

inline std::size_t length(int count) { return count > 0 ? static_cast<std::size_t>(count) : 0; }

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
inline bool is_watching() { return pending_requests.any() || short_receives.any(); }

// A completed request: settled, and an error of settling raised for its communicator, which is
// known only from its entry.
int settle_and_raise(MPI_Request handle, const PendingReceivePtr& entry, MPI_Status* status);

// The outcome of a call for one request that had no entry under way. A receive may have been too
// short for a descriptor, and matched with one: the error is right, and the sender must get its
// buffer back.
int checked(int code, const MPI_Status& status);
// Likewise for several requests.
int checked(int code, int count, const MPI_Status* statuses);

// The outcome for one that has failed.
int failed(int code, MPI_Request handle, const PendingReceivePtr& entry, MPI_Status* status);

// A test, or a look, that found nothing: its code.
inline int test_in_vain(int code) {
  wait::polled_in_vain();
  return code;
}

// How often a wait looks for its end before it looks around: as a latency-bound exchange needs it,
// if nothing long is under way.
inline int looks() {
  return services.send_queue.empty() && !pending_requests.any() ? wait::kManyLooks
                                                                : wait::kFewLooks;
}

}  // namespace mh::mpi
