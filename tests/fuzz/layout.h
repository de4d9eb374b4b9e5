// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the fuzzers of messages and of one-sided operations: random numbers, derived datatypes
// with a model of their bytes, buffers with guards, and payloads.
#ifndef MH_TESTS_FUZZ_LAYOUT_H
#define MH_TESTS_FUZZ_LAYOUT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- random numbers -----------------------------------------------------------------------------

typedef struct {
  uint64_t state;
} Rng;

uint64_t mix64(uint64_t x);
uint64_t mix2(uint64_t a, uint64_t b);
uint64_t rng_next(Rng* rng);
uint32_t rng_below(Rng* rng, uint32_t bound);  // 0 <= result < bound
int rng_range(Rng* rng, int low, int high);    // both ends included
bool rng_chance(Rng* rng, int percent);

// ---- memory layouts of types -------------------------------------------------------------------

typedef struct {
  ptrdiff_t at;  // offset from the address of the item
  size_t length;
} Block;

// The blocks of an item of a datatype, in the order of the type map, with the MPI handle of the
// datatype.
typedef struct {
  MPI_Datatype type;
  int element;          // index of the basic type
  size_t element_size;  // bytes of data in one basic element
  int elements;         // basic elements of one item
  size_t size;          // bytes of data of one item
  MPI_Aint extent;
  ptrdiff_t low, high;  // lowest and highest byte of an item
  Block* blocks;
  int block_count;
  bool owned;      // the handle has to be freed
  bool countable;  // MPI_Get_elements works for the type
  char name[96];
} Layout;

int element_kinds(void);
size_t element_size_of(int element);
// Returns true for pair types and structs: MPI_Get_elements may count their members.
bool element_is_composed(int element);
const char* element_name_of(int element);
Layout* layout_make(uint64_t seed, int element, bool contiguous);  // seed 0: the basic type itself
void layout_free(Layout* layout);

// ---- buffers -----------------------------------------------------------------------------------

typedef struct {
  unsigned char* raw;
  size_t raw_length;
  unsigned char* base;  // the address for MPI
} Buffer;

void payload(uint64_t id, size_t at, unsigned char* out, size_t length);
uint64_t payload_hash(uint64_t id, size_t length);
Buffer buffer_make(const Layout* layout, size_t items, uint64_t guard_id);
void buffer_put(Buffer* buffer, const Layout* layout, uint64_t id, size_t bytes);
// Compares the whole buffer, gaps and guards included, with its expected state after the arrival of
// the message `id` with `bytes` bytes. Returns the number of wrong bytes, and in `first` the place
// of the first.
size_t buffer_wrong(const Buffer* buffer, const Layout* layout, uint64_t guard_id, uint64_t id,
                    size_t bytes, ptrdiff_t* first);
void buffer_free(Buffer* buffer);

#endif
