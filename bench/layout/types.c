// SPDX-License-Identifier: BSD-3-Clause
#include "types.h"

#include <stdio.h>
#include <string.h>

enum { LIST = 20000, LONG_LIST = 500, BOX = 64 };

// ---- hand-written packing loops ----------------------------------------------------------------

// Defines the hand-written loops for boxes of one element type. BOX_LOOP is a macro, so that the
// compiler knows the type and can vectorise the copies.
#define BOX_LOOP(Type)                                                                      \
  static void move_box_##Type(const void* plan, char* memory, char* packed, int packing) {  \
    const Case* c = plan;                                                                   \
    Type* out = (Type*)packed;                                                              \
    for (long v = 0; v < c->variables; ++v) {                                               \
      Type* in = (Type*)memory + c->start + v * c->distance;                                \
      for (long i = 0; i < c->n[0]; ++i) {                                                  \
        for (long j = 0; j < c->n[1]; ++j) {                                                \
          Type* row = in + i * c->stride[0] + j * c->stride[1];                             \
          const long n = c->n[2], s = c->stride[2];                                         \
          if (packing && s == 1) {                                                          \
            for (long k = 0; k < n; ++k) out[k] = row[k];                                   \
          } else if (packing) {                                                             \
            for (long k = 0; k < n; ++k) out[k] = row[k * s];                               \
          } else if (s == 1) {                                                              \
            for (long k = 0; k < n; ++k) row[k] = out[k];                                   \
          } else {                                                                          \
            for (long k = 0; k < n; ++k) row[k * s] = out[k];                               \
          }                                                                                 \
          out += n;                                                                         \
        }                                                                                   \
      }                                                                                     \
    }                                                                                       \
  }                                                                                         \
  static void copy_box_##Type(const void* plan, char* to, const char* from) {               \
    const Case* c = plan;                                                                   \
    for (long v = 0; v < c->variables; ++v) {                                               \
      for (long i = 0; i < c->n[0]; ++i) {                                                  \
        for (long j = 0; j < c->n[1]; ++j) {                                                \
          const long at = c->start + v * c->distance + i * c->stride[0] + j * c->stride[1]; \
          const Type* in = (const Type*)from + at;                                          \
          Type* out = (Type*)to + at;                                                       \
          const long n = c->n[2], s = c->stride[2];                                         \
          if (s == 1) {                                                                     \
            for (long k = 0; k < n; ++k) out[k] = in[k];                                    \
          } else {                                                                          \
            for (long k = 0; k < n; ++k) out[k * s] = in[k * s];                            \
          }                                                                                 \
        }                                                                                   \
      }                                                                                     \
    }                                                                                       \
  }
BOX_LOOP(double)
BOX_LOOP(float)

typedef struct {
  double variable[5];
} Cell;
BOX_LOOP(Cell)

static int list_length[LIST], list_place[LIST];

