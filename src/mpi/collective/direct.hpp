// SPDX-License-Identifier: BSD-3-Clause
// Collectives that the ranks of a node carry out themselves (coll/seat.hpp), where this is faster
// than the library's way and gives the same bits.
//
// Which calls are *rounds* follows from facts that the standard makes equal on all ranks: the call,
// the bytes of its type signature, the operation and the type of a reduction, the communicator.
// Every rank therefore counts the same rounds. Three groups of calls differ in who decides what
// becomes of a round:
//
//   all ranks    allreduce, allgather, alltoall, large reduce: each rank publishes its record and
//                waits for all others. If a rank leaves the round to the library, all of them do.
//   the root     bcast: the others follow the root's record. A root of staged data goes on at
//                once.
//   nobody       short reduce: always carried out. A leaf goes on once its data are staged.
//
// Short data are staged in the node segment. Longer data move directly between buffers that all
// ranks map (the shared heap). Reductions are computed in slices, one for each rank. Only
// reductions with the library's bits in any order of evaluation are rounds: integers, and
// floating-point sums and products of two ranks.
//
// Each function returns the call's code, or nothing if the library must get the call. A call with
// arguments that the library would refuse is no round. Errors: MPI_ERR_TRUNCATE on a rank whose
// bytes are fewer than the root's. Threads: as MPI allows for collectives. Limits: communicators
// within a node that have boards; contiguous types, except in staged broadcasts.
//
// See Katevenis, Ploumidis and Marazakis, CLUSTER 2022 (single-copy collectives), and Bayatpour et
// al., SC 2017 (reductions by slices).
#pragma once

#include "mpi/abi.hpp"
#include "mpi/call_result.hpp"
#include "mpi/datatype/datatypes.hpp"

namespace mh::mpi::direct {

// Shorter rooted collectives stay with the library, whose root and leaves run far ahead of each
// other.
inline constexpr std::uint64_t kLeastRooted = 512;

namespace detail {
CallResult bcast(void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
CallResult reduce(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                  int root, MPI_Comm comm);

// Looked up in some nanoseconds: a short rooted collective of Open MPI takes 90.
template <class Count>
[[gnu::always_inline]] inline bool is_short(Count count, MPI_Datatype type) {
  return datatypes::known(count, type).bytes < kLeastRooted;
}
}  // namespace detail

template <class Count>
[[gnu::always_inline]] inline CallResult bcast(void* buffer, Count count, MPI_Datatype type,
                                               int root, MPI_Comm comm) {
  if (detail::is_short(count, type)) return std::nullopt;
  return detail::bcast(buffer, count, type, root, comm);
}
template <class Count>
[[gnu::always_inline]] inline CallResult reduce(const void* in, void* out, Count count,
                                                MPI_Datatype type, MPI_Op op, int root,
                                                MPI_Comm comm) {
  if (detail::is_short(count, type)) return std::nullopt;
  return detail::reduce(in, out, count, type, op, root, comm);
}
CallResult allreduce(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                     MPI_Comm comm);
CallResult allgather(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                     MPI_Count out_count, MPI_Datatype out_type, MPI_Comm comm);
CallResult alltoall(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                    MPI_Count out_count, MPI_Datatype out_type, MPI_Comm comm);

}  // namespace mh::mpi::direct
