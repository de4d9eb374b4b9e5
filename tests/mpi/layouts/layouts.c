// SPDX-License-Identifier: BSD-3-Clause
// Compares the layout engine with the MPI library: packed bytes, unpacked memory and sizes, for
// types of halo exchanges and random types. Runs on one rank. Arguments: the seed of the first
// random type, the number of random types, and the bytes of the last-level cache (0: unknown). A
// failure prints the type and its seed.
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/engine/engine.h"

enum { GUARD = 64, MAX_PACKED = 1 << 16 };

static int failures;
static long without_layout;
static long compared;

static uint64_t rng_state;

static uint64_t rng_next(void) {
  uint64_t x = rng_state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static int between(int low, int high) {
  return low + (int)(rng_next() % (uint64_t)(high - low + 1));
}

static void fail(const char* name, const char* what) {
  printf("%s: %s\n", name, what);
  ++failures;
}

// ---- memory around the elements of a type ------------------------------------------------------

typedef struct {
  unsigned char* raw;
  size_t length;
  unsigned char* base;
} Memory;

static Memory memory_for(MPI_Datatype type, int count) {
  MPI_Aint lower, extent, true_lower, true_extent;
  MPI_Type_get_extent(type, &lower, &extent);
  MPI_Type_get_true_extent(type, &true_lower, &true_extent);
  MPI_Aint reach = (count - 1) * extent;
  MPI_Aint low = true_lower + (reach < 0 ? reach : 0);
  MPI_Aint high = true_lower + true_extent + (reach > 0 ? reach : 0);
  Memory memory = {.length = (size_t)(high - low) + 2 * GUARD};
  memory.raw = malloc(memory.length);
  memory.base = memory.raw + GUARD - low;
  for (size_t i = 0; i < memory.length; ++i) memory.raw[i] = (unsigned char)rng_next();
  return memory;
}

// Returns whether the packed stream has each byte of the memory at most once. Only such a type may
// be received into.
static bool is_target(const mh_layout* layout, int count, const Memory* memory) {
  unsigned char* seen = calloc(memory->length, 1);
  size_t total = mh_layout_size(layout) * (size_t)count, bytes = 0;
  bool once = true;
  for (size_t at = 0; at < total; at += bytes) {
    struct iovec blocks[64];
    size_t used =
        mh_layout_list(layout, (size_t)count, memory->base, at, total, blocks, 64, &bytes);
    for (size_t i = 0; i < used; ++i) {
      unsigned char* mark = seen + ((unsigned char*)blocks[i].iov_base - memory->raw);
      for (size_t k = 0; k < blocks[i].iov_len; ++k) once = once && mark[k]++ == 0;
    }
  }
  free(seen);
  return once;
}

// ---- comparisons -------------------------------------------------------------------------------

static void compare_ranges(const char* name, const mh_layout* layout, int count,
                           const Memory* memory, const unsigned char* packed, size_t total) {
  unsigned char* part = malloc(total + 1);
  for (int i = 0; i < 6; ++i) {
    size_t begin = rng_next() % (total + 1), end = rng_next() % (total + 1);
    if (i == 0) begin = 0, end = total;
    if (begin > end) begin ^= end, end ^= begin, begin ^= end;
    mh_layout_pack(layout, (size_t)count, memory->base, begin, end, part);
    if (memcmp(part, packed + begin, end - begin) != 0) {
      fail(name, "packed bytes differ from MPI_Pack");
      break;
    }
  }
  free(part);
}

static void compare_unpacked(const char* name, MPI_Datatype type, const mh_layout* layout,
                             int count, const Memory* memory, size_t total) {
  unsigned char* stream = malloc(total + 1);
  unsigned char* before = malloc(memory->length);
  unsigned char* theirs = malloc(memory->length);
  for (size_t i = 0; i < total; ++i) stream[i] = (unsigned char)rng_next();
  memcpy(before, memory->raw, memory->length);
  int position = 0;
  MPI_Unpack(stream, (int)total, &position, memory->base, count, type, MPI_COMM_SELF);
  memcpy(theirs, memory->raw, memory->length);
  memcpy(memory->raw, before, memory->length);
  size_t cut = rng_next() % (total + 1);
  mh_layout_unpack(layout, (size_t)count, memory->base, cut, total, stream + cut);
  mh_layout_unpack(layout, (size_t)count, memory->base, 0, cut, stream);
  if (memcmp(memory->raw, theirs, memory->length) != 0)
    fail(name, "memory differs from MPI_Unpack");
  free(stream);
  free(before);
  free(theirs);
}

// Compares with MPI_Pack_external. `element` is the size of the single basic type, or 0 if the type
// has several: MPICH's external32 ends the program for those.
static void compare_external(const char* name, MPI_Datatype type, int count, const Memory* memory,
                             const unsigned char* packed, size_t total, int element) {
  if (element == 0) return;
  MPI_Aint size = 0, position = 0;
  MPI_Pack_external_size("external32", count, type, &size);
  if ((size_t)size != total) return fail(name, "size differs from MPI_Pack_external_size");
  unsigned char* swapped = malloc(total + 1);
  MPI_Pack_external("external32", memory->base, count, type, swapped, size, &position);
  for (size_t i = 0; i < total; ++i) {
    size_t mirrored =
        i / (size_t)element * (size_t)element + (size_t)element - 1 - i % (size_t)element;
    if (swapped[i] != packed[mirrored]) {
      fail(name, "bytes differ from MPI_Pack_external, swapped");
      break;
    }
  }
  free(swapped);
}

static void compare(const char* name, MPI_Datatype type, int count, int element,
                    bool must_have_layout) {
  mh_layout* layout = mh_layout_of(type);
  if (layout == NULL) {
    ++without_layout;
    if (must_have_layout) fail(name, "has no layout");
    return;
  }
  MPI_Count size;
  MPI_Type_size_x(type, &size);
  size_t total = (size_t)size * (size_t)count;
  int room = 0, position = 0;
  MPI_Pack_size(count, type, MPI_COMM_SELF, &room);
  unsigned char* packed = malloc((size_t)room + 1);
  Memory memory = memory_for(type, count);
  MPI_Pack(memory.base, count, type, packed, room, &position, MPI_COMM_SELF);
  if (mh_layout_size(layout) != (size_t)size || (size_t)position != total) {
    fail(name, "sizes differ");
  } else {
    ++compared;
    compare_ranges(name, layout, count, &memory, packed, total);
    compare_external(name, type, count, &memory, packed, total, element);
    if (is_target(layout, count, &memory)) {
      compare_unpacked(name, type, layout, count, &memory, total);
    }
  }
  free(packed);
  free(memory.raw);
  mh_layout_close(layout);
}

static void compare_and_free(const char* name, MPI_Datatype* type, int count, int element) {
  MPI_Type_commit(type);
  compare(name, *type, count, element, true);
  mh_layout_forget(*type);
  MPI_Type_free(type);
}

// ---- types of halo exchanges -------------------------------------------------------------------

// Compares all faces, edges and corners of a box with a halo of `width`.
static void compare_box(MPI_Datatype element, int bytes, int width, int order) {
  const int box[3] = {12, 9, 14};
  for (int side = 0; side < 27; ++side) {
    const int direction[3] = {side / 9 - 1, side / 3 % 3 - 1, side % 3 - 1};
    int part[3], start[3];
    for (int d = 0; d < 3; ++d) {
      part[d] = direction[d] == 0 ? box[d] - 2 * width : width;
      start[d] = direction[d] > 0 ? box[d] - 2 * width : width;
    }
    char name[80];
    snprintf(name, sizeof name, "side %d %d %d, %d bytes, width %d, order %d", direction[0],
             direction[1], direction[2], bytes, width, order);
    MPI_Datatype type, five;
    MPI_Type_create_subarray(3, box, part, start, order, element, &type);
    // A type with the same side of the box for five variables, whose arrays are at constant
    // distances (even) or at irregular ones (uneven).
    const MPI_Aint whole = 12 * 9 * 14 * bytes;
    const int ones[5] = {1, 1, 1, 1, 1};
    const MPI_Aint even[5] = {0, whole, 2 * whole, 3 * whole, 4 * whole};
    const MPI_Aint uneven[5] = {0, whole, 2 * whole + 64, 3 * whole + 64, 4 * whole + 64};
    const MPI_Datatype types[5] = {type, type, type, type, type};
    MPI_Type_create_struct(5, ones, even, types, &five);
    compare_and_free(name, &five, 1, bytes);
    MPI_Type_create_struct(5, ones, uneven, types, &five);
    compare_and_free(name, &five, 1, bytes);
    compare_and_free(name, &type, 2, bytes);
  }
}

static void compare_records(void) {
  struct Record {
    double position[3];
    int kind;
    char flag;
    double mass;
  };
  const int lengths[4] = {3, 1, 1, 1};
  const MPI_Aint at[4] = {offsetof(struct Record, position), offsetof(struct Record, kind),
                          offsetof(struct Record, flag), offsetof(struct Record, mass)};
  const MPI_Datatype types[4] = {MPI_DOUBLE, MPI_INT, MPI_CHAR, MPI_DOUBLE};
  MPI_Datatype record, some;
  MPI_Type_create_struct(4, lengths, at, types, &record);
  const int places[5] = {7, 1, 2, 40, 12};
  MPI_Type_create_indexed_block(5, 2, places, record, &some);
  compare_and_free("indexed records", &some, 3, 0);
  compare_and_free("records", &record, 100, 0);
}

static void compare_lists(void) {
  enum { BLOCKS = 3000 };
  static int lengths[BLOCKS], places[BLOCKS];
  int next = 0;
  for (int i = 0; i < BLOCKS; ++i) {
    next += between(1, 4);
    places[i] = next;
    lengths[i] = between(0, 3);
    next += lengths[i];
  }
  MPI_Datatype type;
  MPI_Type_indexed(BLOCKS, lengths, places, MPI_DOUBLE, &type);
  compare_and_free("indexed list of doubles", &type, 1, 8);
  MPI_Type_indexed(BLOCKS, lengths, places, MPI_INT, &type);
  compare_and_free("indexed list of ints", &type, 2, 4);
  MPI_Type_create_indexed_block(BLOCKS, 1, places, MPI_FLOAT, &type);
  compare_and_free("list of floats", &type, 1, 4);
}

static void compare_distributed(void) {
  const int sizes[2] = {11, 14}, arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, 3}, grid[2] = {2, 3};
  const int kinds[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  for (int rank = 0; rank < 6; ++rank) {
    for (int k = 0; k < 4; ++k) {
      const int how[2] = {kinds[k / 2], kinds[k % 2]};
      const int argument[2] = {arguments[0], k % 2 == 1 ? arguments[1] : arguments[0]};
      MPI_Datatype type;
      MPI_Type_create_darray(6, rank, 2, sizes, how, argument, grid,
                             rank % 2 == 0 ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_DOUBLE, &type);
      compare_and_free("darray", &type, 2, 8);
    }
  }
}

// Compares types of MPI_Type_create_f90_real. These types are predefined, so the layout engine must
// not free their handles when it decodes a type that contains them.
static void compare_fortran(void) {
  MPI_Datatype real, type;
  MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
  MPI_Type_vector(5, 2, 3, real, &type);
  compare_and_free("vector of f90 reals", &type, 2, 0);
  compare("f90 real", real, 3, 0, true);
}

#if MPI_VERSION >= 4
static void compare_large_counts(void) {
  const MPI_Count lengths[3] = {1, 2, 3}, places[3] = {9, 1, 4}, bytes[3] = {80, 8, 32};
  const MPI_Count sizes[2] = {6, 7}, parts[2] = {2, 3}, starts[2] = {1, 3};
  const int how[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, grid[2] = {2, 2};
  const int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2};
  const MPI_Datatype members[3] = {MPI_DOUBLE, MPI_INT, MPI_DOUBLE};
  MPI_Datatype types[11];
  MPI_Type_contiguous_c(5, MPI_DOUBLE, &types[0]);
  MPI_Type_vector_c(4, 2, 5, MPI_DOUBLE, &types[1]);
  MPI_Type_create_hvector_c(4, 2, 40, MPI_DOUBLE, &types[2]);
  MPI_Type_indexed_c(3, lengths, places, MPI_DOUBLE, &types[3]);
  MPI_Type_create_hindexed_c(3, lengths, bytes, MPI_DOUBLE, &types[4]);
  MPI_Type_create_indexed_block_c(3, 2, places, MPI_DOUBLE, &types[5]);
  MPI_Type_create_hindexed_block_c(3, 2, bytes, MPI_DOUBLE, &types[6]);
  MPI_Type_create_struct_c(3, lengths, bytes, members, &types[7]);
  MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_DOUBLE, &types[8]);
  MPI_Type_create_darray_c(4, 1, 2, sizes, how, arguments, grid, MPI_ORDER_C, MPI_DOUBLE,
                           &types[9]);
  MPI_Type_create_resized_c(MPI_DOUBLE, -8, 24, &types[10]);
  for (int i = 0; i < 11; ++i) {
    char name[40];
    snprintf(name, sizeof name, "large-count constructor %d", i);
    compare_and_free(name, &types[i], 3, 0);
  }
}
#endif

