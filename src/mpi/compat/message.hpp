// SPDX-License-Identifier: BSD-3-Clause
// Small functions that both ends of a message use: sizes, statuses, waits for a request of the MPI
// library, errors, FINs. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "mpi/datatype/datatypes.hpp"
#include "mpi/job/config.hpp"
#include "mpi/next.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {

// The bytes of a message of `count` elements of a datatype; 0 for a negative count, which the MPI
// library will report as an error.
template <class Count>
std::uint64_t message_bytes(Count count, const datatypes::Info& info) {
  return count > 0 ? static_cast<std::uint64_t>(count) * info.size : 0;
}

// The status that the program has passed to a call, or a status in this object if the program has
// passed MPI_STATUS_IGNORE.
class StatusOrOwn {
 public:
  explicit StatusOrOwn(MPI_Status* users) : users_(users == MPI_STATUS_IGNORE ? nullptr : users) {}
  MPI_Status* get() { return users_ != nullptr ? users_ : &own_; }

 private:
  MPI_Status* users_;
  MPI_Status own_{};
};

// The source and tag of a message, or of a receive; a receive may have wildcards.
struct MessageEnvelope {
  int source;
  int tag;
};

inline void set_envelope(MPI_Status* status, const MessageEnvelope& envelope) {
  status->MPI_SOURCE = envelope.source;
  status->MPI_TAG = envelope.tag;
}

inline void set_bytes(MPI_Status* status, std::uint64_t bytes) {
  real.Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(bytes));
}

// Tests one active request by MPI_Test. A call of the object returns true if the request is
// complete or has failed.
class RequestTest {
 public:
  RequestTest(MPI_Request* request, MPI_Status* status) : request_(request), status_(status) {}
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

// Completes one active request as MPI_Wait does, by tests in the wait loop. `polls`: the number of
// tests before the first step of help, as for wait::until(). Returns the MPI library's code.
inline int wait_request(MPI_Request* request, MPI_Status* status, int polls = wait::kFewPolls) {
  RequestTest test(request, status);
  wait::until(test, polls);
  return test.code();
}

// Waits like wait_request(), for a call of the program that holds no lock: among many waiting
// threads, one of them, the server, may test the request in place of this thread
// (wait::until_shared()).
inline int await_request(MPI_Request* request, MPI_Status* status, int polls = wait::kFewPolls) {
  RequestTest test(request, status);
  wait::until_shared(test, polls);
  return test.code();
}

// Waits in the wait loop until rests() has once been true on every rank of `comm`. Collective. Each
// rank passes its own rests(), which is true while that rank has no message under way.
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

// Cancels a started receive whose message will not come, and frees its request. Does nothing for
// MPI_REQUEST_NULL.
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
// True for MPI_ERR_PENDING, the code of a request in MPI_Waitall or a similar call that is not
// complete, because another request of the same call has failed.
inline bool is_pending(int code) { return is_of_class(code, MPI_ERR_PENDING); }

// Sends bytes to a rank of the node, which may be this rank, on config.node_comm, and frees the
// request of this send. The sender learns in another way that the bytes have arrived. The receiver
// waits for the bytes, so a failure calls the error handler of MPI_COMM_WORLD.
inline void send_to_node_rank(const void* bytes, int count, std::uint32_t rank, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      real.Isend(bytes, count, MPI_BYTE, static_cast<int>(rank), tag, config.node_comm, &request);
  if (code == MPI_SUCCESS) {
    real.Request_free(&request);
  } else {
    real.Comm_call_errhandler(MPI_COMM_WORLD, code);
  }
}

// Sends a FIN with this tag to a rank of the node, which may be this rank. The FIN completes a
// receive of that rank on config.node_comm.
inline void send_fin(std::uint32_t rank, int tag) { send_to_node_rank(nullptr, 0, rank, tag); }

// The number of operations under way that no call of the program completes, so that the wait loop
// must. These are receives and persistent sends whose request the program has freed, persistent
// sends that the MPI library sends, and sends by internode pipeline. relaxed: a hint.
inline std::atomic<std::size_t> detached_operations{0};

// Calls the error handler of `comm` with `code`, and returns `code`.
inline int raise(MPI_Comm comm, int code) {
  real.Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace mh::mpi
