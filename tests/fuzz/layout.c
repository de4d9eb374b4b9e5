// SPDX-License-Identifier: BSD-3-Clause
//
// Derived datatypes together with a model of what they cover, buffers with guards, and payloads.
//
// A layout is built twice at the same time, once by MPI and once as a list of blocks, so that the
// fuzzer can say for each byte of a buffer what it must be without asking MPI. No type overlaps
// itself, extents are never smaller than what an item covers and never negative.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

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

// ---- basic types
// -----------------------------------------------------------------------------------

typedef struct {
  const char* name;
  size_t size;
} Element;

static const Element elements[] = {
    {"BYTE", 1},  {"CHAR", 1},      {"SHORT", 2},       {"INT", 4},
    {"FLOAT", 4}, {"INT64", 8},     {"DOUBLE", 8},      {"DOUBLE_COMPLEX", 16},
    {"2INT", 8},  {"SHORT_INT", 6}, {"DOUBLE_INT", 12},
};

// MPICH 4.0 packs pair types (the last two) with their gaps: buffered sends of them overflow.
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000
enum { ELEMENTS = sizeof elements / sizeof elements[0] - 2 };
#else
enum { ELEMENTS = sizeof elements / sizeof elements[0] };
#endif
enum { FIRST_PAIR = 8 };

int element_kinds(void) { return ELEMENTS; }
size_t element_size_of(int element) { return elements[element].size; }
bool element_is_pair(int element) { return element >= FIRST_PAIR; }
const char* element_name_of(int element) { return elements[element].name; }

MPI_Datatype element_type_of(int element) {
  const MPI_Datatype types[] = {
      MPI_BYTE,  MPI_CHAR,      MPI_SHORT,      MPI_INT,
      MPI_FLOAT, MPI_INT64_T,   MPI_DOUBLE,     MPI_C_DOUBLE_COMPLEX,
      MPI_2INT,  MPI_SHORT_INT, MPI_DOUBLE_INT,
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

static Layout* layout_basic(int element) {
  Layout* layout = layout_new(2);
  layout->type = element_type_of(element);
  if (strcmp(elements[element].name, "DOUBLE_INT") == 0) {
    layout_add(layout, 0, 8);
    layout_add(layout, 8, 4);
  } else if (strcmp(elements[element].name, "SHORT_INT") == 0) {
    layout_add(layout, 0, 2);
    layout_add(layout, 4, 4);
  } else {
    layout_add(layout, 0, elements[element].size);
  }
  layout->elements = 1;
  layout->element = element;
  layout_measure(layout);
  snprintf(layout->name, sizeof layout->name, "%s", elements[element].name);
  return layout;
}

// One more level: `places` blocks of `lengths[i]` children at byte `at[i]`. Takes over the child.
static Layout* layout_place(Layout* child, MPI_Datatype type, const char* how, int places,
                            const int* lengths, const MPI_Aint* at) {
  int children = 0;
  for (int i = 0; i < places; ++i) children += lengths[i];
  Layout* layout = layout_new(children * child->block_count);
  layout->type = type;
  layout->owned = true;
  layout->element = child->element;
  layout->elements = children * child->elements;
  for (int i = 0; i < places; ++i) {
    for (int j = 0; j < lengths[i]; ++j) {
      for (int k = 0; k < child->block_count; ++k) {
        layout_add(layout, at[i] + j * child->extent + child->blocks[k].at,
                   child->blocks[k].length);
      }
    }
  }
  layout_measure(layout);
  snprintf(layout->name, sizeof layout->name, "%s(%.72s)", how, child->name);
  layout_free(child);
  return layout;
}

// Open MPI 4.1 and 5.0 bring wrong bytes with types whose blocks are not in the order of addresses,
// without any help; Open MPI 5.0 also, now and then, with gaps between elements of 16 bytes.
#ifdef OPEN_MPI
static const bool unordered_types = false;
#else
static const bool unordered_types = true;
#endif

static void shuffle_slots(Rng* rng, MPI_Aint* at, int* lengths, int places) {
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

// Same extent, new lower bound or not: still contiguous in memory when the child is.
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

static Layout* make_indexed(Rng* rng, Layout* child, int how) {
  enum { PLACES = 5 };
  int places = rng_range(rng, 1, PLACES), lengths[PLACES], displacements[PLACES];
  MPI_Aint at[PLACES], next = 0;
  int same = rng_range(rng, 1, 3);
  for (int i = 0; i < places; ++i) {
    lengths[i] = how == 2 ? same : rng_range(rng, how == 0 && i > 0 ? 0 : 1, 4);
    at[i] = next;
    next += (lengths[i] + rng_range(rng, 0, 2)) * child->extent;
  }
  shuffle_slots(rng, at, lengths, places);
  for (int i = 0; i < places; ++i) displacements[i] = (int)(at[i] / child->extent);
  MPI_Datatype type;
  if (how == 0) MPI_Type_indexed(places, lengths, displacements, child->type, &type);
  if (how == 1) MPI_Type_create_hindexed(places, lengths, at, child->type, &type);
  if (how == 2) MPI_Type_create_indexed_block(places, same, displacements, child->type, &type);
  const char* const names[] = {"indexed", "hindexed", "indexed_block"};
  return layout_place(child, type, names[how], places, lengths, at);
}

static Layout* make_struct(Rng* rng, Layout* child) {
  enum { PLACES = 4 };
  int places = rng_range(rng, 1, PLACES), lengths[PLACES];
  MPI_Aint at[PLACES], next = 0;
  MPI_Datatype types[PLACES], type;
  for (int i = 0; i < places; ++i) {
    lengths[i] = rng_range(rng, 1, 3);
    at[i] = next;
    types[i] = child->type;
    next += lengths[i] * child->extent + 8 * rng_range(rng, 0, 3);
  }
  MPI_Type_create_struct(places, lengths, at, types, &type);
  return layout_place(child, type, "struct", places, lengths, at);
}

static Layout* make_level(Rng* rng, Layout* child, bool contiguous) {
  if (contiguous) {
    int how = rng_range(rng, 0, 2);
    if (how == 0) return make_dup(child);
    return how == 1 ? make_contiguous(rng, child) : make_resized(rng, child, false);
  }
  switch (rng_range(rng, 0, 8)) {
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
      return make_indexed(rng, child, 0);
    case 6:
      return make_indexed(rng, child, 1);
    case 7:
      return make_indexed(rng, child, 2);
    default:
      return make_struct(rng, child);
  }
}

Layout* layout_make(uint64_t seed, int element, bool contiguous) {
  Layout* layout = layout_basic(element);
  if (!unordered_types && layout->size == 16) contiguous = true;
  if (seed != 0) {
    Rng rng = {seed};
    int levels = rng_range(&rng, 1, 3);
    for (int i = 0; i < levels && layout->elements * 20 <= MAX_ELEMENTS * 4; ++i) {
      layout = make_level(&rng, layout, contiguous);
    }
    MPI_Type_commit(&layout->type);
  }
  layout->element_type = element_type_of(element);
  layout->element_size = element_size_of(element);
  return layout;
}

void layout_free(Layout* layout) {
  if (layout == NULL) return;
  if (layout->owned) MPI_Type_free(&layout->type);
  free(layout->blocks);
  free(layout);
}

// ---- payloads and buffers
// ---------------------------------------------------------------------------

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