// ---- random types ------------------------------------------------------------------------------

// Plain Open MPI 4.1 and 5.0 pack other bytes than the type map says if blocks are not in the order
// of addresses, so such types are compared under MPICH only.
#ifdef OPEN_MPI
static const bool unordered = false;
#else
static const bool unordered = true;
#endif

static MPI_Datatype random_level(MPI_Datatype child) {
  enum { MOST = 6 };
  int count = between(1, MOST), lengths[MOST], places[MOST];
  MPI_Aint lower, extent, at[MOST];
  MPI_Datatype children[MOST], type;
  MPI_Type_get_extent(child, &lower, &extent);
  int next = 0;
  for (int i = 0; i < count; ++i) {
    lengths[i] = between(i == 0 ? 1 : 0, 3);
    places[i] = unordered && between(0, 3) == 0 ? between(-20, 40) : next;
    at[i] = places[i] * extent;
    children[i] = child;
    next = places[i] + lengths[i] + between(0, 2);
  }
  const int sizes[2] = {between(1, 5), between(1, 5)};
  const int parts[2] = {between(1, sizes[0]), between(1, sizes[1])};
  const int starts[2] = {between(0, sizes[0] - parts[0]), between(0, sizes[1] - parts[1])};
  const int length = between(1, 3);
  const int stride = unordered ? between(-6, 6) : length + between(0, 3);
  switch (between(0, 10)) {
    case 0:
      MPI_Type_contiguous(count, child, &type);
      break;
    case 1:
      MPI_Type_vector(count, length, stride, child, &type);
      break;
    case 2:
      MPI_Type_create_hvector(count, length, stride * extent, child, &type);
      break;
    case 3:
      MPI_Type_indexed(count, lengths, places, child, &type);
      break;
    case 4:
      MPI_Type_create_hindexed(count, lengths, at, child, &type);
      break;
    case 5:
      for (int i = 0; i < count; ++i) places[i] = unordered ? places[i] : 4 * i + places[0];
      MPI_Type_create_indexed_block(count, length, places, child, &type);
      break;
    case 6:
      for (int i = 0; i < count; ++i) at[i] = unordered ? at[i] : 4 * i * extent;
      MPI_Type_create_hindexed_block(count, length, at, child, &type);
      break;
    case 7:
      MPI_Type_create_struct(count, lengths, at, children, &type);
      break;
    case 8:
      MPI_Type_create_subarray(2, sizes, parts, starts,
                               between(0, 1) == 0 ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child, &type);
      break;
    case 9:
      MPI_Type_create_resized(child, unordered ? between(-2, 2) * 8 : 0, extent + between(0, 4) * 8,
                              &type);
      break;
    default:
      MPI_Type_dup(child, &type);
      break;
  }
  return type;
}

