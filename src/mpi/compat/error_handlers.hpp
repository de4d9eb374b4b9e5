// SPDX-License-Identifier: BSD-3-Clause
// The communicator whose error handler a failing receive calls.
//
// Manyhands replaces a blocking receive by a nonblocking receive and calls of MPI_Test. MPICH 4.0
// raises the error of a nonblocking receive on MPI_COMM_WORLD, so the replaced receive would end
// the MPI job although its communicator returns errors. If the handlers of the receive's
// communicator and of MPI_COMM_WORLD differ, both communicators get MPI_ERRORS_RETURN while a
// thread waits, and Manyhands raises the error on the receive's communicator. Limits: during the
// wait the errors of other threads return, and a handler that another thread sets is lost. If two
// receives fail at the same time, a handler may be called twice.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "mpi/job/comms.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::error_handlers {

// Counts the program's changes of error handlers, and the communicators that it frees. After
// either, a thread asks the MPI library for the handlers again (KnownAnswer). relaxed: the outcome
// is undefined if a program changes a handler while another thread waits on that communicator.
inline std::atomic<std::uint32_t> changes{0};
inline void note_change() { changes.fetch_add(1, std::memory_order_relaxed); }

// True if the program has made the handler; false for a predefined handler.
bool is_users_handler(MPI_Errhandler handler);
// True under MPICH 5, in which some failing calls return MPI_SUCCESS after an error handler of the
// program has run. A returned MPI_SUCCESS then does not prove success.
bool failing_calls_return_success();

// Gives a communicator MPI_ERRORS_RETURN while this object lives, instead of the program's handler.
class HandlerOverride {
 public:
  explicit HandlerOverride(MPI_Comm comm);
  ~HandlerOverride();
  HandlerOverride(const HandlerOverride&) = delete;
  HandlerOverride& operator=(const HandlerOverride&) = delete;

 private:
  MPI_Comm comm_;
};

// Handles the errors of one blocking receive. Made before the wait; replaces error handlers during
// the wait where that is necessary.
class ReceiveErrors {
 public:
  explicit ReceiveErrors(MPI_Comm comm);  // MPI_COMM_NULL if the communicator is not known

  // Puts the program's handlers back. If the wait ended with the error `code`, calls the program's
  // handler, which the MPI library could not call while it was replaced. Called once, after the
  // wait. Returns `code`.
  int raised(int code);

 private:
  MPI_Comm comm_;
  std::optional<HandlerOverride> world_;
  std::optional<HandlerOverride> own_;
};

// Raises the error of a receive on `comm` that got a held message (rndv/held_messages.hpp). Such a
// message is received on config.self_comm. Does nothing under an MPI library that raises errors of
// nonblocking receives on MPI_COMM_WORLD, because that library has raised the error already. Other
// libraries have raised the error on config.self_comm, which returns errors. Returns `code`.
int raise_for_held_message(const Comm* comm, int code);

}  // namespace mh::mpi::error_handlers
