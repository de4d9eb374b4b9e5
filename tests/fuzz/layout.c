// SPDX-License-Identifier: BSD-3-Clause
//
// Derived datatypes with a model of their bytes, buffers with guards, and payloads, for the
// fuzzers.
//
// A datatype is built twice, as an MPI type and as a list of blocks in memory (Layout). The fuzzer
// thus knows the expected value of each byte of a buffer without MPI. No type overlaps itself. An
// extent is never negative and never smaller than the span of an item.
#include "layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 96, MAX_ELEMENTS = 96 };

uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t mix2(uint64_t a, uint64_t b) { return mix64(mix64(a) ^ (b * 0xd6e8feb86659fd93u)); }

uint64_t rng_next(Rng* rng) { return mix64(rng->state++ * 0x9e3779b97f4a7c15u); }

uint32_t rng_below(Rng* rng, uint32_t bound) {
  return bound == 0 ? 0 : (uint32_t)((rng_next(rng) >> 32) * bound >> 32);
}

int rng_range(Rng* rng, int low, int high) {
  return low + (int)rng_below(rng, (uint32_t)(high - low + 1));
}

bool rng_chance(Rng* rng, int percent) { return rng_below(rng, 100) < (uint32_t)percent; }

// ---- basic types -------------------------------------------------------------------------------

typedef struct {
  const char* name;
  size_t size;
} Element;

static const Element elements[] = {
    {"BYTE", 1},     {"CHAR", 1},      {"SHORT", 2},           {"INT", 4},  {"FLOAT", 4},
    {"INT64", 8},    {"DOUBLE", 8},    {"DOUBLE_COMPLEX", 16}, {"2INT", 8}, {"RECORD", 19},
    {"LETTERED", 9}, {"SHORT_INT", 6}, {"DOUBLE_INT", 12},
};

// MPICH 4.0 packs the pair types MPI_SHORT_INT and MPI_DOUBLE_INT (the last two elements) with
// their gaps, so buffered sends overflow the buffer that MPI_Pack_size asks for.
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
enum { ELEMENTS = sizeof elements / sizeof elements[0] - 2 };
#else
enum { ELEMENTS = sizeof elements / sizeof elements[0] };
#endif
enum { FIRST_COMPOSED = 8, RECORD = 9, LETTERED = 10 };

int element_kinds(void) { return ELEMENTS; }
size_t element_size_of(int element) { return elements[element].size; }
bool element_is_composed(int element) { return element >= FIRST_COMPOSED; }
const char* element_name_of(int element) { return elements[element].name; }

static MPI_Datatype element_type_of(int element) {
  const MPI_Datatype types[] = {
      MPI_BYTE,       MPI_CHAR,          MPI_SHORT,         MPI_INT,
      MPI_FLOAT,      MPI_INT64_T,       MPI_DOUBLE,        MPI_C_DOUBLE_COMPLEX,
      MPI_2INT,       MPI_DATATYPE_NULL, MPI_DATATYPE_NULL, MPI_SHORT_INT,
      MPI_DOUBLE_INT,
  };
  return types[element];
}

static Layout* layout_new(int block_room) {
  Layout* layout = calloc(1, sizeof *layout);
  layout->blocks = malloc(sizeof(Block) * (size_t)(block_room > 0 ? block_room : 1));
  return layout;
}

static void layout_add(Layout* layout, ptrdiff_t at, size_t length) {
  if (layout->block_count > 0) {
    Block* last = &layout->blocks[layout->block_count - 1];
    if (last->at + (ptrdiff_t)last->length == at) {
      last->length += length;
      return;
    }
  }
  layout->blocks[layout->block_count++] = (Block){at, length};
}

static void layout_measure(Layout* layout) {
  MPI_Aint lower = 0;
  MPI_Type_get_extent(layout->type, &lower, &layout->extent);
  layout->size = 0;
  layout->low = layout->blocks[0].at;
  layout->high = layout->low;
  for (int i = 0; i < layout->block_count; ++i) {
    const Block* block = &layout->blocks[i];
    layout->size += block->length;
    if (block->at < layout->low) layout->low = block->at;
    if (block->at + (ptrdiff_t)block->length > layout->high) {
      layout->high = block->at + (ptrdiff_t)block->length;
    }
  }
}

