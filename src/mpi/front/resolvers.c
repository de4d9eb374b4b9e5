/* SPDX-License-Identifier: BSD-3-Clause */
/* Lets a program see which calls its MPI library has.
 *
 * Some programs refer weakly to new calls and check whether they exist (mpi4py: `if (MPI_Send_c)`).
 * The front exports these calls for the libraries that have them. With an older library, such a
 * program would take the front's export for the library's and not use its fallback. For calls new
 * in MPI 4, the loader therefore gets a resolver in place of the address (a GNU indirect function).
 * The resolver asks mh_present(), which answers NULL if an MPI library is loaded and lacks the
 * call.
 *
 * The type of these symbols (GNU_IFUNC) is set when libmanyhands.so starts, not when it is built.
 * Every library that the program is linked with is relocated before libmanyhands.so. When such a
 * library binds eagerly to a symbol built as an indirect function, glibc prints "Relink ...", as
 * for MPICH's Fortran library under LD_BIND_NOW. Objects loaded later find libmanyhands.so
 * relocated. Limit: a weak reference in the program itself, or in a library that the program is
 * linked with, always sees the front's export. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi/front/front.h"
#include "mpi/front/library.h"

#define MH_ALWAYS(index, name)
#define MH_OBSERVE(index, name)
#define MH_SOMETIMES(index, name) void mh_presence_##index(void);
#include "front/exports.inc"
#undef MH_SOMETIMES

struct resolver {
  uint32_t call;
  mh_function function;
};

static const struct resolver resolvers[] = {
#define MH_SOMETIMES(index, name) {index, mh_presence_##index},
#include "front/exports.inc"
#undef MH_SOMETIMES
};

struct call_search {
  const char* profiling; /* "PMPI_Send_c" */
  bool library;          /* an MPI library is loaded */
  bool found;            /* an MPI library has the call */
};

static int look_for_call(struct dl_phdr_info* info, size_t bytes, void* data) {
  (void)bytes;
  struct call_search* search = data;
  const struct mh_object object = mh_object_of(info);
  if (mh_symbol(&object, MH_MPI_MARK) == NULL) return 0;
  search->library = true;
  search->found = mh_symbol(&object, search->profiling) != NULL;
  return search->found ? 1 : 0;
}

/* Called by the loader through mh_presence_N whenever it binds MPI_X. Returns `export`, or NULL if
 * the library lacks the call. */
const void* mh_present(uint32_t call, const void* export) {
  struct call_search search = {mh_names[call], false, false};
  dl_iterate_phdr(look_for_call, &search);
  return search.library && !search.found ? NULL : export;
}

static void make_indirect(const struct mh_object* front, const struct resolver* resolver) {
  ElfW(Sym)* symbol = (ElfW(Sym)*)mh_symbol(front, mh_names[resolver->call] + 1);
  symbol->st_value = (uintptr_t)resolver->function - front->base;
  symbol->st_info = (unsigned char)ELF64_ST_INFO(ELF64_ST_BIND(symbol->st_info), STT_GNU_IFUNC);
}

/* Makes the symbols of the calls new in MPI 4 indirect functions. Runs in every process (about ten
 * microseconds); in a process without MPI calls no other code of Manyhands runs. If the system does
 * not permit writing to the symbol table, the exports stay as they are. */
__attribute__((constructor)) static void offer_presence(void) {
  const struct mh_object front = mh_front();
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t low = UINTPTR_MAX, high = 0;
  const size_t count = sizeof resolvers / sizeof resolvers[0];
  for (size_t i = 0; i < count; ++i) {
    const ElfW(Sym)* symbol = mh_symbol(&front, mh_names[resolvers[i].call] + 1);
    if (symbol == NULL) return;
    if ((uintptr_t)symbol < low) low = (uintptr_t)symbol & -page;
    if ((uintptr_t)(symbol + 1) > high) high = (uintptr_t)(symbol + 1);
  }
  if (mprotect((void*)low, high - low, PROT_READ | PROT_WRITE) != 0) return;
  for (size_t i = 0; i < count; ++i) make_indirect(&front, &resolvers[i]);
  mprotect((void*)low, high - low, PROT_READ);
}
