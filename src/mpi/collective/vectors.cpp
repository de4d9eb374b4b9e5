// SPDX-License-Identifier: BSD-3-Clause
// MPI_Gatherv, MPI_Scatterv, MPI_Allgatherv, MPI_Alltoallv and MPI_Alltoallw as pairwise rounds
// (direct.hpp, pairwise.hpp).
#include "mpi/collective/direct.hpp"
#include "mpi/collective/pairwise.hpp"
#include "mpi/job/config.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::direct {
namespace {

// A buffer with a block for each rank, as a call with an array of counts has it in its arguments.
struct VectorArgs {
  const void* address;
  Numbers counts;
  Numbers displacements;
  MPI_Datatype type;
  const MPI_Datatype* types = nullptr;  // one a block, in place of `type`; displacements in bytes
};

// True if the MPI library accepts any datatype of a block without elements in MPI_Alltoallw, such
// as MPI_DATATYPE_NULL.
bool accepts_any_empty_type() {
  static const bool accepted = [] {
    const MPI_Datatype null = MPI_DATATYPE_NULL;
    const int none = 0;
    int in = 0;
    int out = 0;
    return real.Alltoallw(&in, &none, &none, &null, &out, &none, &none, &null, config.self_comm) ==
           MPI_SUCCESS;
  }();
  return accepted;
}

// Writes each block of a VectorArgs as a TypedBlocks of its own, in which it is block 0.
class VectorBlocks {
 public:
  explicit VectorBlocks(const VectorArgs& args) : args_(args) {
    if (args.types != nullptr) return;
    element_ = typed_blocks({args.address, 1, args.type});
    if (!element_.valid) return;
    extent_ = element_.contiguous ? static_cast<MPI_Count>(element_.bytes) : extent_of(element_);
  }

  // Writes the blocks of all ranks to the array `blocks`. False: the MPI library refuses the
  // arguments.
  bool write(TypedBlocks* blocks, int ranks) const {
    if (!args_.counts || !args_.displacements || args_.address == MPI_IN_PLACE) return false;
    if (args_.types == nullptr && !element_.valid) return false;
    for (int rank = 0; rank < ranks; ++rank) {
      if (args_.counts[rank] < 0) return false;
      TypedBlocks& own = blocks[rank];
      write_block(rank, own);
      const bool no_address = args_.address == nullptr && own.contiguous && own.bytes != 0;
      if (!own.valid || no_address) return false;
    }
    return true;
  }

 private:
  // Writes the block of a rank to `to`. If the call has no array of datatypes (`args_.types`), each
  // member of `to` is written by itself. A copy of the struct `element_` would load several members
  // at once, and so wait in the processor for the stores that have just written them.
  void write_block(int rank, TypedBlocks& to) const {
    const MPI_Count count = args_.counts[rank];
    auto* const first = static_cast<std::byte*>(const_cast<void*>(args_.address));
    std::byte* const address = first + args_.displacements[rank] * extent_;
    if (args_.types != nullptr) {
      const bool any_type = count == 0 && accepts_any_empty_type();
      to = typed_blocks({address, count, any_type ? MPI_BYTE : args_.types[rank]});
      return;
    }
    to.address = address;
    to.count = count;
    to.type = element_.type;
    to.bytes = element_.bytes * static_cast<std::uint64_t>(count);
    to.contiguous = element_.contiguous;
    to.valid = true;
  }

