// SPDX-License-Identifier: BSD-3-Clause
// MPI's predefined operations (MPI_SUM and others) as values of mh::rma::Op, for reductions and
// accumulates.
#pragma once

#include <optional>

#include "mpi/abi.hpp"
#include "rma/reduce.hpp"

namespace mh::mpi::elements {

// Translates a predefined operation; returns nothing for an operation of the program, and for
// MPI_OP_NULL. Takes some nanoseconds.
inline std::optional<mh::rma::Op> op_of(MPI_Op op) {
  using mh::rma::Op;
  if (op == MPI_SUM) return Op::sum;
  if (op == MPI_REPLACE) return Op::replace;
  if (op == MPI_NO_OP) return Op::no_op;
  if (op == MPI_MAX) return Op::max;
  if (op == MPI_MIN) return Op::min;
  if (op == MPI_PROD) return Op::prod;
  if (op == MPI_LAND) return Op::land;
  if (op == MPI_BAND) return Op::band;
  if (op == MPI_LOR) return Op::lor;
  if (op == MPI_BOR) return Op::bor;
  if (op == MPI_LXOR) return Op::lxor;
  if (op == MPI_BXOR) return Op::bxor;
  if (op == MPI_MAXLOC) return Op::maxloc;
  if (op == MPI_MINLOC) return Op::minloc;
  return std::nullopt;
}

}  // namespace mh::mpi::elements
