// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Pack and MPI_Unpack give the library's bytes, positions, gaps and errors, whether Manyhands
// or the library packs. A type is packed several times, because the library always carries out the
// first call with a type.
//
// run: ranks 2
// run: ranks 2 helped MH_MEMORY=none
#include "check.h"

enum {
  BLOCKS = 900,
  LENGTH = 3,
  STRIDE = 5,
  ITEMS = BLOCKS * LENGTH,
  BYTES = ITEMS * 8,
  ROOM = 4 * BYTES
};

// Packs two elements one after the other, at an offset in the buffer, and unpacks the second. Does
// so four times, because Manyhands leaves at least the first call with a type to the library.
static void rounds(MPI_Datatype type, const char* what) {
  enum { SPAN = BLOCKS * STRIDE * 8, START = 24 };
  unsigned char* source = filled(SPAN, 1);
  for (int round = 0; round < 4; ++round) {
    unsigned char *packed = blank(ROOM), *target = blank(SPAN);
    int position = START;
    MPI_Pack(source, 1, type, packed, ROOM, &position, MPI_COMM_WORLD);
    CHECK(position == START + BYTES, "%s: position %d", what, position);
    MPI_Pack(source, 1, type, packed, ROOM, &position, MPI_COMM_WORLD);
    CHECK(position == START + 2 * BYTES, "%s: position %d", what, position);
    check_blank(packed, 0, START, "before the stream");
    check_blank(packed, START + 2 * BYTES, ROOM, "behind the stream");
    for (int i = 0; i < 2 * ITEMS; ++i) {
      const int at = i % ITEMS / LENGTH * STRIDE + i % LENGTH;
      CHECK(memcmp(packed + START + 8 * i, source + 8 * at, 8) == 0, "%s: item %d", what, i);
    }
    position = START + BYTES;
    MPI_Unpack(packed, ROOM, &position, target, 1, type, MPI_COMM_WORLD);
    CHECK(position == START + 2 * BYTES, "%s: position %d after unpacking", what, position);
    for (size_t i = 0; i < SPAN; ++i) {
      const bool gap = i / 8 % STRIDE >= LENGTH;
      CHECK(target[i] == (gap ? 0xee : source[i]), "%s: byte %zu after unpacking", what, i);
    }
    free(packed);
    free(target);
  }
  free(source);
}

static void by_shapes(void) {
  MPI_Datatype vector, again, row, rows;
  MPI_Type_vector(BLOCKS, LENGTH, STRIDE, MPI_DOUBLE, &vector);
  MPI_Type_commit(&vector);
  rounds(vector, "vector");
  MPI_Type_free(&vector);
  // The next type is likely to get the handle of the freed vector, with another layout: Manyhands
  // must not use the layout that it has for the old type.
  const int sizes[2] = {BLOCKS, STRIDE}, part[2] = {BLOCKS, LENGTH}, start[2] = {0, 0};
  MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, &again);
  MPI_Type_commit(&again);
  rounds(again, "subarray");
  MPI_Type_free(&again);
  const int lengths[2] = {1, LENGTH - 1};
  const MPI_Aint at[2] = {0, 8};
  const MPI_Datatype types[2] = {MPI_INT64_T, MPI_DOUBLE};
  MPI_Type_create_struct(2, lengths, at, types, &row);
  MPI_Type_create_hvector(BLOCKS, 1, STRIDE * 8, row, &rows);
  MPI_Type_commit(&rows);
  rounds(rows, "structs");
  MPI_Type_free(&row);
  MPI_Type_free(&rows);
}

#ifdef OPEN_MPI  // MPICH treats MPI_BOTTOM as a null pointer
static void from_the_bottom(MPI_Datatype type) {
  double* source = (double*)filled(sizeof(double) * BLOCKS * STRIDE, 2);
  unsigned char* packed = blank(BYTES);
  MPI_Aint at;
  MPI_Datatype absolute;
  MPI_Get_address(source, &at);
  MPI_Type_create_hindexed(1, (int[]){1}, &at, type, &absolute);
  MPI_Type_commit(&absolute);
  for (int round = 0; round < 3; ++round) {
    int position = 0;
    MPI_Pack(MPI_BOTTOM, 1, absolute, packed, BYTES, &position, MPI_COMM_SELF);
    CHECK(position == BYTES, "position %d", position);
    CHECK(memcmp(packed + 24, source + STRIDE, 24) == 0, "the second block from the bottom");
  }
  MPI_Type_free(&absolute);
  free(source);
  free(packed);
}

#endif

#define FAILS(call)                                                    \
  do {                                                                 \
    int before = position, code = call;                                \
    CHECK(code != MPI_SUCCESS, "no error");                            \
    CHECK(position == before, "position %d after an error", position); \
  } while (0)

static void errors(MPI_Datatype type) {
  double* memory = (double*)filled(sizeof(double) * BLOCKS * STRIDE, 3);
  unsigned char* packed = blank(ROOM);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int round = 0; round < 3; ++round) {
    int position = 0;
    MPI_Pack(memory, 1, type, packed, ROOM, &position, MPI_COMM_WORLD);
    CHECK(position == BYTES, "position %d", position);
    FAILS(MPI_Pack(memory, -1, type, packed, ROOM, &position, MPI_COMM_WORLD));
#ifdef OPEN_MPI  // MPICH does not check the size of the buffer
    FAILS(MPI_Pack(memory, 1, type, packed, 2 * BYTES - 1, &position, MPI_COMM_WORLD));
    FAILS(MPI_Unpack(packed, 2 * BYTES - 1, &position, memory, 1, type, MPI_COMM_WORLD));
#endif
    FAILS(MPI_Pack(memory, 1, type, packed, ROOM, &position, MPI_COMM_NULL));
    FAILS(MPI_Pack(memory, 1, MPI_DATATYPE_NULL, packed, ROOM, &position, MPI_COMM_WORLD));
    MPI_Pack(memory, 0, type, packed, ROOM, &position, MPI_COMM_WORLD);
    CHECK(position == BYTES, "position %d after nothing", position);
  }
  free(memory);
  free(packed);
}

#if MPI_VERSION >= 4
static void large_counts(MPI_Datatype type) {
  unsigned char *memory = filled(BLOCKS * STRIDE * 8, 4), *packed = blank(BYTES);
  for (int round = 0; round < 3; ++round) {
    MPI_Count position = 0;
    MPI_Pack_c(memory, 1, type, packed, BYTES, &position, MPI_COMM_WORLD);
    CHECK(position == BYTES, "position %lld", (long long)position);
    CHECK(memcmp(packed + 24, memory + 8 * STRIDE, 24) == 0, "the second block");
    memset(memory, 0, BLOCKS * STRIDE * 8);
    position = 0;
    MPI_Unpack_c(packed, BYTES, &position, memory, 1, type, MPI_COMM_WORLD);
    CHECK(position == BYTES, "position %lld", (long long)position);
    CHECK(memcmp(packed + 24, memory + 8 * STRIDE, 24) == 0, "the second block again");
  }
  free(memory);
  free(packed);
}
#endif

int main(int argc, char** argv) {
  begin(&argc, &argv);
  by_shapes();
  MPI_Datatype type;
  MPI_Type_vector(BLOCKS, LENGTH, STRIDE, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
#ifdef OPEN_MPI
  from_the_bottom(type);
#endif
#if MPI_VERSION >= 4
  large_counts(type);
#endif
  errors(type);
  MPI_Type_free(&type);
  return end();
}