// Makes a struct of mixed basic types: RECORD or LETTERED, as `element` says. The offsets of the
// members depend on the seed, their order does not, so all structs of one `element` have the same
// signature. If `contiguous`, the struct has no gaps.
static void make_record(Layout* layout, int element, uint64_t seed, bool contiguous) {
  static const int lengths[2][4] = {{1, 2, 1, 1}, {1, 1, 0, 0}};
  static const size_t sizes[2][4] = {{8, 4, 2, 1}, {1, 8, 0, 0}};
  const MPI_Datatype types[2][4] = {{MPI_DOUBLE, MPI_INT, MPI_SHORT, MPI_CHAR},
                                    {MPI_CHAR, MPI_DOUBLE}};
  const int kind = element == RECORD ? 0 : 1, members = kind == 0 ? 4 : 2;
  Rng rng = {mix2(seed, 0x7265636fu)};
  MPI_Aint at[4], next = 0;
  for (int i = 0; i < members; ++i) {
    at[i] = next;
    next += (MPI_Aint)(sizes[kind][i] * (size_t)lengths[kind][i]);
    if (!contiguous && seed != 0) next += rng_range(&rng, 0, 9);
    layout_add(layout, at[i], sizes[kind][i] * (size_t)lengths[kind][i]);
  }
  MPI_Datatype type;
  MPI_Type_create_struct(members, lengths[kind], at, types[kind], &type);
  MPI_Type_create_resized(type, 0, next, &layout->type);
  MPI_Type_free(&type);
  layout->owned = true;
}

static Layout* layout_basic(int element, uint64_t seed, bool contiguous) {
  Layout* layout = layout_new(4);
  layout->type = element_type_of(element);
  if (element == RECORD || element == LETTERED) {
    make_record(layout, element, seed, contiguous);
  } else if (strcmp(elements[element].name, "DOUBLE_INT") == 0) {
    layout_add(layout, 0, 8);
    layout_add(layout, 8, 4);
  } else if (strcmp(elements[element].name, "SHORT_INT") == 0) {
    layout_add(layout, 0, 2);
    layout_add(layout, 4, 4);
  } else {
    layout_add(layout, 0, elements[element].size);
  }
  layout->elements = 1;
  layout->countable = true;
  layout->element = element;
  layout_measure(layout);
  snprintf(layout->name, sizeof layout->name, "%s", elements[element].name);
  return layout;
}

static void layout_add_children(Layout* layout, const Layout* child, MPI_Aint at, int count) {
  layout->elements += count * child->elements;
  for (int j = 0; j < count; ++j) {
    for (int k = 0; k < child->block_count; ++k) {
      layout_add(layout, at + j * child->extent + child->blocks[k].at, child->blocks[k].length);
    }
  }
}

// Makes the layout of a type that is built from `child`: `places` blocks, of which block i has
// `lengths[i]` items of `child` from byte `at[i]` on. If `second` is not null, every other block
// has items of `second`, which has the same basic element. Frees `child`.
static Layout* layout_mix(Layout* child, const Layout* second, MPI_Datatype type, const char* how,
                          int places, const int* lengths, const MPI_Aint* at) {
  int blocks = 0;
  for (int i = 0; i < places; ++i) {
    blocks += lengths[i] * (second != NULL && i % 2 == 1 ? second : child)->block_count;
  }
  Layout* layout = layout_new(blocks);
  layout->type = type;
  layout->owned = true;
  layout->element = child->element;
  layout->countable = child->countable;
  for (int i = 0; i < places; ++i) {
    layout_add_children(layout, second != NULL && i % 2 == 1 ? second : child, at[i], lengths[i]);
  }
  layout_measure(layout);
  snprintf(layout->name, sizeof layout->name, "%s(%.72s)", how, child->name);
  layout_free(child);
  return layout;
}

static Layout* layout_place(Layout* child, MPI_Datatype type, const char* how, int places,
                            const int* lengths, const MPI_Aint* at) {
  return layout_mix(child, NULL, type, how, places, lengths, at);
}

// Plain Open MPI 4.1 and 5.0 deliver wrong bytes for types whose blocks are not in the order of
// addresses, and Open MPI 5.0 sometimes for gaps between elements of 16 bytes. The fuzzer makes no
// such types under Open MPI.
#ifdef OPEN_MPI
static const bool unordered_types = false;
#else
static const bool unordered_types = true;
#endif

