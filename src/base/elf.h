/* SPDX-License-Identifier: BSD-3-Clause */
/* Loaded objects and the symbols they define, read from memory.
 *
 * dlsym() asks a scope and may answer with our own exports or run a resolver; here one object is
 * asked for what it defines itself. Allocates nothing, takes no lock, so it may be used inside
 * dl_iterate_phdr() and while the loader relocates. Local functions are not in memory: for their
 * names the object's file is read. Limits: 64-bit ELF; symbol versions are ignored, no MPI library
 * uses them for its functions. */
#ifndef MH_BASE_ELF_H
#define MH_BASE_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mh_object {
  uintptr_t base;
  const ElfW(Dyn) * dynamic; /* NULL: no object */
  const char* file;          /* "" for the program itself */
  const ElfW(Phdr) * parts;  /* of the file, as the loader has mapped them */
  int part_count;
};

struct mh_object mh_object_of(const struct dl_phdr_info* info);
/* The object that contains `address`; `dynamic` is NULL if there is none. */
struct mh_object mh_object_at(const void* address);
/* This library. */
struct mh_object mh_front(void);

/* The symbol as the object defines it, or NULL. */
const ElfW(Sym) * mh_symbol(const struct mh_object* object, const char* name);
void* mh_address(const struct mh_object* object, const char* name);
/* What the object imports: each place that the loader has filled, or will, with the address of the
 * function `name`. */
typedef void mh_import(const char* name, void** place, void* data);
void mh_imports(const struct mh_object* object, mh_import* each, void* data);
/* The name of the function that contains `address`, a local one too, from the object's file; cut to
 * `bytes`. A stripped file knows those that it exports. False: none, or the file cannot be read. */
bool mh_function_at(const struct mh_object* object, const void* address, char* name, size_t bytes);
/* DT_SONAME, or the last part of the file's name. */
const char* mh_soname(const struct mh_object* object);

#endif