static void move_list(const void* plan, char* memory, char* packed, int packing) {
  const Case* c = plan;
  double *in = (double*)memory, *out = (double*)packed;
  for (int i = 0; i < c->n[0]; ++i) {
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

// ---- the datatypes -----------------------------------------------------------------------------

static void show(Case* c, Visit visit, void* context) {
  int size;
  MPI_Type_commit(&c->type);
  MPI_Type_size(c->type, &size);
  c->packed = (size_t)size * (size_t)c->count;
  visit(c, context);
  MPI_Type_free(&c->type);
}

void plane_case(size_t bytes, long z, Visit visit, void* context) {
  const long blocks = (long)(bytes / 8) / z;
  Case c = {.count = 1, .memory = 2 * bytes, .variables = 1, .element = MPI_DOUBLE, .bytes = 8};
  c.move = move_box_double, c.copy = copy_box_double;
  snprintf(c.name, sizeof c.name, "plane %zu MB, Z = %ld", bytes >> 20, z);
  c.n[0] = 1, c.n[1] = blocks, c.n[2] = z;
  c.stride[1] = 2 * z, c.stride[2] = 1;
  if (z == 1) c.n[1] = 1, c.n[2] = blocks, c.stride[2] = 2;  // a single strided loop
  MPI_Type_vector((int)blocks, (int)z, (int)(2 * z), MPI_DOUBLE, &c.type);
  show(&c, visit, context);
}

// The parameters that all faces, edges and corners of one box have in common. The faces, edges and
// corners are the parts that a halo exchange sends.
typedef struct {
  int side, width;
  long variables;  // number of arrays, one for each variable
  MPI_Datatype element;
  int bytes;
} Box;

static Case case_of(const Box* b) {
  Case c = {.count = 1, .variables = b->variables, .bytes = b->bytes, .element = b->element};
  c.distance = (long)b->side * b->side * b->side + 24;
  c.memory = (size_t)(b->variables * c.distance) * (size_t)b->bytes;
  c.move = b->bytes == 8 ? move_box_double : b->bytes == 4 ? move_box_float : move_box_Cell;
  c.copy = b->bytes == 8 ? copy_box_double : b->bytes == 4 ? copy_box_float : copy_box_Cell;
  return c;
}

// Calls `visit` with the datatype of a face, an edge or the corner of a box. `at` is 1 for each
// dimension in which that part has only the width of the halo.
static void part_case(const Box* b, const char* what, const int at[3], Visit visit, void* context) {
  const int box[3] = {b->side, b->side, b->side};
  int part[3], start[3];
  Case c = case_of(b);
  for (int d = 0; d < 3; ++d) {
    part[d] = at[d] ? b->width : b->side - 2 * b->width;
    start[d] = b->width;
    c.n[d] = part[d];
    c.start = c.start * b->side + start[d];
  }
  c.stride[0] = (long)b->side * b->side, c.stride[1] = b->side, c.stride[2] = 1;
  if (part[2] == 1) {  // the innermost loop runs over the next dimension
    c.n[2] = c.n[1], c.stride[2] = c.stride[1];
    c.n[1] = c.n[0], c.stride[1] = c.stride[0];
    c.n[0] = 1;
    if (c.n[2] == 1) c.n[2] = c.n[1], c.stride[2] = c.stride[1], c.n[1] = 1;
  }
  snprintf(c.name, sizeof c.name, "%d^3 %s %s, %ld x %d B, width %d", b->side, what,
           at[2]   ? "z"
           : at[1] ? "y"
                   : "x",
           b->variables, b->bytes, b->width);
  MPI_Datatype one;
  MPI_Type_create_subarray(3, box, part, start, MPI_ORDER_C, b->element, &one);
  int ones[5];
  MPI_Aint places[5];
  MPI_Datatype types[5];
  for (long v = 0; v < b->variables; ++v) {
    ones[v] = 1, places[v] = v * c.distance * b->bytes, types[v] = one;
  }
  MPI_Type_create_struct((int)b->variables, ones, places, types, &c.type);
  MPI_Type_free(&one);
  show(&c, visit, context);
}

static void parts(const Box* b, Visit visit, void* context) {
  part_case(b, "face", (const int[3]){1, 0, 0}, visit, context);
  part_case(b, "face", (const int[3]){0, 1, 0}, visit, context);
  part_case(b, "face", (const int[3]){0, 0, 1}, visit, context);
  part_case(b, "edge", (const int[3]){1, 1, 0}, visit, context);
  part_case(b, "edge", (const int[3]){0, 1, 1}, visit, context);
  part_case(b, "corner", (const int[3]){1, 1, 1}, visit, context);
}

void box_cases(int side, Visit visit, void* context) {
  MPI_Datatype cell;
  MPI_Type_contiguous(5, MPI_DOUBLE, &cell);
  MPI_Type_commit(&cell);
  const Box boxes[] = {{side, 1, 1, MPI_DOUBLE, 8}, {side, 1, 1, MPI_FLOAT, 4},
                       {side, 2, 1, MPI_DOUBLE, 8}, {side, 2, 1, MPI_FLOAT, 4},
                       {side, 1, 5, MPI_DOUBLE, 8}, {side, 1, 1, cell, 40}};
  for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; ++i) parts(&boxes[i], visit, context);
  MPI_Type_free(&cell);
}

static Case list_of(int runs, int least, int most) {
  int next = 0;
  for (int i = 0; i < runs; ++i) {
    next += 1 + (int)((unsigned)i * 2654435761u >> 30);
    list_place[i] = next;
    list_length[i] = least + (int)((unsigned)i * 40503u >> 13) % (most - least + 1);
    next += list_length[i];
  }
  Case c = {.count = 1, .memory = (size_t)next * 8, .move = move_list, .n = {runs}};
  snprintf(c.name, sizeof c.name, "list of %d-%d doubles", least, most);
  MPI_Type_indexed(runs, list_length, list_place, MPI_DOUBLE, &c.type);
  return c;
}

static void lists(Visit visit, void* context) {
  Case c = list_of(LONG_LIST, 8, 200);
  show(&c, visit, context);
  c = list_of(LIST, 1, 4);
  show(&c, visit, context);
  c.move = move_list_of_ones;
  snprintf(c.name, sizeof c.name, "list of doubles");
  MPI_Type_create_indexed_block(LIST, 1, list_place, MPI_DOUBLE, &c.type);
  show(&c, visit, context);
  c.move = move_list_of_floats;
  snprintf(c.name, sizeof c.name, "list of floats");
  MPI_Type_create_indexed_block(LIST, 1, list_place, MPI_FLOAT, &c.type);
  show(&c, visit, context);
}

static void records(Visit visit, void* context) {
  const int lengths[4] = {3, 1, 1, 1};
  const MPI_Aint at[4] = {offsetof(Record, position), offsetof(Record, kind),
                          offsetof(Record, flag), offsetof(Record, mass)};
  const MPI_Datatype types[4] = {MPI_DOUBLE, MPI_INT, MPI_CHAR, MPI_DOUBLE};
  Case c = {.count = 5000, .memory = 5000 * sizeof(Record), .move = move_records};
  snprintf(c.name, sizeof c.name, "records with gaps");
  MPI_Type_create_struct(4, lengths, at, types, &c.type);
  show(&c, visit, context);
}

// Calls `visit` with two nested types. The first is one of the five variables of each cell in a
// face; the second is a matrix by columns, as in the transposition of an FFT.
static void nested(Visit visit, void* context) {
  Case c = {.count = 1, .move = move_box_double, .variables = 1};
  MPI_Datatype cell, row;
  MPI_Type_create_resized(MPI_DOUBLE, 0, 40, &cell);
  MPI_Type_vector(BOX, BOX, 2 * BOX, cell, &c.type);
  c.n[0] = 1, c.n[1] = BOX, c.n[2] = BOX;
  c.stride[1] = 2 * BOX * 5, c.stride[2] = 5;
  c.memory = (size_t)BOX * 2 * BOX * 40;
  snprintf(c.name, sizeof c.name, "one of five in cells");
  show(&c, visit, context);
  MPI_Type_free(&cell);
  enum { ROWS = 512 };
  MPI_Type_vector(ROWS, 1, ROWS, MPI_DOUBLE, &row);
  MPI_Type_create_hvector(ROWS, 1, 8, row, &c.type);
  MPI_Type_free(&row);
  c.n[1] = c.n[2] = ROWS;
  c.stride[1] = 1, c.stride[2] = ROWS;
  c.memory = (size_t)ROWS * ROWS * 8;
  snprintf(c.name, sizeof c.name, "matrix by columns");
  show(&c, visit, context);
}

void irregular_cases(Visit visit, void* context) {
  lists(visit, context);
  records(visit, context);
  nested(visit, context);
}
