/* SPDX-License-Identifier: BSD-3-Clause */
/* Loaded objects and the symbols they define, read from memory.
 *
 * dlsym() searches a scope, and may return our own exports or run a resolver; these functions
 * search the definitions of a single object. They allocate nothing and take no lock, so they may
 * run inside dl_iterate_phdr() and during relocation. Names of local functions are not in memory
 * and are read from the object's file.
 *
 * Threads: any. Limits: 64-bit ELF; symbol versions are ignored (no MPI library uses them for its
 * functions). */
#ifndef MH_BASE_ELF_H
#define MH_BASE_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mh_object {
  uintptr_t base;
  const ElfW(Dyn) * dynamic; /* NULL: there is no object */
  const char* file;          /* "" for the program itself */
  const ElfW(Phdr) * parts;  /* program headers, as the loader has mapped the file */
  int part_count;
};

struct mh_object mh_object_of(const struct dl_phdr_info* info);
/* The object that contains `address`; `dynamic` is NULL if no object does. */
struct mh_object mh_object_at(const void* address);
/* The object that contains this code. */
struct mh_object mh_front(void);

/* The object's own definition of the symbol, or NULL. */
const ElfW(Sym) * mh_symbol(const struct mh_object* object, const char* name);
void* mh_address(const struct mh_object* object, const char* name);
/* Calls `each` for every imported function: the loader writes the function's address to `place`. */
typedef void mh_import(const char* name, void** place, void* data);
void mh_imports(const struct mh_object* object, mh_import* each, void* data);
/* Copies the name of the function (local or not) that contains `address`, cut to `bytes`, from the
 * object's file. A stripped file contains the names of exported functions only. False: no such
 * function, or the file cannot be read. */
bool mh_function_at(const struct mh_object* object, const void* address, char* name, size_t bytes);
/* DT_SONAME, or the last component of the file's name. */
const char* mh_soname(const struct mh_object* object);

#endif
