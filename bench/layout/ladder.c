// SPDX-License-Identifier: BSD-3-Clause
//
// Packing and unpacking on one core: the layout engine, a loop written by hand for each type, and
// MPI_Pack/MPI_Unpack, in turn in one process. One rank; ladder.py compiles and runs it under each
// MPI and makes the table. Arguments: seconds for each type and direction; part of a name, to
// measure those types alone. Every arm's bytes are checked once. Prints a JSON object a line:
// nanoseconds of a whole call, the median and the least of the rounds.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi/engine/engine.h"

enum { ROUNDS = 61, LIST = 20000, SIDE = 64 };

// What the loops by hand need to know.
typedef struct {
  char name[64];
  MPI_Datatype type;
  int count;
  size_t memory;  // bytes from the base on
  void (*move)(const void* plan, char* memory, char* packed, int packing);
  long n[3], stride[3], start;  // boxes: counts and strides in elements, the innermost last
  long variables, distance;
  int bytes;  // of an element
} Case;

static double seconds_each = 0.2;
static const char* wanted = "";

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// ---- loops by hand -----------------------------------------------------------------------------

#define BOX_LOOP(Type)                                                                     \
  static void move_box_##Type(const void* plan, char* memory, char* packed, int packing) { \
    const Case* c = plan;                                                                  \
    Type* out = (Type*)packed;                                                             \
    for (long v = 0; v < c->variables; ++v) {                                              \
      Type* in = (Type*)memory + c->start + v * c->distance;                               \
      for (long i = 0; i < c->n[0]; ++i) {                                                 \
        for (long j = 0; j < c->n[1]; ++j) {                                               \
          Type* row = in + i * c->stride[0] + j * c->stride[1];                            \
          const long n = c->n[2], s = c->stride[2];                                        \
          if (packing && s == 1) {                                                         \
            for (long k = 0; k < n; ++k) out[k] = row[k];                                  \
          } else if (packing) {                                                            \
            for (long k = 0; k < n; ++k) out[k] = row[k * s];                              \
          } else if (s == 1) {                                                             \
            for (long k = 0; k < n; ++k) row[k] = out[k];                                  \
          } else {                                                                         \
            for (long k = 0; k < n; ++k) row[k * s] = out[k];                              \
          }                                                                                \
          out += n;                                                                        \
        }                                                                                  \
      }                                                                                    \
    }                                                                                      \
  }
BOX_LOOP(double)
BOX_LOOP(float)

typedef struct {
  double variable[5];
} Cell;
BOX_LOOP(Cell)

static int list_length[LIST], list_place[LIST];

static void move_list(const void* plan, char* memory, char* packed, int packing) {
  (void)plan;
  double *in = (double*)memory, *out = (double*)packed;
  for (int i = 0; i < LIST; ++i) {
    double* block = in + list_place[i];
    for (int k = 0; k < list_length[i]; ++k) {
      if (packing) {
        *out++ = block[k];
      } else {
        block[k] = *out++;
      }
    }
  }
}

static void move_list_of_ones(const void* plan, char* memory, char* packed, int packing) {
  (void)plan;
  double *in = (double*)memory, *out = (double*)packed;
  if (packing) {
    for (int i = 0; i < LIST; ++i) out[i] = in[list_place[i]];
  } else {
    for (int i = 0; i < LIST; ++i) in[list_place[i]] = out[i];
  }
}

static void move_list_of_floats(const void* plan, char* memory, char* packed, int packing) {
  (void)plan;
  float *in = (float*)memory, *out = (float*)packed;
  if (packing) {
    for (int i = 0; i < LIST; ++i) out[i] = in[list_place[i]];
  } else {
    for (int i = 0; i < LIST; ++i) in[list_place[i]] = out[i];
  }
}

typedef struct {
  double position[3];
  int kind;
  char flag;
  double mass;
} Record;

