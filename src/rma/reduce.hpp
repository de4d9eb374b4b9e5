// SPDX-License-Identifier: BSD-3-Clause
// The reductions of accumulates and of collectives: the predefined operations on the predefined
// types that the standard allows for each.
//
// A *kernel* combines n elements of origin and target in place, target = origin op target, in loops
// that compilers vectorise. The standard's table (MPI-4.1, 6.9.2) lists the pairs of operation and
// type; no other pair has a kernel. MPI_REPLACE and MPI_NO_OP apply to all types and need no
// kernel. Elements may lie at any address. Thread-safe; takes no lock: the caller excludes other
// writers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mh::rma {

// A new operation goes before `replace`, because kOps is counted from the last one, no_op.
enum class Op : std::uint8_t {
  sum,
  prod,
  max,
  min,
  land,
  lor,
  lxor,
  band,
  bor,
  bxor,
  maxloc,
  minloc,
  replace,
  no_op,
};
inline constexpr std::size_t kOps = static_cast<std::size_t>(Op::no_op) + 1;

// Basic types by representation, not by name: MPI_INT, MPI_INTEGER and MPI_INT32_T are int32.
enum class Type : std::uint8_t {
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float32,
  float64,
  long_double,
  complex64,   // two float32
  complex128,  // two float64
  complex_long_double,
  logical8,  // C's _Bool, and Fortran's LOGICAL in all its sizes
  logical16,
  logical32,
  logical64,
  byte8,      // MPI_BYTE: bitwise operations only
  float_int,  // C structures, padding included
  double_int,
  long_int,
  int_int,
  short_int,
  long_double_int,
  float_float,  // Fortran's pairs: MPI_2REAL, MPI_2DOUBLE_PRECISION
  double_double,
  other,  // moved as bytes; no kernel computes with it
};
inline constexpr std::size_t kTypes = static_cast<std::size_t>(Type::other) + 1;

// Returns the bytes from one element of the type to the next in an array; 0 for `other`.
std::size_t bytes_of(Type type);

using ReduceKernel = void (*)(void* target, const void* origin, std::size_t elements);

// Returns the kernel for an operation and a type; null if the standard has no such reduction, and
// for replace and no_op.
ReduceKernel kernel_of(Op op, Type type);

}  // namespace mh::rma
