// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations on windows of ours: from the arguments of a call to bytes in their places.
//
// Done when they return: the target has let this rank in before, by fence, start or lock. So
// operations of one origin take effect in the order of the calls, a flush finds nothing under way,
// and requests are complete when they are made. Any thread.
//
// What cannot be meant (a rank that is none, negative counts, elements of several kinds) is
// `unusual`: the library gets the call and says what is wrong.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/abi.hpp"
#include "mpi/onesided/windows.hpp"
#include "onesided/reduce.hpp"

namespace mh::mpi::rma {

// A buffer as a call gives it.
struct Buffer {
  const void* address = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type{};
};

struct Target {
  int rank;
  MPI_Aint displacement;
  MPI_Count count;
  MPI_Datatype type;
};

// What became of a call: an MPI error code, or nothing where the library must say what is wrong.
using Outcome = std::optional<int>;

Outcome put(Win& win, const Buffer& origin, const Target& target);
Outcome get(Win& win, const Buffer& result, const Target& target);
// `result`: null for MPI_Accumulate.
Outcome accumulate(Win& win, const Buffer& origin, const Buffer* result, const Target& target,
                   MPI_Op op);
Outcome fetch_and_op(Win& win, const void* origin, void* result, MPI_Datatype type, int rank,
                     MPI_Aint displacement, MPI_Op op);
Outcome compare_and_swap(Win& win, const void* origin, const void* compare, void* result,
                         MPI_Datatype type, int rank, MPI_Aint displacement);

// A request that is complete.
int completed_request(MPI_Request* request);

// Of every call that a program may poll with: progress of the library and of our own protocol, once
// in a while.
void progress_sometimes();

}  // namespace mh::mpi::rma