static void shuffle_blocks(Rng* rng, MPI_Aint* at, int* lengths, int places) {
  for (int i = places - 1; i > 0 && unordered_types; --i) {
    int j = (int)rng_below(rng, (uint32_t)i + 1);
    MPI_Aint a = at[i];
    int l = lengths[i];
    at[i] = at[j];
    lengths[i] = lengths[j];
    at[j] = a;
    lengths[j] = l;
  }
}

static Layout* make_dup(Layout* child) {
  MPI_Datatype type;
  MPI_Type_dup(child->type, &type);
  return layout_place(child, type, "dup", 1, (int[]){1}, (MPI_Aint[]){0});
}

static Layout* make_contiguous(Rng* rng, Layout* child) {
  int count = rng_range(rng, 1, 8);
  MPI_Datatype type;
  MPI_Type_contiguous(count, child->type, &type);
  return layout_place(child, type, "contiguous", 1, (int[]){count}, (MPI_Aint[]){0});
}

// Makes a resized type of `child`. Without `gap` the resized type is contiguous in memory if
// `child` is.
static Layout* make_resized(Rng* rng, Layout* child, bool gap) {
  MPI_Aint extent = child->high - child->low;
  if (extent < child->extent) extent = child->extent;
  if (gap) extent += rng_range(rng, 1, 5) * (MPI_Aint)elements[child->element].size;
  MPI_Aint lower = gap ? -8 * (MPI_Aint)rng_below(rng, 3) : 0;
  MPI_Datatype type;
  MPI_Type_create_resized(child->type, lower, extent, &type);
  return layout_place(child, type, "resized", 1, (int[]){1}, (MPI_Aint[]){0});
}

static Layout* make_vector(Rng* rng, Layout* child, bool bytes) {
  int count = rng_range(rng, 1, 5), length = rng_range(rng, 1, 4);
  MPI_Aint stride = (MPI_Aint)(length + rng_range(rng, 0, 3)) * child->extent;
  if (bytes && unordered_types && rng_chance(rng, 40)) stride = -stride;
  MPI_Datatype type;
  if (bytes) {
    MPI_Type_create_hvector(count, length, stride, child->type, &type);
  } else {
    MPI_Type_vector(count, length, (int)(stride / child->extent), child->type, &type);
  }
  MPI_Aint at[8];
  int lengths[8];
  for (int i = 0; i < count; ++i) {
    at[i] = i * stride;
    lengths[i] = length;
  }
  return layout_place(child, type, bytes ? "hvector" : "vector", count, lengths, at);
}

typedef enum { INDEXED, INDEXED_BLOCK, HINDEXED, HINDEXED_BLOCK } Listed;

// Makes an indexed type by the constructor `how`. Blocks of the hindexed forms may begin at any
// multiple of an element, blocks of the others at multiples of the child's extent.
static Layout* make_indexed(Rng* rng, Layout* child, Listed how) {
  enum { PLACES = 5 };
  const bool bytes = how >= HINDEXED, block = how == INDEXED_BLOCK || how == HINDEXED_BLOCK;
  const MPI_Aint unit = bytes ? (MPI_Aint)elements[child->element].size : child->extent;
  int places = rng_range(rng, 1, PLACES), lengths[PLACES], displacements[PLACES];
  MPI_Aint at[PLACES], next = 0;
  int same = rng_range(rng, 1, 3), children = 0;
  for (int i = 0; i < places; ++i) {
    lengths[i] = block ? same : rng_range(rng, 0, 4);
    if (i == places - 1 && children == 0 && lengths[i] == 0) lengths[i] = 1;
    children += lengths[i];
    at[i] = next;
    next += lengths[i] * child->extent + rng_range(rng, 0, 2) * unit;
  }
  shuffle_blocks(rng, at, lengths, places);
  for (int i = 0; i < places; ++i) displacements[i] = (int)(at[i] / child->extent);
  MPI_Datatype type;
  if (how == INDEXED) MPI_Type_indexed(places, lengths, displacements, child->type, &type);
  if (how == INDEXED_BLOCK) {
    MPI_Type_create_indexed_block(places, same, displacements, child->type, &type);
  }
  if (how == HINDEXED) MPI_Type_create_hindexed(places, lengths, at, child->type, &type);
  if (how == HINDEXED_BLOCK) {
    MPI_Type_create_hindexed_block(places, same, at, child->type, &type);
  }
  const char* const names[] = {"indexed", "indexed_block", "hindexed", "hindexed_block"};
  child->countable &= how != HINDEXED_BLOCK;
  return layout_place(child, type, names[how], places, lengths, at);
}

