// SPDX-License-Identifier: BSD-3-Clause
//
// The datatypes of the benchmarks of noncontiguous data, each with a hand-written loop: X-Z planes
// of a matrix, sides of boxes, lists, records, a transposition. ladder.c packs the types on one
// core, bench/mpi/noncontiguous.c sends them as messages. Limit: a buffer begins at the base of its
// type, and no type reaches below the base.
#ifndef MH_BENCH_LAYOUT_TYPES_H
#define MH_BENCH_LAYOUT_TYPES_H

#include <mpi.h>
#include <stddef.h>

// A datatype, its hand-written loops, and their parameters.
typedef struct {
  char name[64];
  MPI_Datatype type, element;
  int count;
  size_t memory;  // bytes of a buffer, gaps included
  size_t packed;  // bytes of the packed stream
  // Packs `memory` into `packed`, or unpacks `packed` into `memory`, by the hand-written loop.
  void (*move)(const void* plan, char* memory, char* packed, int packing);
  // Copies the data, without gaps, from one buffer of the type to another; boxes only.
  void (*copy)(const void* plan, char* to, const char* from);
  long n[3], stride[3], start;  // boxes: counts and strides in elements, the innermost last
  long variables, distance;     // boxes: number of arrays, and elements from one to the next
  int bytes;                    // of an element
} Case;

// The callback for a case. The type of the case is committed for the duration of the call.
typedef void (*Visit)(const Case* c, void* context);

// Visits the X-Z plane of a matrix of doubles with Y = 2 (CAB-MPI, V-B): `bytes` in blocks of `z`
// doubles.
void plane_case(size_t bytes, long z, Visit visit, void* context);

// Visits faces, edges and the corner of a box of `side`^3 elements with a halo. The cases have one
// variable of 4 or 8 bytes with halos of width 1 and 2, five variables in separate arrays, and
// cells of five variables.
void box_cases(int side, Visit visit, void* context);

// Visits lists of blocks, records with gaps, and nested types.
void irregular_cases(Visit visit, void* context);

#endif