static void move_records(const void* plan, char* memory, char* packed, int packing) {
  const Case* c = plan;
  Record* record = (Record*)memory;
  for (int i = 0; i < c->count; ++i) {
    if (packing) {
      memcpy(packed, record[i].position, 24);
      memcpy(packed + 24, &record[i].kind, 4);
      packed[28] = record[i].flag;
      memcpy(packed + 29, &record[i].mass, 8);
    } else {
      memcpy(record[i].position, packed, 24);
      memcpy(&record[i].kind, packed + 24, 4);
      record[i].flag = packed[28];
      memcpy(&record[i].mass, packed + 29, 8);
    }
    packed += 37;
  }
}

// ---- measuring ---------------------------------------------------------------------------------

enum { HAND, ENGINE, LIBRARY, COPY, ARMS };
static const char* const arm_names[ARMS] = {"hand", "engine", "mpi", "memcpy"};

typedef struct {
  const Case* c;
  mh_layout* layout;
  char *memory, *packed, *other;
  size_t bytes;
} Bench;

static void once(const Bench* b, int arm, int packing) {
  const Case* c = b->c;
  int position = 0;
  switch (arm) {
    case HAND:
      c->move(c, b->memory, b->packed, packing);
      return;
    case ENGINE:
      if (packing) {
        mh_layout_pack(b->layout, (size_t)c->count, b->memory, 0, b->bytes, b->packed);
      } else {
        mh_layout_unpack(b->layout, (size_t)c->count, b->memory, 0, b->bytes, b->packed);
      }
      return;
    case LIBRARY:
      if (packing) {
        MPI_Pack(b->memory, c->count, c->type, b->packed, (int)b->bytes, &position, MPI_COMM_SELF);
      } else {
        MPI_Unpack(b->packed, (int)b->bytes, &position, b->memory, c->count, c->type,
                   MPI_COMM_SELF);
      }
      return;
    default:
      memcpy(b->other, b->packed, b->bytes);
  }
}