// Widens the bounds of a struct to the bytes that it spans, because adjacent items must not
// overlap. The bounds of its members may lie inside of the members' span.
static void layout_widen(Layout* layout) {
  if (layout->extent >= layout->high - layout->low) return;
  MPI_Datatype narrow = layout->type;
  MPI_Type_create_resized(narrow, layout->low, layout->high - layout->low, &layout->type);
  MPI_Type_free(&narrow);
  layout_measure(layout);
}

// Makes a struct of several items of `child`. Every other member has another type of the same basic
// element.
static Layout* make_struct(Rng* rng, Layout* child) {
  enum { PLACES = 4 };
  int places = rng_range(rng, 1, PLACES), lengths[PLACES], children = 0;
  MPI_Aint at[PLACES], next = 0;
  MPI_Datatype types[PLACES], type;
  Layout* basic = layout_basic(child->element, rng_next(rng), false);
  for (int i = 0; i < places; ++i) {
    const Layout* member = i % 2 == 1 ? basic : child;
    lengths[i] = rng_range(rng, 0, 3);
    if (i == places - 1 && children == 0 && lengths[i] == 0) lengths[i] = 1;
    children += lengths[i];
    at[i] = next - member->low;
    types[i] = member->type;
    next += lengths[i] * member->extent + 8 * rng_range(rng, 0, 3);
  }
  MPI_Type_create_struct(places, lengths, at, types, &type);
  Layout* layout = layout_mix(child, basic, type, "struct", places, lengths, at);
  layout_free(basic);
  layout_widen(layout);
  return layout;
}

// Makes a long vector of short blocks, like the face of a box.
static Layout* make_plane(Rng* rng, Layout* child) {
  int count = rng_range(rng, 20, 600), length = rng_range(rng, 1, 3);
  MPI_Aint stride = (length + rng_range(rng, 1, 4)) * child->extent;
  MPI_Datatype type;
  MPI_Type_vector(count, length, (int)(stride / child->extent), child->type, &type);
  MPI_Aint* at = malloc(sizeof *at * (size_t)count);
  int* lengths = malloc(sizeof *lengths * (size_t)count);
  for (int i = 0; i < count; ++i) {
    at[i] = i * stride;
    lengths[i] = length;
  }
  Layout* layout = layout_place(child, type, "plane", count, lengths, at);
  free(at);
  free(lengths);
  return layout;
}

// ---- parts of arrays ----------------------------------------------------------------------------

enum { DIMS = 3, ALONG = 6, CELLS = ALONG * ALONG * ALONG };

// MPI_Get_elements of MPICH 4.0 and 5.0 ends the job for types with a subarray or a darray, and for
// types with both an hindexed_block and a struct. Therefore types with a subarray, a darray or an
// hindexed_block are not `countable` (a member of Layout).

// The cells (elements) of an array that belong to one item of a type. Dimension d has the
// `count[d]` indices `index[d]`.
typedef struct {
  int dims;
  int sizes[DIMS];
  int count[DIMS];
  int index[DIMS][ALONG];
  int order;
} Cells;

// Makes the layout of the array cells `c`, in the order of the type map: the first dimension runs
// fastest in Fortran order, else the last.
static Layout* layout_cells(Layout* child, MPI_Datatype type, const char* how, const Cells* c) {
  MPI_Aint at[CELLS];
  int lengths[CELLS], places = 1;
  for (int d = 0; d < c->dims; ++d) places *= c->count[d];
  for (int i = 0; i < places; ++i) {
    int rest = i, place = 0, weight = 1;
    for (int k = 0; k < c->dims; ++k) {
      const int d = c->order == MPI_ORDER_C ? c->dims - 1 - k : k;
      place += weight * c->index[d][rest % c->count[d]];
      rest /= c->count[d];
      weight *= c->sizes[d];
    }
    at[i] = place * child->extent;
    lengths[i] = 1;
  }
  child->countable = false;
  return layout_place(child, type, how, places, lengths, at);
}

