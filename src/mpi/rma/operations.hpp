// SPDX-License-Identifier: BSD-3-Clause
// RMA operations on the windows that Manyhands serves (windows.hpp): from the arguments of a call
// to the bytes in memory.
//
// Within a node, an operation is done when its call returns: a fence, start or lock of the target
// has allowed the access. Short puts and accumulates on memory that only the kernel reaches are
// deferred (rma/deferred.hpp) until another operation, a flush or the end of the epoch. Operations
// on other nodes are sent at the call (remote.hpp). Origin buffers may be reused when the call
// returns. Operations of one origin take effect in the order of the calls. Thread-safe.
//
// A call with invalid arguments (no such rank, a negative count, elements of several kinds) goes to
// the library, which reports the error. Libraries differ in the types that MPI_Fetch_and_op and
// MPI_Compare_and_swap accept, and in the operations and pairs of types that accumulates accept. In
// such cases the library first gets the same call to MPI_PROC_NULL, in which it only checks the
// arguments and calls the error handler if an argument is wrong.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/abi.hpp"
#include "mpi/call_result.hpp"
#include "mpi/rma/windows.hpp"
#include "rma/reduce.hpp"

namespace mh::mpi::rma {

// An origin or result buffer as in the arguments of a call.
struct BufferArgs {
  const void* address = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type{};
};

struct TargetArgs {
  int rank;
  MPI_Aint displacement;
  MPI_Count count;
  MPI_Datatype type;
};

CallResult put(Win& win, const BufferArgs& origin, const TargetArgs& target);
CallResult get(Win& win, const BufferArgs& result, const TargetArgs& target);
// Carries out MPI_Get_accumulate, or MPI_Accumulate if `result` is null.
CallResult accumulate(Win& win, const BufferArgs& origin, const BufferArgs* result,
                      const TargetArgs& target, MPI_Op op);
CallResult fetch_and_op(Win& win, const void* origin, void* result, MPI_Datatype type, int rank,
                        MPI_Aint displacement, MPI_Op op);
CallResult compare_and_swap(Win& win, const void* origin, const void* compare, void* result,
                            MPI_Datatype type, int rank, MPI_Aint displacement);

inline CallResult get_accumulate(Win& win, const BufferArgs& origin, const BufferArgs& result,
                                 const TargetArgs& target, MPI_Op op) {
  return accumulate(win, origin, &result, target, op);
}

// Makes the request for MPI_Rput and similar calls, after the operation itself has returned `done`.
// First waits for results from other nodes, so the request is complete at once.
CallResult with_request(MPI_Win handle, CallResult done, MPI_Request* request);

// Carries out this rank's deferred operations on `target`, or on all targets if it is empty. Called
// before an epoch or a flush ends. Returns false if an operation has failed.
bool complete_deferred_slow(Win& win, std::optional<std::uint32_t> target);
[[nodiscard]] inline bool complete_deferred(Win& win,
                                            std::optional<std::uint32_t> target = std::nullopt) {
  return !win.window.has_deferred() || complete_deferred_slow(win, target);
}

// Drives the progress of the MPI library and of our own protocol, in every 64th call by a thread.
// Called by calls that wait for nothing, but which a program may repeat until another rank has done
// something.
void progress_sometimes();

}  // namespace mh::mpi::rma
