// SPDX-License-Identifier: BSD-3-Clause
// MPI calls inside shared loops: the check in front of every wrapper once loops are shared. (Only
// then are the entries of the front replaced, so a program without shared loops pays nothing.)
//
// A helper runs iterations in its owner's process, so its MPI calls are calls of the owner.
//
//   Threads. Without MPI_THREAD_MULTIPLE the threads of a region call the library in turns, one
//   call a *turn*. A call that waits passes its turn to other threads between two tests
//   (wait::WaitActions::between_polls), so a helper's receive does not keep its owner from the send
//   that the receive waits for. An unmarked region that calls MPI in turns is not shared.
//
//   Order. Collective and one-sided calls depend on the order of iterations, which helpers change.
//   An unmarked region that makes such a call is not shared. In a marked region, or on a helper,
//   such a call is an error.
//
//   Cores. A helper that has to wait returns the core that it works on (wait.hpp, pool.hpp).
//
// Limit: calls that are not in calls.json (MPI_Comm_rank, MPI_Wtime) are not checked.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"
#include "openmp/region.hpp"

namespace mh::mpi::in_loop {

// The rule for an MPI call in a shared loop, from calls.json. turns: the call waits for its
// thread's turn. refused: the call is also an error in a marked loop and on a helper.
enum class Rule : std::uint8_t { turns, refused };

// The turn of a thread that runs iterations of a region and calls MPI. The object lives as long as
// the call. MPI calls inside that call, by the library or a callback, belong to the same turn.
class Turn {
 public:
  Turn(openmp::Participant& me, Rule rule);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // True if `call` is an error in this loop, for which the caller then raises the error. The first
  // such call of the process prints a message.
  [[nodiscard]] bool refuses(const char* call) const;

 private:
  openmp::Participant& me_;
  bool outermost_;
  bool has_library_ = false;
};

// Raise the error of a refused call on the communicator or window, and return the error code.
int raise_on_comm(MPI_Comm comm);
int raise_on_window(MPI_Win window);

// Passes this thread's turn to another thread that waits for its own turn to call the MPI library,
// if there is one. Called by a thread that waits in an MPI call, between two of its tests.
void pass_turn();

// From now on several threads of this rank may be in intercepted calls (switches.threads). Not to
// be called while an intercepted call is under way.
void expect_threads();

// Called once loops are shared: from now on every intercepted call checks whether its thread is in
// a shared loop.
void start();

}  // namespace mh::mpi::in_loop