  const VectorArgs& args_;
  TypedBlocks element_{};  // one element of args_.type; unused with `types`
  MPI_Count extent_ = 1;   // bytes of one unit of displacement
};

// The communicator with this handle, or null if it cannot have pairwise rounds: its ranks have no
// boards, or are too many for a block table.
Comm* comm_for_pairs(MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  return comm != nullptr && can_be_pairwise(*comm) ? comm : nullptr;
}

// Prepares this rank's block for itself, in the send and in the receive buffer. With MPI_IN_PLACE
// the block is removed, because it need not move. False if the MPI library refuses that both are
// the same memory.
bool prepare_own(PeerBlocks& pairs, const Comm& comm, bool in_place) {
  TypedBlocks& out = pairs.out[comm.rank];
  TypedBlocks& in = pairs.in[comm.rank];
  if (in_place) out = in = {};
  return out.bytes == 0 || in.bytes == 0 || accepts_alias(out, in);
}

// True if the MPI library accepts an MPI_Alltoallv whose two buffers have one address, with one
// array of counts and one type. MPICH refuses it, even without data.
bool accepts_one_buffer_with_counts() {
  static const bool accepts = [] {
    int data = 0;
    const int none = 0;
    return real.Alltoallv(&data, &none, &none, MPI_INT, &data, &none, &none, MPI_INT,
                          config.self_comm) == MPI_SUCCESS;
  }();
  return accepts;
}

CallResult exchange_all(Comm* comm, RoundCall call, const VectorArgs& in, const VectorArgs& out) {
  if (comm == nullptr || in.address == MPI_IN_PLACE) return std::nullopt;
  PeerBlocks pairs;
  const bool one_buffer = in.address != nullptr && in.address == out.address &&
                          in.counts == out.counts && in.type == out.type && in.types == out.types;
  if ((one_buffer && !accepts_one_buffer_with_counts()) ||
      !VectorBlocks(in).write(pairs.out, comm->size) ||
      !VectorBlocks(out).write(pairs.in, comm->size))
    return CallResult::refused();
  return exchange_pairwise(*comm, call, pairs);
}

// Carries out MPI_Gatherv or MPI_Scatterv. `all`: the buffer with blocks for all ranks, which is
// significant at the root only. `own_args`: this rank's own block.
CallResult exchange_with_root(RoundCall call, const VectorArgs& all, const BlockArgs& own_args,
                              int root, MPI_Comm handle) {
  Comm* comm = comm_for_pairs(handle);
  if (comm == nullptr) return std::nullopt;
  const bool at_root = root == comm->rank;
  const bool in_place = at_root && own_args.address == MPI_IN_PLACE;
  if (!is_rank(*comm, root)) return CallResult::refused();
  PeerBlocks pairs;
  pairs.empty_used_blocks(*comm, root);
  const bool scatters = call == RoundCall::scatterv;
  TypedBlocks& own = (scatters ? pairs.in : pairs.out)[root];
  if (!in_place) own = typed_blocks(own_args);
  if (!in_place && own.is_refused()) return CallResult::refused();
  if (at_root && !VectorBlocks(all).write(scatters ? pairs.out : pairs.in, comm->size))
    return CallResult::refused();
  if (at_root && !prepare_own(pairs, *comm, in_place)) return CallResult::refused();
  return exchange_pairwise(*comm, call, pairs, static_cast<std::uint32_t>(root));
}

}  // namespace

CallResult gatherv(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                   Numbers out_counts, Numbers out_displacements, MPI_Datatype out_type, int root,
                   MPI_Comm handle) {
  return exchange_with_root(RoundCall::gatherv, {out, out_counts, out_displacements, out_type},
                            {in, in_count, in_type}, root, handle);
}

CallResult scatterv(const void* in, Numbers in_counts, Numbers in_displacements,
                    MPI_Datatype in_type, void* out, MPI_Count out_count, MPI_Datatype out_type,
                    int root, MPI_Comm handle) {
  return exchange_with_root(RoundCall::scatterv, {in, in_counts, in_displacements, in_type},
                            {out, out_count, out_type}, root, handle);
}

CallResult allgatherv(const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                      Numbers out_counts, Numbers out_displacements, MPI_Datatype out_type,
                      MPI_Comm handle) {
  Comm* comm = comm_for_pairs(handle);
  if (comm == nullptr) return std::nullopt;
  const bool in_place = in == MPI_IN_PLACE;
  PeerBlocks pairs;
  const VectorArgs all{out, out_counts, out_displacements, out_type};
  if (!VectorBlocks(all).write(pairs.in, comm->size)) return CallResult::refused();
  const TypedBlocks own = in_place ? pairs.in[comm->rank] : typed_blocks({in, in_count, in_type});
  if (own.is_refused()) return CallResult::refused();
  for (int rank = 0; rank < comm->size; ++rank) pairs.out[rank] = own;
  if (!prepare_own(pairs, *comm, in_place)) return CallResult::refused();
  return exchange_pairwise(*comm, RoundCall::allgatherv, pairs);
}

CallResult alltoallv(const void* in, Numbers in_counts, Numbers in_displacements,
                     MPI_Datatype in_type, void* out, Numbers out_counts, Numbers out_displacements,
                     MPI_Datatype out_type, MPI_Comm handle) {
  return exchange_all(comm_for_pairs(handle), RoundCall::alltoallv,
                      {in, in_counts, in_displacements, in_type},
                      {out, out_counts, out_displacements, out_type});
}

CallResult alltoallw(const void* in, Numbers in_counts, Numbers in_displacements,
                     const MPI_Datatype* in_types, void* out, Numbers out_counts,
                     Numbers out_displacements, const MPI_Datatype* out_types, MPI_Comm handle) {
  if (in != MPI_IN_PLACE && (in_types == nullptr || out_types == nullptr))
    return CallResult::refused();
  return exchange_all(comm_for_pairs(handle), RoundCall::alltoallw,
                      {in, in_counts, in_displacements, MPI_DATATYPE_NULL, in_types},
                      {out, out_counts, out_displacements, MPI_DATATYPE_NULL, out_types});
}

}  // namespace mh::mpi::direct
