// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the sources of the one-sided fuzzer: random numbers, basic types and their operations,
// places of elements with a datatype, windows and epochs of all kinds.
#ifndef MH_TESTS_FUZZ_RMA_H
#define MH_TESTS_FUZZ_RMA_H

#include "../../mpi/check.h"

typedef struct {
  int seed, first_round, rounds;
} Options;
Options read_options(int argc, char** argv);

// ---- Random numbers -----------------------------------------------------------------------------

typedef struct {
  uint64_t state;
} Random;
Random random_for(int seed, int round, int who);
int below(Random* random, int limit);  // 0 .. limit - 1

// ---- Basic types --------------------------------------------------------------------------------

typedef enum { INTEGER, REAL, COMPLEX, LOGICAL, PAIR } Family;
typedef struct {
  const char* name;
  MPI_Datatype type;
  Family family;
  MPI_Aint extent;
} Basic;
Basic any_basic(Random* random);
// Draws an MPI operation. With the values of write_value(), its result does not depend on the order
// of origins.
MPI_Op any_op(Random* random, Basic basic);
void write_value(Basic basic, void* at, int number, MPI_Op op);

// ---- Places of elements in a buffer -------------------------------------------------------------

// Places of elements in a buffer, each at most once; the datatype `type` describes the same places.
typedef struct {
  int elements;
  int* offset;  // offsets in elements
  MPI_Datatype type;
} Places;
Places any_places(Random* random, Basic basic, int elements, int room);
void forget_places(Places* places);

// ---- Windows and epochs -------------------------------------------------------------------------

typedef enum { ALLOCATED, CREATED, SHARED, DYNAMIC, KINDS } Kind;
typedef enum { FENCE, START, LOCK_SHARED, LOCK_EXCLUSIVE, LOCK_ALL, EPOCHS } Epoch;
const char* name_of_kind(Kind kind);
const char* name_of_epoch(Epoch epoch);

typedef struct {
  Kind kind;
  int rank, ranks;
  MPI_Win win;
  unsigned char* memory;
  size_t bytes;
  MPI_Aint* bases;  // bases of all ranks, for windows whose displacements are addresses
} Window;
Window make_window(Kind kind, size_t bytes);
void free_window(Window* window);
MPI_Aint displacement(const Window* window, int target, size_t bytes);

bool is_passive(Epoch epoch);
// Begins an epoch of the given kind. In it every rank may access the window's memory at every rank.
void begin_epoch(const Window* window, Epoch epoch);
// Ends the epoch, and with it the accesses of all origins; each rank may then read its own memory.
void end_epoch(const Window* window, Epoch epoch);

#endif
