// SPDX-License-Identifier: BSD-3-Clause
// Floating-point sums and products of three or more ranks: whether the order in which the MPI
// library combines them is known.
//
// The library does not reveal its order, which may differ by communicator, operation, type and
// length. After enough calls of a kind (operation, type and length) on a communicator, its ranks
// make a quarter as many test calls of the library, with random data of their own. If every bit
// equals the result of recursive doubling (coll::DoublingOrder), the ranks carry out all further
// calls of this kind themselves.
//
// Threads: one thread at a time in the collectives of a communicator. Limits: MPI_Allreduce; sums
// of more kinds than coll::SumOrders has room for stay with the library, and so do sums of more
// than 16 MB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/abi.hpp"
#include "mpi/job/comms.hpp"
#include "rma/reduce.hpp"

namespace mh::mpi::direct {

// A sum or product of MPI_Allreduce whose bits depend on the order in which the ranks' data are
// combined.
struct OrderedSum {
  MPI_Op op;
  MPI_Datatype type;
  mh::rma::Type element;
  mh::rma::ReduceKernel kernel;
  std::uint64_t elements;
  std::size_t width;    // bytes of an element
  std::uint32_t terms;  // operation and type, equal on all ranks
};

// True if the MPI library's results for this kind of call (operation, type and length) are known to
// be those of coll::DoublingOrder. Counts the call, and tests the MPI library once the program has
// made enough calls of this kind. Collective: every rank makes the same calls of this function, and
// gets the same answers.
bool has_known_order(Comm& comm, const OrderedSum& sum);

}  // namespace mh::mpi::direct
