// SPDX-License-Identifier: BSD-3-Clause
#include <complex.h>

#include "rma.h"

Options read_options(int argc, char** argv) {
  Options options = {1, 0, 30};
  for (int i = 1; i + 1 < argc; i += 2) {
    const int value = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--seed") == 0) options.seed = value;
    if (strcmp(argv[i], "--rounds") == 0) options.rounds = value;
    if (strcmp(argv[i], "--first-round") == 0) options.first_round = value;
  }
  return options;
}

// ---- Random numbers -----------------------------------------------------------------------------

Random random_for(int seed, int round, int who) {
  Random random = {((uint64_t)seed * 1000003u + (uint64_t)round) * 1009u + (uint64_t)(who + 2)};
  for (int i = 0; i < 4; ++i) below(&random, 2);
  return random;
}

int below(Random* random, int limit) {
  random->state += 0x9e3779b97f4a7c15u;
  uint64_t x = random->state;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (int)((x ^ (x >> 31)) % (uint64_t)limit);
}

// ---- Basic types --------------------------------------------------------------------------------

static Basic with_extent(const char* name, MPI_Datatype type, Family family) {
  Basic basic = {name, type, family, 0};
  MPI_Aint lower = 0;
  MPI_Type_get_extent(type, &lower, &basic.extent);
  return basic;
}
#define BASIC(type, family) with_extent(#type, type, family)

Basic any_basic(Random* random) {
  switch (below(random, 14)) {
    case 0:
      return BASIC(MPI_INT8_T, INTEGER);
    case 1:
      return BASIC(MPI_SHORT, INTEGER);
    case 2:
      return BASIC(MPI_INT, INTEGER);
    case 3:
      return BASIC(MPI_LONG, INTEGER);
    case 4:
      return BASIC(MPI_UINT8_T, INTEGER);
    case 5:
      return BASIC(MPI_UNSIGNED_SHORT, INTEGER);
    case 6:
      return BASIC(MPI_UNSIGNED, INTEGER);
    case 7:
      return BASIC(MPI_UINT64_T, INTEGER);
    case 8:
      return BASIC(MPI_FLOAT, REAL);
    case 9:
      return BASIC(MPI_LONG_DOUBLE, REAL);
    case 10:
      return BASIC(MPI_C_DOUBLE_COMPLEX, COMPLEX);
    case 11:
      return BASIC(MPI_C_BOOL, LOGICAL);
    case 12:
      return BASIC(MPI_2INT, PAIR);
    default:
      return BASIC(MPI_DOUBLE, REAL);
  }
}

MPI_Op any_op(Random* random, Basic basic) {
  const MPI_Op any[] = {MPI_SUM,  MPI_REPLACE, MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,
                        MPI_LXOR, MPI_LOR,     MPI_BAND, MPI_BOR, MPI_BXOR, MPI_NO_OP};
  const MPI_Op logical[] = {MPI_LAND, MPI_LOR, MPI_LXOR, MPI_REPLACE};
  const MPI_Op pair[] = {MPI_MAXLOC, MPI_MINLOC, MPI_REPLACE};
  switch (basic.family) {
    case INTEGER:
      return any[below(random, 12)];
    case REAL:
      return any[below(random, 5)];
    case COMPLEX:
      return any[below(random, 3)];
    case LOGICAL:
      return logical[below(random, 4)];
    default:
      return pair[below(random, 3)];
  }
}

// Draws an element's value so that results are exact in any order of operations. Values are small
// integers, so sums are exact. Factors of floating-point types are 1 or -1, so products are exact.
// In sums, no part of a complex number is 0, because the sign of a zero depends on the order.
static int number_for(Basic basic, int number, MPI_Op op) {
  if (op == MPI_PROD) return basic.family == INTEGER ? number % 5 + 1 : number % 2 * 2 - 1;
  if (basic.family == COMPLEX) return number % 100 + 2;
  return basic.family == LOGICAL ? number % 2 : number % 100;
}

void write_value(Basic basic, void* at, int number, MPI_Op op) {
  const int value = number_for(basic, number, op);
  if (basic.family == REAL && basic.type == MPI_FLOAT) {
    *(float*)at = (float)value;
  } else if (basic.family == REAL && basic.type == MPI_DOUBLE) {
    *(double*)at = value;
  } else if (basic.family == REAL) {
    memset(at, 0, (size_t)basic.extent);
    *(long double*)at = value;
  } else if (basic.family == COMPLEX) {
    *(double complex*)at = value + (op == MPI_PROD ? 0 : value / 2) * I;
  } else if (basic.family == PAIR) {
    ((int*)at)[0] = value;
    ((int*)at)[1] = number * 7 % 50;
  } else {
    memset(at, 0, (size_t)basic.extent);
    *(unsigned char*)at = (unsigned char)value;
  }
}

// ---- Places of elements in a buffer -------------------------------------------------------------

static Places contiguous(Basic basic, int elements, int first) {
  Places places = {elements, malloc(sizeof(int) * (size_t)elements), MPI_DATATYPE_NULL};
  for (int i = 0; i < elements; ++i) places.offset[i] = first + i;
  MPI_Type_create_indexed_block(1, elements, &first, basic.type, &places.type);
  return places;
}

