// SPDX-License-Identifier: BSD-3-Clause
// MPI calls inside shared loops: what stands in front of every wrapper once loops are shared. (The
// entries of the front are exchanged then, so a program without shared loops pays nothing.)
//
// A helper runs iterations in its owner's process, so its calls are the owner's. Three things need
// care:
//
//   Threads. Where the library has not granted MPI_THREAD_MULTIPLE, the threads of a region take
//   turns: a *turn* is one call, and a call that waits lets others have theirs between two looks
//   (wait::WaitActions::between_polls). So a helper's receive never keeps its owner from the send that it
//   waits for, as it would if helpers waited until their owner is done; nor does a helper inside a
//   critical section. Unmarked regions that call MPI are not shared then at all.
//
//   Order. Collective and one-sided calls count on the order of iterations, which helpers change.
//   They exclude an unmarked region, and are an error in a marked one and on a helper.
//
//   Cores. A helper that has to wait gives the core back that it works on (wait.hpp, pool.hpp).
//
// Limits: calls that are not in calls.json (MPI_Comm_rank, MPI_Wtime) are not looked at.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"
#include "openmp/region.hpp"

namespace mh::mpi::in_loop {

// What becomes of a call, as calls.json says.
enum class Rule : std::uint8_t { turns, refused };

// One call of a thread that takes part in a region. Calls of the library, or of a callback, that
// come from within it belong to it.
class Turn {
 public:
  Turn(openmp::Participant& me, Rule rule);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Says so once where the call may not be made here.
  [[nodiscard]] bool refuses(const char* call) const;

 private:
  openmp::Participant& me_;
  bool outermost_;
  bool has_library_ = false;
};

// The error of a refused call, given to the error handler first.
int raise_on_comm(MPI_Comm comm);
int raise_on_window(MPI_Win window);

// Between two looks of a wait: others that wait for the library get it.
void let_others();

// This rank counts as one with threads from now on: while a call of it waits, others may be made.
// Not while a call is under way that does not expect that.
void count_with_threads();

// Looks at the program's calls from now on.
void start();

}  // namespace mh::mpi::in_loop
