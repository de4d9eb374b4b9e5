// SPDX-License-Identifier: BSD-3-Clause
// Which communicator's error handler a failing receive calls.
//
// A blocking receive is a started one and tests here. MPICH 4.0 raises the errors of completions
// for MPI_COMM_WORLD, so a receive would end a job whose own communicator returns its errors. Where
// the two handlers differ, both are set aside while a thread waits, and the error is raised for the
// receive's communicator. Limit: what other threads do meanwhile but wait: their errors return, and
// a handler that they set is lost; two that fail at a time may call a handler twice.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "mpi/job/comms.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::error_handlers {

// How often an error handler was set or a communicator freed. relaxed: a program that changes a
// handler while another thread waits on that communicator has no certain outcome.
inline std::atomic<std::uint32_t> changes{0};
inline void note_change() { changes.fetch_add(1, std::memory_order_relaxed); }

// A handler that the program has made.
bool is_users_handler(MPI_Errhandler handler);
// MPICH 5: some calls that fail return MPI_SUCCESS once a handler of the program was told of it.
bool failure_is_told_to_handlers_alone();

// While it lives, errors on a communicator are returned.
class Override {
 public:
  explicit Override(MPI_Comm comm);
  ~Override();
  Override(const Override&) = delete;
  Override& operator=(const Override&) = delete;

 private:
  MPI_Comm comm_;
};

// For the wait of one blocking receive.
class ReceiveErrors {
 public:
  explicit ReceiveErrors(MPI_Comm comm);  // MPI_COMM_NULL where it is not known

  // The outcome of the wait, once. An error is raised if the library has not done so.
  int raised(int code);

 private:
  MPI_Comm comm_;
  std::optional<Override> world_;
  std::optional<Override> own_;
};

// The outcome `code` of a receive on `comm` whose message this rank has sent itself once more,
// after a probe (rndv/held_messages.hpp). A library that raises errors where they belong has raised
// it for a communicator of ours, which returns errors: here it is raised for the receive's.
int raise_for_held_message(const Comm* comm, int code);

}  // namespace mh::mpi::error_handlers
