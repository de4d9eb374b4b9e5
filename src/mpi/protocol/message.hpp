// SPDX-License-Identifier: BSD-3-Clause
// What both sides of a message are written with: sizes, statuses, waiting for a request, errors.
// Any thread.
#pragma once

#include <cstdint>
#include <utility>

#include "mpi/datatype/datatypes.hpp"
#include "mpi/next.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {

// Bytes of `count` elements, 0 for a negative count (the library reports that).
template <class Count>
std::uint64_t message_bytes(Count count, const datatypes::Info& info) {
  return count > 0 ? static_cast<std::uint64_t>(count) * info.size : 0;
}

// A status of our own where the caller gave none, so that we can look at what was received.
class StatusOrOwn {
 public:
  explicit StatusOrOwn(MPI_Status* users) : users_(users == MPI_STATUS_IGNORE ? nullptr : users) {}
  MPI_Status* get() { return users_ != nullptr ? users_ : &own_; }

 private:
  MPI_Status* users_;
  MPI_Status own_{};
};

// Where a message came from, as its receiver sees it.
struct Envelope {
  int source;
  int tag;
};

inline void set_envelope(MPI_Status* status, const Envelope& envelope) {
  status->MPI_SOURCE = envelope.source;
  status->MPI_TAG = envelope.tag;
}

inline void set_bytes(MPI_Status* status, std::uint64_t bytes) {
  real.Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(bytes));
}

// A look at one active request; true if it is complete, or failed.
class TestOf {
 public:
  TestOf(MPI_Request* request, MPI_Status* status) : request_(request), status_(status) {}
  bool operator()() {
    code_ = next.Test(request_, &flag_, status_);
    return flag_ != 0 || code_ != MPI_SUCCESS;
  }
  [[nodiscard]] int code() const { return code_; }

 private:
  MPI_Request* request_;
  MPI_Status* status_;
  int flag_ = 0;
  int code_ = MPI_SUCCESS;
};

// Waits for one active request with the wait loop; as MPI_Wait otherwise.
inline int wait_request(MPI_Request* request, MPI_Status* status, int looks = wait::kFewLooks) {
  TestOf test(request, status);
  wait::until(test, looks);
  return test.code();
}

// The same for a request that a call of the program waits for.
inline int await_request(MPI_Request* request, MPI_Status* status, int looks = wait::kFewLooks) {
  TestOf test(request, status);
  wait::until_shared(test, looks);
  return test.code();
}

// Waits until each rank of `comm` has said rests() once. Collective.
template <class Rests>
void rest_together(MPI_Comm comm, Rests&& rests) {
  MPI_Request everyone = MPI_REQUEST_NULL;
  bool asked = false;
  wait::until([&] {
    if (rests() && !std::exchange(asked, true)) real.Ibarrier(comm, &everyone);
    int flag = 0;
    return asked && (real.Test(&everyone, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag != 0);
  });
}

// Nobody will send what this receive waits for; nothing if there is none.
inline void drop_receive(MPI_Request& request) {
  if (request == MPI_REQUEST_NULL) return;
  real.Cancel(&request);
  real.Request_free(&request);
}

inline bool is_of_class(int code, int wanted) {
  int found = MPI_SUCCESS;
  real.Error_class(code, &found);
  return found == wanted;
}
inline bool is_truncation(int code) { return is_of_class(code, MPI_ERR_TRUNCATE); }
// Not an error of this request: it is not complete, because another of the same call failed.
inline bool is_pending(int code) { return is_of_class(code, MPI_ERR_PENDING); }

// Gives `code` to the error handler of `comm`, as the library would have done.
inline int raise(MPI_Comm comm, int code) {
  real.Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace mh::mpi