static void check(const Bench* b, int arm) {
  for (size_t i = 0; i < b->c->memory; ++i) b->memory[i] = (char)(i * 2654435761u >> 11);
  memset(b->packed, 0, b->bytes);
  once(b, HAND, 1);
  char* expected = malloc(b->bytes);
  memcpy(expected, b->packed, b->bytes);
  memset(b->packed, 1, b->bytes);
  once(b, arm, 1);
  const int packs = memcmp(expected, b->packed, b->bytes) == 0;
  memset(b->memory, 7, b->c->memory);
  once(b, arm, 0);
  memset(b->packed, 1, b->bytes);
  once(b, HAND, 1);
  if (!packs || memcmp(expected, b->packed, b->bytes) != 0) {
    fprintf(stderr, "%s: %s moves wrong bytes\n", b->c->name, arm_names[arm]);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  free(expected);
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(const Bench* b, int packing) {
  double time[ARMS][ROUNDS];
  int turns[ARMS];
  for (int arm = 0; arm < ARMS; ++arm) {
    once(b, arm, packing);
    const double start = now();
    once(b, arm, packing);
    const double most = seconds_each * 1e9 / ARMS / ROUNDS;
    const double each = most < 2e5 ? most : 2e5;  // short enough to go undisturbed
    turns[arm] = 1 + (int)(each / (now() - start + 1));
  }
  for (int round = 0; round < ROUNDS; ++round) {
    for (int arm = 0; arm < ARMS; ++arm) {
      const double start = now();
      for (int i = 0; i < turns[arm]; ++i) once(b, arm, packing);
      time[arm][round] = (now() - start) / turns[arm];
    }
  }
  printf("{\"type\": \"%s\", \"way\": \"%s\", \"bytes\": %zu, \"blocks\": %zu", b->c->name,
         packing ? "pack" : "unpack", b->bytes, mh_layout_blocks(b->layout) * (size_t)b->c->count);
  for (int arm = 0; arm < ARMS; ++arm) {
    qsort(time[arm], ROUNDS, sizeof(double), ascending);
    printf(", \"%s\": [%.1f, %.1f]", arm_names[arm], time[arm][ROUNDS / 2], time[arm][0]);
  }
  printf("}\n");
  fflush(stdout);
}

static void run(Case* c) {
  MPI_Type_commit(&c->type);
  if (strstr(c->name, wanted) != NULL) {
    Bench b = {.c = c, .layout = mh_layout_of(c->type)};
    if (b.layout == NULL) {
      fprintf(stderr, "%s has no layout\n", c->name);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    b.bytes = mh_layout_size(b.layout) * (size_t)c->count;
    b.memory = aligned_alloc(4096, (c->memory + 4095) / 4096 * 4096);
    b.packed = aligned_alloc(4096, (b.bytes + 4095) / 4096 * 4096);
    b.other = aligned_alloc(4096, (b.bytes + 4095) / 4096 * 4096);
    memset(b.other, 0, b.bytes);
    check(&b, ENGINE);
    check(&b, LIBRARY);
    measure(&b, 1);
    measure(&b, 0);
    free(b.memory);
    free(b.packed);
    free(b.other);
    mh_layout_close(b.layout);
  }
  mh_layout_forget(c->type);
  MPI_Type_free(&c->type);
}

// ---- the ladder --------------------------------------------------------------------------------

// The X-Z plane of a matrix of doubles with two Y (CAB-MPI, V-B).
static void plane(long megabytes, long z) {
  const long blocks = (megabytes << 20) / 8 / z;
  Case c = {.count = 1, .memory = (size_t)megabytes << 21, .move = move_box_double, .variables = 1};
  snprintf(c.name, sizeof c.name, "plane %ld MB, Z = %ld", megabytes, z);
  c.n[0] = 1, c.n[1] = blocks, c.n[2] = z;
  c.stride[1] = 2 * z, c.stride[2] = 1;
  if (z == 1) c.n[1] = 1, c.n[2] = blocks, c.stride[2] = 2;  // as one writes it
  MPI_Type_vector((int)blocks, (int)z, (int)(2 * z), MPI_DOUBLE, &c.type);
  run(&c);
}

// A side of a box of SIDE^3 elements with a halo: a face, an edge or the corner, of one or of five
// variables (arrays of their own), or of cells of five.
static void side(const char* what, int x, int y, int z, int width, long variables,
                 MPI_Datatype element, int bytes) {
  const int box[3] = {SIDE, SIDE, SIDE}, at[3] = {x, y, z};
  int part[3], start[3];
  Case c = {.count = 1, .variables = variables, .bytes = bytes};
  for (int d = 0; d < 3; ++d) {
    part[d] = at[d] ? width : SIDE - 2 * width;
    start[d] = width;
    c.n[d] = part[d];
    c.start = c.start * SIDE + start[d];
  }
  c.stride[0] = (long)SIDE * SIDE, c.stride[1] = SIDE, c.stride[2] = 1;
  if (part[2] == 1) {  // as one writes it
    c.n[2] = c.n[1], c.stride[2] = c.stride[1];
    c.n[1] = c.n[0], c.stride[1] = c.stride[0];
    c.n[0] = 1;
    if (c.n[2] == 1) c.n[2] = c.n[1], c.stride[2] = c.stride[1], c.n[1] = 1;
  }
  c.distance = (long)SIDE * SIDE * SIDE + 24;
  c.memory = (size_t)(variables * c.distance) * (size_t)bytes;
  c.move = bytes == 8 ? move_box_double : bytes == 4 ? move_box_float : move_box_Cell;
  snprintf(c.name, sizeof c.name, "%s %s, %ld x %d B, width %d", what,
           z   ? "z"
           : y ? "y"
               : "x",
           variables, bytes, width);
  MPI_Datatype one;
  MPI_Type_create_subarray(3, box, part, start, MPI_ORDER_C, element, &one);
  int ones[5];
  MPI_Aint places[5];
  MPI_Datatype types[5];
  for (long v = 0; v < variables; ++v) {
    ones[v] = 1, places[v] = v * c.distance * bytes, types[v] = one;
  }
  MPI_Type_create_struct((int)variables, ones, places, types, &c.type);
  MPI_Type_free(&one);
  run(&c);
}

static void sides(MPI_Datatype element, int bytes, long variables, int width) {
  side("face", 1, 0, 0, width, variables, element, bytes);
  side("face", 0, 1, 0, width, variables, element, bytes);
  side("face", 0, 0, 1, width, variables, element, bytes);
  side("edge", 1, 1, 0, width, variables, element, bytes);
  side("edge", 0, 1, 1, width, variables, element, bytes);
  side("corner", 1, 1, 1, width, variables, element, bytes);
}

static void lists(void) {
  int next = 0;
  for (int i = 0; i < LIST; ++i) {
    next += 1 + (int)((unsigned)i * 2654435761u >> 30);
    list_place[i] = next;
    list_length[i] = 1 + (int)((unsigned)i * 40503u >> 13) % 4;
    next += list_length[i];
  }
  Case c = {.count = 1, .memory = (size_t)next * 8, .move = move_list};
  snprintf(c.name, sizeof c.name, "list of 1-4 doubles");
  MPI_Type_indexed(LIST, list_length, list_place, MPI_DOUBLE, &c.type);
  run(&c);
  c.move = move_list_of_ones;
  snprintf(c.name, sizeof c.name, "list of doubles");
  MPI_Type_create_indexed_block(LIST, 1, list_place, MPI_DOUBLE, &c.type);
  run(&c);
  c.move = move_list_of_floats;
  snprintf(c.name, sizeof c.name, "list of floats");
  MPI_Type_create_indexed_block(LIST, 1, list_place, MPI_FLOAT, &c.type);
  run(&c);
}

static void records(void) {
  const int lengths[4] = {3, 1, 1, 1};
  const MPI_Aint at[4] = {offsetof(Record, position), offsetof(Record, kind),
                          offsetof(Record, flag), offsetof(Record, mass)};
  const MPI_Datatype types[4] = {MPI_DOUBLE, MPI_INT, MPI_CHAR, MPI_DOUBLE};
  Case c = {.count = 5000, .memory = 5000 * sizeof(Record), .move = move_records};
  snprintf(c.name, sizeof c.name, "records with gaps");
  MPI_Type_create_struct(4, lengths, at, types, &c.type);
  run(&c);
}

// One variable of cells of five in a face; a matrix by columns (an FFT's transposition).
static void nested(void) {
  Case c = {.count = 1, .move = move_box_double, .variables = 1};
  MPI_Datatype cell, row;
  MPI_Type_create_resized(MPI_DOUBLE, 0, 40, &cell);
  MPI_Type_vector(SIDE, SIDE, 2 * SIDE, cell, &c.type);
  c.n[0] = 1, c.n[1] = SIDE, c.n[2] = SIDE;
  c.stride[1] = 2 * SIDE * 5, c.stride[2] = 5;
  c.memory = (size_t)SIDE * 2 * SIDE * 40;
  snprintf(c.name, sizeof c.name, "one of five in cells");
  run(&c);
  MPI_Type_free(&cell);
  enum { ROWS = 512 };
  MPI_Type_vector(ROWS, 1, ROWS, MPI_DOUBLE, &row);
  MPI_Type_create_hvector(ROWS, 1, 8, row, &c.type);
  MPI_Type_free(&row);
  c.n[1] = c.n[2] = ROWS;
  c.stride[1] = 1, c.stride[2] = ROWS;
  c.memory = (size_t)ROWS * ROWS * 8;
  snprintf(c.name, sizeof c.name, "matrix by columns");
  run(&c);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc > 1) seconds_each = atof(argv[1]);
  if (argc > 2) wanted = argv[2];
  if (mh_engine_open() != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  const long depths[5] = {1, 8, 64, 256, 4096};
  for (int i = 0; i < 5; ++i) plane(32, depths[i]);
  for (int i = 0; i < 5; ++i) plane(1, depths[i]);
  sides(MPI_DOUBLE, 8, 1, 1);
  sides(MPI_FLOAT, 4, 1, 1);
  sides(MPI_DOUBLE, 8, 1, 2);
  sides(MPI_FLOAT, 4, 1, 2);
  sides(MPI_DOUBLE, 8, 5, 1);
  MPI_Datatype cell;
  MPI_Type_contiguous(5, MPI_DOUBLE, &cell);
  sides(cell, 40, 1, 1);
  MPI_Type_free(&cell);
  lists();
  records();
  nested();
  MPI_Finalize();
  return 0;
}
