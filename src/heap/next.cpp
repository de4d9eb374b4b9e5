// SPDX-License-Identifier: BSD-3-Clause
#include "heap/next.hpp"

#include <link.h>

#include <cstddef>
#include <cstring>

extern "C" {
#include "base/elf.h"
}

namespace mh::heap {
namespace {

// Parts of the names of libraries that watch or replace the program's allocations: with such a
// library loaded, the process gets no shared heap.
constexpr const char* kCheckers[] = {
    "vgpreload_", "libasan",  "libtsan",           "liblsan",   "libmsan",
    "libhwasan",  "libubsan", "libclang_rt.",      "libefence", "libheaptrack",
    "libdmalloc", "libduma",  "libc_malloc_debug", "libmemkind"};

// The name of a function of the structure Next, and the offset of its pointer there.
struct Wanted {
  const char* name;
  std::size_t place;
};
constexpr Wanted kWanted[] = {{"malloc", offsetof(Next, malloc)},
                              {"free", offsetof(Next, free)},
                              {"calloc", offsetof(Next, calloc)},
                              {"realloc", offsetof(Next, realloc)},
                              {"memalign", offsetof(Next, memalign)},
                              {"posix_memalign", offsetof(Next, posix_memalign)},
                              {"aligned_alloc", offsetof(Next, aligned_alloc)},
                              {"valloc", offsetof(Next, valloc)},
                              {"pvalloc", offsetof(Next, pvalloc)},
                              {"malloc_usable_size", offsetof(Next, usable_size)},
                              {"madvise", offsetof(Next, madvise)},
                              {"fork", offsetof(Next, fork)},
                              {"_Fork", offsetof(Next, fork_alone)},
                              {"__register_atfork", offsetof(Next, register_atfork)},
                              {"pthread_attr_setstack", offsetof(Next, set_stack)}};
constexpr std::size_t kFunctions = sizeof kWanted / sizeof kWanted[0];
static_assert(sizeof(Next) == kFunctions * sizeof(void*));

struct SymbolSearch {
  const void* self = mh_front().dynamic;
  bool passed_self = false;
  const char* first = nullptr;  // object that defines malloc, in the loader's order
  const char* next = nullptr;   // object behind this library that defines malloc
  bool checker = false;
  void* found[kFunctions] = {};   // behind this library
  void* before[kFunctions] = {};  // before this library; used if no object is behind it
};

bool is_checker(const char* file) {
  for (const char* part : kCheckers) {
    if (std::strstr(file, part) != nullptr) return true;
  }
  return false;
}

void look_for_functions(const mh_object& object, void** found) {
  for (std::size_t i = 0; i < kFunctions; ++i) {
    if (found[i] == nullptr) found[i] = mh_address(&object, kWanted[i].name);
  }
}

int look(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<SymbolSearch*>(data);
  const mh_object object = mh_object_of(info);
  if (object.dynamic == nullptr) return 0;
  if (is_checker(object.file)) search.checker = true;
  const bool defines = mh_symbol(&object, "malloc") != nullptr;
  if (defines && search.first == nullptr) search.first = object.file;
  if (object.dynamic == search.self) {
    search.passed_self = true;
  } else if (search.passed_self) {
    if (defines && search.next == nullptr) search.next = mh_soname(&object);
    look_for_functions(object, search.found);
  } else {
    look_for_functions(object, search.before);
  }
  return 0;
}

}  // namespace

void find_next(Next& next) {
  SymbolSearch search;
  ::dl_iterate_phdr(look, &search);
  for (std::size_t i = 0; i < kFunctions; ++i) {
    if (search.found[i] == nullptr) search.found[i] = search.before[i];
  }
  std::memcpy(&next, search.found, sizeof next);
}

void look_around(Facts& facts) {
  SymbolSearch search;
  ::dl_iterate_phdr(look, &search);
  facts.checker = search.checker;
  facts.c_library_next = search.first == mh_front().file && search.next != nullptr &&
                         std::strcmp(search.next, "libc.so.6") == 0;
}

}  // namespace mh::heap