static Layout* make_subarray(Rng* rng, Layout* child) {
  Cells c = {.dims = rng_range(rng, 1, DIMS),
             .order = rng_chance(rng, 50) ? MPI_ORDER_C : MPI_ORDER_FORTRAN};
  int starts[DIMS];
  for (int d = 0; d < c.dims; ++d) {
    c.sizes[d] = rng_range(rng, 1, ALONG);
    c.count[d] = rng_range(rng, 1, c.sizes[d]);
    starts[d] = rng_range(rng, 0, c.sizes[d] - c.count[d]);
    for (int i = 0; i < c.count[d]; ++i) c.index[d][i] = starts[d] + i;
  }
  MPI_Datatype type;
  MPI_Type_create_subarray(c.dims, c.sizes, c.count, starts, c.order, child->type, &type);
  return layout_cells(child, type, "subarray", &c);
}

// Writes to `index` the indices of process `mine`, if the processes get blocks of `block` indices
// in turn. Returns the number of these indices.
static int dealt(int size, int block, int processes, int mine, int* index) {
  int count = 0;
  for (int i = 0; i < size; ++i) {
    if (i / block % processes == mine) index[count++] = i;
  }
  return count;
}

static Layout* make_darray(Rng* rng, Layout* child) {
  static const int hows[] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  Cells c = {.dims = rng_range(rng, 1, DIMS),
             .order = rng_chance(rng, 50) ? MPI_ORDER_C : MPI_ORDER_FORTRAN};
  int how[DIMS], argument[DIMS], processes[DIMS], all = 1, rank = 0;
  for (int d = 0; d < c.dims; ++d) {
    how[d] = hows[rng_below(rng, 3)];
    c.sizes[d] = rng_range(rng, 2, ALONG);
    processes[d] = how[d] == MPI_DISTRIBUTE_NONE ? 1 : rng_range(rng, 1, 2);
    int block = c.sizes[d];
    argument[d] = MPI_DISTRIBUTE_DFLT_DARG;
    if (how[d] == MPI_DISTRIBUTE_BLOCK) block = (c.sizes[d] + processes[d] - 1) / processes[d];
    if (how[d] == MPI_DISTRIBUTE_CYCLIC) {
      block = rng_range(rng, 1, 2);
      if (block == 2 || rng_chance(rng, 50)) argument[d] = block;
    }
    int mine = rng_range(rng, 0, processes[d] - 1);
    c.count[d] = dealt(c.sizes[d], block, processes[d], mine, c.index[d]);
    if (c.count[d] == 0) {
      mine = 0;
      c.count[d] = dealt(c.sizes[d], block, processes[d], mine, c.index[d]);
    }
    rank = rank * processes[d] + mine;  // processes are numbered in C order
    all *= processes[d];
  }
  MPI_Datatype type;
  MPI_Type_create_darray(all, rank, c.dims, c.sizes, how, argument, processes, c.order, child->type,
                         &type);
  return layout_cells(child, type, "darray", &c);
}

// ---- types of several levels, by all constructors -----------------------------------------------

static Layout* make_level(Rng* rng, Layout* child, bool contiguous) {
  if (contiguous) {
    int how = rng_range(rng, 0, 2);
    if (how == 0) return make_dup(child);
    return how == 1 ? make_contiguous(rng, child) : make_resized(rng, child, false);
  }
  switch (rng_range(rng, 0, 12)) {
    case 0:
      return make_dup(child);
    case 1:
      return make_contiguous(rng, child);
    case 2:
      return make_resized(rng, child, true);
    case 3:
      return make_vector(rng, child, false);
    case 4:
      return make_vector(rng, child, true);
    case 5:
      return make_indexed(rng, child, INDEXED);
    case 6:
      return make_indexed(rng, child, HINDEXED);
    case 7:
      return make_indexed(rng, child, INDEXED_BLOCK);
    case 8:
      return make_indexed(rng, child, HINDEXED_BLOCK);
    case 9:
      return make_subarray(rng, child);
    case 10:
      return make_darray(rng, child);
    case 11:
      return make_plane(rng, child);
    default:
      return make_struct(rng, child);
  }
}

