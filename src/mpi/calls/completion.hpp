// SPDX-License-Identifier: BSD-3-Clause
// What the calls that complete requests share: the handles of an array as they were before the
// library cleared them, and the settling of what has completed.
//
// Of the thread that makes the call.
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

// Receives are under way that need a look when they complete.
inline bool is_watching() { return pending_requests.any() || short_receives.any(); }

// The handles of an array as they were before the library clears them, and their entries; nothing
// where nobody is to be `watched`.
class Handles {
 public:
  Handles(int count, const MPI_Request* requests, bool watched)
      : watched_(watched), count_(watched ? length(count) : 0), handles_(count_) {
    if (requests == nullptr || !watched) return;
    std::copy_n(requests, count_, handles_.data());
    if (!switches.threads) return;
    entries_.reserve(count_);
    for (std::size_t i = 0; i < count_; ++i) entries_.push_back(pending_requests.find(handles_[i]));
  }

  [[nodiscard]] bool watched() const { return watched_; }
  MPI_Request operator[](std::size_t i) { return handles_[i]; }
  // Looked up early where another thread may use the handle again as soon as it is completed.
  PendingReceivePtr entry(std::size_t i) {
    return switches.threads ? entries_[i] : pending_requests.find(handles_[i]);
  }

 private:
  bool watched_;
  std::size_t count_;
  Scratch<MPI_Request> handles_;
  std::vector<PendingReceivePtr> entries_;  // empty without threads
};

// Statuses of several requests: the caller's, or, if it wants none and they are `needed`, our own.
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

// A call that completes requests: true if some may be ours.
inline bool may_settle() {
  services.exchanges.completes();
  return switches.active;
}

// The outcome of a request that has completed with `code`. Where that is a success its message is
// settled; an error of settling is raised for its communicator, which is known only from its entry.
int settled(int code, MPI_Request handle, const PendingReceivePtr& entry, MPI_Status* status);

// The outcome of a call for one request that had no entry under way. A receive may have been too
// short for a descriptor, and matched with one: the error is right, and the sender must get its
// buffer back.
int checked(int code, const MPI_Status& status);

// A look at requests found nothing. A program may look once for each element that it computes:
// where no message of its own has to be brought to others, one such look in kLooks is made use of.
inline void looked_in_vain() {
  constexpr std::uint32_t kLooks = 16;
  static constinit std::atomic<std::uint32_t> looked{0};  // relaxed: about so many will do
  const std::uint32_t before = looked.load(std::memory_order_relaxed);
  looked.store(before + 1, std::memory_order_relaxed);
  if (before % kLooks != 0 && services.send_queue.empty()) return;
  wait::note_failed_poll();
}

// How a look at requests is made: once, or until it finds something.
enum class Looks : std::uint8_t { once, until_over };

// `test` returns a code; `found`: what it writes, 0 for nothing.
template <class Test>
int look(Looks looks, const int* found, Test&& test) {
  int code = MPI_SUCCESS;
  auto is_over = [&] {
    code = test();
    return code != MPI_SUCCESS || *found != 0;
  };
  if (looks == Looks::until_over) {
    wait::until_shared(is_over);
  } else if (!is_over()) {
    looked_in_vain();
  }
  return code;
}

// How often a wait looks for its end before it looks around: as a latency-bound exchange needs it,
// if nothing long is under way.
inline int looks() {
  return services.send_queue.empty() && !pending_requests.any() ? wait::kManyLooks
                                                                : wait::kFewLooks;
}

}  // namespace mh::mpi
