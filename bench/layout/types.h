// SPDX-License-Identifier: BSD-3-Clause
//
// The datatypes that benchmarks of noncontiguous data have in common, each with a loop written by
// hand: X-Z planes of a matrix, sides of boxes, lists, records, a transposition. The ladder
// (ladder.c) packs them on one core, bench/mpi/noncontiguous.c sends them as messages.
// Limits: buffers begin at the base of the type; no type reaches below it.
#ifndef MH_BENCH_LAYOUT_TYPES_H
#define MH_BENCH_LAYOUT_TYPES_H

#include <mpi.h>
#include <stddef.h>

// The parameters of the loops written by hand.
typedef struct {
  char name[64];
  MPI_Datatype type, element;
  int count;
  size_t memory;  // bytes from the base on
  size_t packed;  // bytes of data
  // Between `memory` and `packed`, on one core.
  void (*move)(const void* plan, char* memory, char* packed, int packing);
  // From one memory to another of the same type; boxes only.
  void (*copy)(const void* plan, char* to, const char* from);
  long n[3], stride[3], start;  // boxes: counts and strides in elements, the innermost last
  long variables, distance;
  int bytes;  // of an element
} Case;

// Is shown one case after the other, with its type committed; the type is freed afterwards.
typedef void (*Visit)(const Case* c, void* context);

// The X-Z plane of a matrix of doubles with two Y (CAB-MPI, V-B): `bytes` in blocks of `z` doubles.
void plane_case(size_t bytes, long z, Visit visit, void* context);

// Faces, edges and the corner of a box of `side`^3 elements with a halo: one variable of 4 and of 8
// bytes, halos one and two wide, five variables, and cells of five.
void box_cases(int side, Visit visit, void* context);

// Lists of blocks, records with gaps, nested types.
void irregular_cases(Visit visit, void* context);

#endif