static Places strided(Random* random, Basic basic, int elements, int room) {
  const int block = 1 + below(random, 3);
  const int blocks = (elements + block - 1) / block;
  const int most = room / blocks;  // elements of room for each block, at least four
  const int stride = block + below(random, most - block + 1);
  Places places = {0, malloc(sizeof(int) * (size_t)elements), MPI_DATATYPE_NULL};
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  const int full = elements / block;
  const int rest = elements % block;
  MPI_Type_vector(full, block, stride, basic.type, &whole);
  for (int i = 0; i < elements; ++i) {
    places.offset[places.elements++] = i / block * stride + i % block;
  }
  if (rest == 0) {
    places.type = whole;
    return places;
  }
  MPI_Datatype parts[2] = {whole, basic.type};
  const int lengths[2] = {1, rest};
  const MPI_Aint at[2] = {0, (MPI_Aint)full * stride * basic.extent};
  MPI_Type_create_struct(2, lengths, at, parts, &places.type);
  MPI_Type_free(&whole);
  return places;
}

static Places listed(Random* random, Basic basic, int elements, int room) {
  Places places = {elements, malloc(sizeof(int) * (size_t)elements), MPI_DATATYPE_NULL};
  const int most = room / elements;  // room for each element, at least four
  for (int i = 0; i < elements; ++i) places.offset[i] = i * most + below(random, most);
  MPI_Type_create_indexed_block(elements, 1, places.offset, basic.type, &places.type);
  return places;
}

Places any_places(Random* random, Basic basic, int elements, int room) {
  Places places;
  switch (below(random, 4)) {
    case 0:
      places = strided(random, basic, elements, room);
      break;
    case 1:
      places = listed(random, basic, elements, room);
      break;
    default:
      places = contiguous(basic, elements, below(random, room - elements));
  }
  MPI_Type_commit(&places.type);
  return places;
}

void forget_places(Places* places) {
  free(places->offset);
  MPI_Type_free(&places->type);
}

// ---- Windows ------------------------------------------------------------------------------------

const char* name_of_kind(Kind kind) {
  const char* names[] = {"an allocated", "a created", "a shared", "a dynamic"};
  return names[kind];
}
const char* name_of_epoch(Epoch epoch) {
  const char* names[] = {"fence", "start", "shared locks", "exclusive locks", "lock_all"};
  return names[epoch];
}

Window make_window(Kind kind, size_t bytes) {
  Window window = {.kind = kind, .win = MPI_WIN_NULL, .bytes = bytes};
  MPI_Comm_rank(MPI_COMM_WORLD, &window.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &window.ranks);
  const MPI_Aint size = (MPI_Aint)bytes;
  switch (kind) {
    case ALLOCATED:
      MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.memory, &window.win);
      break;
    case SHARED:
      MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.memory, &window.win);
      break;
    case CREATED:
      window.memory = malloc(bytes);
      MPI_Win_create(window.memory, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
      break;
    default:
      window.memory = malloc(bytes);
      window.bases = malloc(sizeof(MPI_Aint) * (size_t)window.ranks);
      MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
      MPI_Win_attach(window.win, window.memory, size);
      MPI_Aint base = 0;
      MPI_Get_address(window.memory, &base);
      MPI_Allgather(&base, 1, MPI_AINT, window.bases, 1, MPI_AINT, MPI_COMM_WORLD);
  }
  return window;
}

void free_window(Window* window) {
  if (window->kind == DYNAMIC) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(window->win, window->memory);
  }
  MPI_Win_free(&window->win);
  if (window->kind == CREATED || window->kind == DYNAMIC) free(window->memory);
  free(window->bases);
}

MPI_Aint displacement(const Window* window, int target, size_t bytes) {
  if (window->kind == DYNAMIC) return MPI_Aint_add(window->bases[target], (MPI_Aint)bytes);
  return (MPI_Aint)bytes;
}

// ---- Epochs -------------------------------------------------------------------------------------

bool is_passive(Epoch epoch) { return epoch >= LOCK_SHARED; }

void begin_epoch(const Window* window, Epoch epoch) {
  MPI_Group all;
  if (is_passive(epoch)) {
    // Each rank makes its stores into its own memory visible to the origins that will lock the
    // window later.
    MPI_Win_lock_all(0, window->win);
    MPI_Win_sync(window->win);
    MPI_Win_unlock_all(window->win);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  switch (epoch) {
    case FENCE:
      MPI_Win_fence(MPI_MODE_NOPRECEDE, window->win);
      break;
    case START:
      MPI_Comm_group(MPI_COMM_WORLD, &all);
      MPI_Win_post(all, 0, window->win);
      MPI_Win_start(all, 0, window->win);
      MPI_Group_free(&all);
      break;
    case LOCK_SHARED:
      for (int i = 0; i < window->ranks; ++i) MPI_Win_lock(MPI_LOCK_SHARED, i, 0, window->win);
      break;
    case LOCK_EXCLUSIVE:  // all ranks in the same order: no cycle of waits
      for (int i = 0; i < window->ranks; ++i) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, i, 0, window->win);
      break;
    default:
      MPI_Win_lock_all(0, window->win);
  }
}

static void end_passive(const Window* window, Epoch epoch) {
  if (epoch == LOCK_ALL) {
    MPI_Win_flush_all(window->win);
    MPI_Win_unlock_all(window->win);
  } else {
    for (int i = 0; i < window->ranks; ++i) MPI_Win_unlock(i, window->win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, window->rank, 0, window->win);
  MPI_Win_sync(window->win);
  MPI_Win_unlock(window->rank, window->win);
}

void end_epoch(const Window* window, Epoch epoch) {
  switch (epoch) {
    case FENCE:
      MPI_Win_fence(MPI_MODE_NOSUCCEED, window->win);
      break;
    case START:
      MPI_Win_complete(window->win);
      MPI_Win_wait(window->win);
      break;
    default:
      end_passive(window, epoch);
  }
}
