// SPDX-License-Identifier: BSD-3-Clause
//
// The datatypes of the benchmarks of noncontiguous data, each with a hand-written loop: X-Z planes
// of a matrix, sides of boxes, lists, records, a transposition. ladder.c packs data of these types
// on one core; bench/mpi/noncontiguous.c sends such data as messages. Limit: no type reaches below
// the address that is given to MPI, so a buffer begins at that address.
#ifndef MH_BENCH_LAYOUT_TYPES_H
#define MH_BENCH_LAYOUT_TYPES_H

#include <mpi.h>
#include <stddef.h>

// A datatype to measure, the hand-written loops that do the same, and their parameters.
typedef struct {
  char name[64];
  MPI_Datatype type, element;
  int count;
  size_t memory;  // bytes of a buffer, gaps included
  size_t packed;  // bytes of the packed stream
  // Packs `memory` into `packed` if `packing` is 1, else unpacks `packed` into `memory`, by the
  // hand-written loop. `plan` is this Case.
  void (*move)(const void* plan, char* memory, char* packed, int packing);
  // Copies the data of the type, but not its gaps, from one buffer to another; boxes only. `plan`
  // is this Case.
  void (*copy)(const void* plan, char* to, const char* from);
  long n[3], stride[3], start;  // boxes: counts and strides in elements, the innermost last
  long variables, distance;     // boxes: number of arrays, and elements from one to the next
  int bytes;                    // of an element
} Case;

// A function of a benchmark, which the functions below call for each case. The case's datatype is
// committed before the call and freed after it.
typedef void (*Visit)(const Case* c, void* context);

// Calls `visit` with the X-Z plane of a matrix of X x 2 x `z` doubles (CAB-MPI, section V-B). The
// plane has `bytes` bytes in blocks of `z` contiguous doubles.
void plane_case(size_t bytes, long z, Visit visit, void* context);

// Calls `visit` with the faces, edges and the corner of a box of `side`^3 elements, as a halo
// exchange sends them. The boxes have one variable of 4 or 8 bytes with halos of width 1 and 2,
// five variables in separate arrays, or cells of five variables.
void box_cases(int side, Visit visit, void* context);

// Calls `visit` with the irregular datatypes: lists of blocks, records with gaps, and nested types.
void irregular_cases(Visit visit, void* context);

#endif
