// SPDX-License-Identifier: BSD-3-Clause
// Collectives that the ranks of a node carry out themselves (coll/board_group.hpp), where this is
// faster than the MPI library's way and gives the same bits.
//
// Such a collective is a *round*. Which calls are rounds follows from facts that the standard makes
// equal on all ranks: the call, the bytes of its type signature, the operation and the type of a
// reduction, the communicator. Every rank therefore counts the same rounds. Four groups of calls
// differ in which rank decides whether a round is carried out or left to the MPI library:
//
//   all ranks    allreduce, allgather, alltoall, reduce_scatter_block, long reduce: each rank
//                publishes its record and waits for all others. If a rank leaves the round to the
//                library, all ranks do.
//   the root     bcast, scatter: the others follow the root's record. A root that has staged its
//                data goes on at once.
//   nobody       short reduce, gather, scan and exscan: always carried out. A rank goes on once its
//                data are staged and the data that it needs have come.
//   each sender  gatherv, scatterv, allgatherv, alltoallv, alltoallw, long gather and scatter:
//                always carried out, each pair of ranks by itself (pairwise.hpp).
//
// Short data are staged in the node segment. Longer data move directly between buffers that all
// ranks map (the shared heap). Long reductions are computed in slices, one for each rank.
// Reductions give the library's bits. Integer reductions, and floating-point sums and products of
// two ranks, give the same bits in any order. For sums of more ranks in MPI_Allreduce the library's
// order is tested first (ordered_sums.hpp).
//
// Each function returns the call's code, or nothing if the library must get the call. A call whose
// arguments the library may refuse on this rank alone is no round, and the function returns
// CallResult::refused(). This rank then counts its arrival but must not wait for others, because
// they may be in the round. If the library accepts the call after all, ranks in the round wait for
// this rank for ever. A function therefore asks the library before it refuses what some library
// accepts. Errors: MPI_ERR_TRUNCATE on a rank whose bytes differ from the root's.
// Threads: as MPI allows for collectives. Limits: communicators within a node that have boards.
// Except in the last group, the library moves long data of noncontiguous types.
//
// See Katevenis, Ploumidis and Marazakis, CLUSTER 2022 (single-copy collectives), and Bayatpour et
// al., SC 2017 (reductions by slices).
#pragma once

#include <cstddef>
#include <cstring>

#include "mpi/abi.hpp"
#include "mpi/call_result.hpp"
#include "mpi/job/services.hpp"

namespace mh::mpi::direct {

// Counts a collective that the ranks have carried out themselves, in the counters of this rank, and
// returns its MPI code.
inline int counted(int code) {
  services.counters().collectives_direct.add(1);
  return code;
}

CallResult bcast(void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm);
CallResult gather(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                  MPI_Count out_count, MPI_Datatype out_type, int root, MPI_Comm comm);
CallResult scatter(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                   MPI_Count out_count, MPI_Datatype out_type, int root, MPI_Comm comm);

CallResult allgather(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                     MPI_Count out_count, MPI_Datatype out_type, MPI_Comm comm);
CallResult alltoall(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                    MPI_Count out_count, MPI_Datatype out_type, MPI_Comm comm);

// An array of counts or displacements in the arguments of a call, one for each rank: of int, or, in
// calls with large counts, of MPI_Count or MPI_Aint.
class Numbers {
 public:
  template <class Number>
  constexpr Numbers(const Number* first) : first_(first), bytes_(sizeof(Number)) {}

  explicit operator bool() const { return first_ != nullptr; }
  bool operator==(const Numbers& other) const { return first_ == other.first_; }  // one array
  MPI_Count operator[](int rank) const {
    return bytes_ == sizeof(int) ? load<int>(rank) : load<MPI_Count>(rank);
  }

 private:
  static_assert(sizeof(MPI_Aint) == sizeof(MPI_Count) && sizeof(int) != sizeof(MPI_Count));
  template <class Number>
  [[nodiscard]] Number load(int rank) const {
    Number number;
    std::memcpy(&number, static_cast<const Number*>(first_) + rank, sizeof number);
    return number;
  }

  const void* first_;
  std::size_t bytes_;  // of one number
};

CallResult gatherv(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                   Numbers out_counts, Numbers out_displacements, MPI_Datatype out_type, int root,
                   MPI_Comm comm);
CallResult scatterv(const void* in, Numbers in_counts, Numbers in_displacements,
                    MPI_Datatype in_type, void* out, MPI_Count out_count, MPI_Datatype out_type,
                    int root, MPI_Comm comm);
CallResult allgatherv(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                      Numbers out_counts, Numbers out_displacements, MPI_Datatype out_type,
                      MPI_Comm comm);
CallResult alltoallv(const void* in, Numbers in_counts, Numbers in_displacements,
                     MPI_Datatype in_type, void* out, Numbers out_counts, Numbers out_displacements,
                     MPI_Datatype out_type, MPI_Comm comm);
CallResult alltoallw(const void* in, Numbers in_counts, Numbers in_displacements,
                     const MPI_Datatype* in_types, void* out, Numbers out_counts,
                     Numbers out_displacements, const MPI_Datatype* out_types, MPI_Comm comm);

CallResult reduce(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                  int root, MPI_Comm comm);
CallResult allreduce(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                     MPI_Comm comm);
CallResult reduce_scatter_block(const void* in, void* out, MPI_Count count, MPI_Datatype type,
                                MPI_Op op, MPI_Comm comm);
CallResult scan(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                MPI_Comm comm);
CallResult exscan(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm);

}  // namespace mh::mpi::direct
