// SPDX-License-Identifier: BSD-3-Clause
//
// The common datatypes of the benchmarks of noncontiguous data, each with a hand-written loop: X-Z
// planes of a matrix, sides of boxes, lists, records, a transposition. The ladder (ladder.c) packs
// the types on one core, bench/mpi/noncontiguous.c sends them as messages. Limit: a buffer begins
// at the base of its type, and no type reaches below the base.
#ifndef MH_BENCH_LAYOUT_TYPES_H
#define MH_BENCH_LAYOUT_TYPES_H

#include <mpi.h>
#include <stddef.h>

// A datatype, its hand-written loops, and their parameters.
typedef struct {
  char name[64];
  MPI_Datatype type, element;
  int count;
  size_t memory;  // bytes from the base on
  size_t packed;  // bytes of data
  // Packs `memory` into `packed`, or unpacks in the other direction, on one core.
  void (*move)(const void* plan, char* memory, char* packed, int packing);
  // Copies the data from one buffer of the type to another; boxes only.
  void (*copy)(const void* plan, char* to, const char* from);
  long n[3], stride[3], start;  // boxes: counts and strides in elements, the innermost last
  long variables, distance;
  int bytes;  // of an element
} Case;

// A callback for each case, whose type is committed for the duration of the call.
typedef void (*Visit)(const Case* c, void* context);

// The X-Z plane of a matrix of doubles with Y = 2 (CAB-MPI, V-B): `bytes` in blocks of `z` doubles.
void plane_case(size_t bytes, long z, Visit visit, void* context);

// Faces, edges and the corner of a box of `side`^3 elements with a halo. The cases have a variable
// of 4 or 8 bytes with halos of width 1 and 2, five variables, and cells of five variables.
void box_cases(int side, Visit visit, void* context);

// Lists of blocks, records with gaps, nested types.
void irregular_cases(Visit visit, void* context);

#endif
