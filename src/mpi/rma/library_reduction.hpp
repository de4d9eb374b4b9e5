// SPDX-License-Identifier: BSD-3-Clause
// Reductions of an accumulate that the MPI library computes, because Manyhands has no kernel for
// them (rma/reduce.hpp). Thread-safe.
#pragma once

#include <cstddef>

#include "mpi/abi.hpp"

namespace mh::mpi::rma {

// A reduction that the library computes, by MPI_Reduce_local on copies.
struct LibraryReduction {
  MPI_Datatype type;
  MPI_Op op;

  // True if the library can compute the reduction. Otherwise MPI_Reduce_local would raise an error
  // on a communicator of the program.
  [[nodiscard]] bool is_defined() const;
  // Combines `elements` elements; has the form of mh::rma::Reducer::reduce. `context`: a
  // LibraryReduction that is defined.
  static void reduce(const void* context, void* target, const void* origin, std::size_t elements);
};

}  // namespace mh::mpi::rma