static void compare_random(uint64_t seed) {
  rng_state = seed * 0x2545f4914f6cdd1du;
  const MPI_Datatype basics[] = {MPI_DOUBLE, MPI_INT, MPI_CHAR, MPI_SHORT, MPI_C_DOUBLE_COMPLEX};
  const int bytes[] = {8, 4, 1, 2, 8};
  const int which = between(0, unordered ? 4 : 3);
  MPI_Datatype type;
  MPI_Type_dup(basics[which], &type);
  for (int i = between(1, 4); i > 0; --i) {
    MPI_Count size;
    MPI_Type_size_x(type, &size);
    if (size == 0 || size > 2000) break;
    MPI_Datatype outer = random_level(type);
    MPI_Type_free(&type);
    type = outer;
  }
  char name[40];
  snprintf(name, sizeof name, "random type %llu", (unsigned long long)seed);
  compare_and_free(name, &type, between(1, 3), bytes[which]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (mh_engine_open() != 0) {
    printf("the engine does not fit this MPI\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  const uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 500;
  if (argc > 3) mh_engine_last_cache(strtoull(argv[3], NULL, 10));
  for (int width = 1; width <= 2; ++width) {
    compare_box(MPI_DOUBLE, 8, width, MPI_ORDER_C);
    compare_box(MPI_FLOAT, 4, width, MPI_ORDER_FORTRAN);
  }
  compare_records();
  compare_lists();
  compare_distributed();
  compare_fortran();
#if MPI_VERSION >= 4
  compare_large_counts();
#endif
  for (uint64_t seed = first; seed < first + count && failures < 20; ++seed) compare_random(seed);
  // Pair types with a gap have no layout; those without a gap may have one.
  compare("MPI_SHORT_INT", MPI_SHORT_INT, 3, 0, false);
  compare("MPI_2INT", MPI_2INT, 3, 0, true);
  printf("%ld types compared, %ld without layout\n", compared, without_layout);
  if (failures == 0) printf("PASS\n");
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
