/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the MPI library that the program has loaded, and names its ABI.
 *
 * A process may have several MPI libraries (an interpreter that has looked at two installations).
 * The first of these rules that finds a library decides, for the whole process:
 *
 *   1. An object loaded late (a Python extension module) is bound within itself and its
 *      dependencies, in the order of DT_NEEDED: dlsym() on its handle gives the same answer.
 *   2. The program, and objects loaded with it, are bound in the global scope:
 *      dlsym(RTLD_DEFAULT).
 *   3. Otherwise (a preloaded tool calls PMPI_X for a module with a private MPI library) the MPI
 *      library that was loaded last is taken. */
#define _GNU_SOURCE
#include "mpi/front/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static struct mh_object no_object(void) {
  struct mh_object object = {0, NULL, "", NULL, 0};
  return object;
}

/* Rule 1: the MPI library to which the object with the address `caller` is bound. */
static struct mh_object needed_by(const void* caller) {
  const struct mh_object object = mh_object_at(caller);
  if (object.dynamic == NULL || object.file[0] == 0) return no_object();
  void* handle = dlopen(object.file, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == NULL) return no_object();
  const struct mh_object found = mh_object_at(dlsym(handle, MH_MPI_MARK));
  dlclose(handle);
  return found;
}

static int remember_last(struct dl_phdr_info* info, size_t bytes, void* last) {
  (void)bytes;
  const struct mh_object object = mh_object_of(info);
  if (mh_symbol(&object, MH_MPI_MARK) != NULL) *(struct mh_object*)last = object;
  return 0;
}

static struct mh_object find_object(const void* caller) {
  struct mh_object object = needed_by(caller);
  if (object.dynamic == NULL) object = mh_object_at(dlsym(RTLD_DEFAULT, MH_MPI_MARK));
  if (object.dynamic == NULL) dl_iterate_phdr(remember_last, &object);
  return object;
}

static bool starts_with(const char* text, const char* start) {
  return strncmp(text, start, strlen(start)) == 0;
}

static bool ends_with(const char* text, const char* end) {
  const size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* The library with the standard ABI; some builds keep PMPI_* in a separate library. */
static bool has_standard_name(const char* soname) {
  return starts_with(soname, "libmpi_abi") || starts_with(soname, "libpmpi_abi");
}

/* Libraries with the common ABI of the MPICH family. */
static bool is_of_mpich_family(const char* version) {
  return strstr(version, "MPICH") != NULL || strstr(version, "Intel(R) MPI") != NULL ||
         strstr(version, "MVAPICH") != NULL || strstr(version, "ParaStation MPI") != NULL;
}

static void read_version(struct mh_library* library) {
  static char text[8192]; /* no ABI has a larger MPI_MAX_LIBRARY_VERSION_STRING */
  int length = 0;
  union {
    void* address;
    int (*call)(char*, int*);
  } get = {mh_address(&library->object, MH_MPI_MARK)};
  if (get.call(text, &length) != 0) return;
  text[strcspn(text, "\n")] = 0;
  for (char* c = text; *c != 0; ++c) {
    if (*c == '\t') *c = ' ';
  }
  snprintf(library->version, sizeof library->version, "%.*s", (int)sizeof library->version - 1,
           text);
}

/* The number in a library's soname is that of its ABI: .so.12 is the common ABI of the MPICH
 * family, .so.40 that of Open MPI 3 and later. An MPI inside the program itself has no soname. */
static const char* name_abi(struct mh_library* library) {
  const char* soname = mh_soname(&library->object);
  const bool named = library->object.file[0] != 0;
  if (has_standard_name(soname)) return "abi";
  if (strstr(library->version, "Open MPI") != NULL) {
    if (!named || ends_with(soname, ".so.40")) return "openmpi";
    library->why_not = "an Open MPI without the ABI of versions 3 to 5";
  } else if (is_of_mpich_family(library->version)) {
    if (!named || ends_with(soname, ".so.12")) return "mpich";
    library->why_not = "an MPI of the MPICH family without the common ABI of that family";
  } else {
    library->why_not = "an unknown MPI";
  }
  return NULL;
}

void mh_library_find(const void* caller, struct mh_library* library) {
  memset(library, 0, sizeof *library);
  library->object = find_object(caller);
  if (library->object.dynamic == NULL) {
    library->object.file = "";
    library->why_not = "no MPI library is loaded";
    return;
  }
  /* The library must stay loaded, since the front and the variant keep addresses in the library. */
  if (library->object.file[0] != 0) {
    dlopen(library->object.file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
  read_version(library);
  library->abi = name_abi(library);
}

static mh_function as_function(void* address) {
  union {
    void* address;
    mh_function function;
  } both = {address};
  return both.function;
}

mh_function mh_library_function(const struct mh_library* library, const char* name) {
  char profiling[64];
  snprintf(profiling, sizeof profiling, "P%s", name);
  if (library->object.dynamic == NULL) return as_function(dlsym(RTLD_NEXT, profiling));
  return as_function(mh_address(&library->object, profiling));
}

mh_function mh_tool_function(const struct mh_library* library, const char* name) {
  void* address = dlsym(RTLD_NEXT, name);
  if (address == NULL) return NULL;
  const struct mh_object object = mh_object_at(address);
  if (object.dynamic == library->object.dynamic || mh_symbol(&object, MH_MPI_MARK) != NULL ||
      (object.dynamic != NULL && has_standard_name(mh_soname(&object)))) {
    return NULL;
  }
  return as_function(address);
}