Layout* layout_make(uint64_t seed, int element, bool contiguous) {
  if (!unordered_types && elements[element].size == 16) contiguous = true;
  Layout* layout = layout_basic(element, seed, contiguous);
  if (seed != 0) {
    Rng rng = {seed};
    int levels = rng_range(&rng, 1, 3);
    for (int i = 0; i < levels && layout->elements * 20 <= MAX_ELEMENTS * 4; ++i) {
      layout = make_level(&rng, layout, contiguous);
    }
  }
  if (layout->owned) MPI_Type_commit(&layout->type);
  layout->element_size = element_size_of(element);
  return layout;
}

void layout_free(Layout* layout) {
  if (layout == NULL) return;
  if (layout->owned) MPI_Type_free(&layout->type);
  free(layout->blocks);
  free(layout);
}

// ---- payloads and buffers ----------------------------------------------------------------------

static uint64_t payload_word(uint64_t id, uint64_t index) {
  uint64_t x = (id ^ (index * 0x9e3779b97f4a7c15u)) * 0xbf58476d1ce4e5b9u;
  return (x ^ (x >> 29)) * 0x94d049bb133111ebu;
}

void payload(uint64_t id, size_t at, unsigned char* out, size_t length) {
  size_t i = 0;
  for (; i < length && (at + i) % 8 != 0; ++i) {
    out[i] = (unsigned char)(payload_word(id, (at + i) / 8) >> ((at + i) % 8 * 8));
  }
  for (; i + 8 <= length; i += 8) {
    uint64_t word = payload_word(id, (at + i) / 8);
    memcpy(out + i, &word, 8);
  }
  for (; i < length; ++i) {
    out[i] = (unsigned char)(payload_word(id, (at + i) / 8) >> ((at + i) % 8 * 8));
  }
}

uint64_t payload_hash(uint64_t id, size_t length) { return mix2(id, length); }

Buffer buffer_make(const Layout* layout, size_t items, uint64_t guard_id) {
  size_t unit = layout->element_size >= 8 ? 8 : (layout->element_size % 4 == 0 ? 4 : 2);
  if (layout->element_size == 1) unit = 1;
  size_t shift = (size_t)(mix64(guard_id) % 16) * unit;
  ptrdiff_t high = layout->high;
  if (items > 0) high += (ptrdiff_t)(items - 1) * layout->extent;
  size_t span = items > 0 ? (size_t)(high - layout->low) : 0;
  Buffer buffer;
  buffer.raw_length = GUARD + shift + span + GUARD;
  if (posix_memalign((void**)&buffer.raw, 64, buffer.raw_length) != 0) abort();
  buffer.base = buffer.raw + GUARD + shift - (items > 0 ? layout->low : 0);
  payload(guard_id, 0, buffer.raw, buffer.raw_length);
  return buffer;
}

static void scatter(unsigned char* base, const Layout* layout, uint64_t id, size_t bytes) {
  size_t done = 0;
  if (layout->block_count == 1 && (size_t)layout->extent == layout->size) {
    payload(id, 0, base + layout->blocks[0].at, bytes);
    return;
  }
  for (size_t item = 0; done < bytes; ++item) {
    unsigned char* at = base + (ptrdiff_t)item * layout->extent;
    for (int k = 0; k < layout->block_count && done < bytes; ++k) {
      size_t length = layout->blocks[k].length;
      if (length > bytes - done) length = bytes - done;
      payload(id, done, at + layout->blocks[k].at, length);
      done += length;
    }
  }
}

void buffer_put(Buffer* buffer, const Layout* layout, uint64_t id, size_t bytes) {
  scatter(buffer->base, layout, id, bytes);
}

size_t buffer_wrong(const Buffer* buffer, const Layout* layout, uint64_t guard_id, uint64_t id,
                    size_t bytes, ptrdiff_t* first) {
  unsigned char* image = malloc(buffer->raw_length);
  payload(guard_id, 0, image, buffer->raw_length);
  if (layout != NULL) scatter(image + (buffer->base - buffer->raw), layout, id, bytes);
  size_t wrong = 0;
  if (memcmp(image, buffer->raw, buffer->raw_length) != 0) {
    for (size_t i = 0; i < buffer->raw_length; ++i) {
      if (image[i] == buffer->raw[i]) continue;
      if (wrong++ == 0) *first = (ptrdiff_t)i - (buffer->base - buffer->raw);
    }
  }
  free(image);
  return wrong;
}

void buffer_free(Buffer* buffer) {
  free(buffer->raw);
  buffer->raw = NULL;
}
