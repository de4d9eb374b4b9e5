/* SPDX-License-Identifier: BSD-3-Clause */
/* The first MPI call of a process: finds the MPI library, opens the variant for its ABI, and fills
 * the jump slots (exports.S).
 *
 * Nothing happens before that call (except in resolvers.c), so a process without MPI pays only for
 * the mapping of libmanyhands.so. The MPI library may be unknown, or the variant missing or of
 * another build. In these cases one line on stderr says why, and the calls go straight to the
 * library: the program runs as without Manyhands. Pure C, because libmanyhands.so is mapped into
 * every process of an MPI job and must not bring a C++ run time. Thread-safe: the first caller
 * initialises, other threads wait.
 *
 * Calls that the library makes to its own exported names (ROMIO sends with PMPI_Isend) reach the
 * front like calls of the program. The library does so on all ranks, so Manyhands helps with such
 * messages, too. */
#define _GNU_SOURCE
#include "mpi/front/front.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpi/front/library.h"

const char mh_names[MH_CALLS][40] = {
#define MH_ALWAYS(index, name) "PMPI_" #name,
#define MH_SOMETIMES MH_ALWAYS
#define MH_OBSERVE MH_ALWAYS
#include "front/exports.inc"
#undef MH_ALWAYS
#undef MH_SOMETIMES
#undef MH_OBSERVE
};

#define MH_ALWAYS(index, name)
#define MH_SOMETIMES(index, name)
#define MH_OBSERVE(index, name) void mh_watched_##index(void);
#include "front/exports.inc"
#undef MH_OBSERVE

/* The stub in exports.S that calls the variant's watcher of call `call`, or NULL. */
static mh_function watched_stub(uint32_t call) {
  switch (call) {
#define MH_OBSERVE(index, name) \
  case index:                   \
    return mh_watched_##index;
#include "front/exports.inc"
#undef MH_OBSERVE
    default:
      return NULL;
  }
}

/* Written by the thread that initialises, before `state` becomes READY (release). Other threads
 * read these objects after they have seen READY (acquire), or after they have jumped through a jump
 * slot that was published later. refill_table() (entry.hpp) writes `from_variant` again.
 * `said_missing` is atomic: each message is printed once. */
static struct mh_library library;
static struct mh_chain chain;
static mh_function from_variant[3][MH_CALLS]; /* MPI_X, PMPI_X, watchers */
static struct mh_table table = {
    MH_CALLS, 1, from_variant[0], from_variant[1], from_variant[2], NULL, NULL, NULL};
static mh_function after_watcher[MH_CALLS];
static bool lacks[MH_CALLS];
static bool said_missing[MH_CALLS];
static char folder[4096];

enum { FRESH, BUSY, READY };
static int state = FRESH;
static pthread_t initialiser; /* valid while BUSY; identifies calls that initialise() causes */

/* True if this process prints messages: the rank that the launcher numbers 0 on the node, or
 * without a launcher every rank. */
static bool speaks_for_node(void) {
  static const char* const keys[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                     "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID",
                                     "SLURM_LOCALID"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; ++i) {
    const char* value = getenv(keys[i]);
    if (value != NULL) return strcmp(value, "0") == 0;
  }
  return true;
}

__attribute__((format(printf, 1, 2))) static void say(const char* format, ...) {
  if (!speaks_for_node()) return;
  char line[1024] = "manyhands: ";
  const size_t head = strlen(line);
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line + head, sizeof line - head - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  const size_t end = strlen(line); /* the bound of vsnprintf leaves room for this newline */
  line[end] = '\n';
  if (write(STDERR_FILENO, line, end + 1) < 0) return; /* a failed write cannot be reported */
}

static mh_function find_real(const char* name) { return mh_library_function(&library, name); }

static mh_function find_next(const char* name) {
  const mh_function tool = mh_tool_function(&library, name);
  return tool != NULL ? tool : find_real(name);
}

static mh_function find_function(const char* name, enum mh_layer layer) {
  return layer == MH_NEXT ? find_next(name) : find_real(name);
}

/* The address of a data object of the library, or NULL. The global symbol comes first: an
 * executable that is not position-independent has its own copy of the library's data (a copy
 * relocation), which the library uses, too. */
static void* find_data(const char* name) {
  void* seen = dlsym(RTLD_DEFAULT, name);
  return seen != NULL ? seen : mh_address(&library.object, name);
}

static bool tool_follows(void) {
  for (uint32_t i = 0; i < MH_CALLS; ++i) {
    if (mh_tool_function(&library, mh_names[i] + 1) != NULL) return true;
  }
  return false;
}

static int is_set(const char* name) {
  const char* value = getenv(name);
  return value != NULL && *value != 0;
}

/* True with MH_ENABLE=0: the variant is not opened. A profile or a trace of such a run needs the
 * variant all the same; its wrappers then pass every call on. */
static bool switched_off(void) {
  const char* value = getenv("MH_ENABLE");
  const int is_watched = is_set("MH_PROFILE") || is_set("MH_TRACE");
  return value != NULL && strcmp(value, "0") == 0 && !is_watched;
}

/* Writes to `file` the full path of the file that is mapped at `address`, as the kernel reports it.
 * The loader reports a relative path of LD_PRELOAD as given, which is of no use after the program
 * has changed its working directory. */
static void mapped_file(uintptr_t address, char* file) {
  char line[sizeof folder + 128];
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return;
  while (fgets(line, sizeof line, maps) != NULL) {
    uintptr_t low = 0, high = 0;
    int start = 0;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &low, &high, &start) < 2)
      continue;
    if (address < low || address >= high || line[start] != '/') continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(file, sizeof folder, "%s", line + start);
    break;
  }
  fclose(maps);
}

/* Sets `folder` to the folder of libmanyhands.so, with links resolved. The variants lie in the same
 * folder. */
static void find_folder(void) {
  char file[sizeof folder];
  snprintf(file, sizeof file, "%s", mh_front().file);
  if (file[0] != '/') mapped_file((uintptr_t)mh_names, file);
  if (realpath(file, folder) == NULL) snprintf(folder, sizeof folder, "%s", file);
  char* slash = strrchr(folder, '/');
  if (slash != NULL) *slash = 0;
}

static void publish_slot(mh_function* slot, mh_function function) {
  /* release: a thread that jumps through the jump slot sees what the variant wrote before. The
   * partner is the plain load of the jump, which suffices on x86-64. */
  if (function != NULL) __atomic_store_n(slot, function, __ATOMIC_RELEASE);
}

/* Publishes the two jump slots of a call. `helped`: the variant has accepted, so its entries are
 * used. */
static void fill_slot(uint32_t call, bool helped) {
  const char* name = mh_names[call] + 1;
  const mh_function real = find_real(name);
  const mh_function next = find_next(name);
  lacks[call] = real == NULL && next == NULL;
  if (lacks[call]) return;
  if (helped && from_variant[2][call] != NULL) {
    after_watcher[call] = next;
    publish_slot(&mh_mpi_jumps[call], watched_stub(call));
    publish_slot(&mh_pmpi_jumps[call], chain.guarded ? real : watched_stub(call));
  } else if (helped && from_variant[0][call] != NULL && real != NULL) {
    publish_slot(&mh_mpi_jumps[call], from_variant[0][call]);
    publish_slot(&mh_pmpi_jumps[call], from_variant[1][call]);
  } else {
    publish_slot(&mh_mpi_jumps[call], next);
    publish_slot(&mh_pmpi_jumps[call], real);
  }
}

static void publish_table(void) {
  for (uint32_t i = 0; i < MH_CALLS; ++i) fill_slot(i, true);
}

static void describe_chain(void) {
  chain.layout = MH_FRONT_LAYOUT;
  chain.bytes = sizeof chain;
  chain.fingerprint = MH_TABLE_FINGERPRINT;
  chain.calls = MH_CALLS;
  chain.guarded = tool_follows();
  chain.find = find_function;
  chain.data = find_data;
  chain.publish = publish_table;
}

/* Opens the variant and lets it fill the table. Returns false after a message with the cause; the
 * program then runs without help. */
static bool open_variant(void) {
  char file[sizeof folder + 64];
  find_folder();
  snprintf(file, sizeof file, "%s/libmanyhands-%s.so", folder, library.abi);
  void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == NULL) {
    say("the program runs without help: %s; put the variants beside libmanyhands.so", dlerror());
    return false;
  }
  union {
    void* address;
    int (*call)(const struct mh_chain*, struct mh_table*);
  } open = {dlsym(handle, "mh_variant_open")};
  describe_chain();
  const int answer = open.call != NULL ? open.call(&chain, &table) : MH_REFUSED_BUILD;
  if (answer == MH_REFUSED_BUILD) {
    say("the program runs without help: %s and libmanyhands.so are from different builds; "
        "reinstall both",
        file);
  } else if (answer == MH_REFUSED_LIBRARY) {
    say("the program runs without help: %s lacks functions that every MPI of its kind has; report "
        "this with its version (%s)",
        library.object.file, library.version);
  }
  return answer == MH_ACCEPTED;
}

static bool try_to_help(void) {
  if (switched_off()) return false;
  if (library.abi == NULL) {
    say("the program runs without help: %s (%s %s); Manyhands supports MPICH and its family, Open "
        "MPI, and the standard ABI",
        library.why_not, library.object.file, library.version);
    return false;
  }
  return open_variant();
}

static void initialise(const void* caller) {
  const int saved = errno;
  mh_library_find(caller, &library);
  const bool helped = try_to_help();
  for (uint32_t i = 0; i < MH_CALLS; ++i) fill_slot(i, helped);
  errno = saved;
}

static void initialise_once(const void* caller) {
  int seen = FRESH;
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == READY) return;
  if (__atomic_compare_exchange_n(&state, &seen, BUSY, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    __atomic_store_n(&initialiser, pthread_self(), __ATOMIC_RELAXED);
    initialise(caller);
    __atomic_store_n(&state, READY, __ATOMIC_RELEASE);
    return;
  }
  while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != READY) {
    /* An MPI call that initialise() itself causes (in a library's start-up code) must not wait.
     * relaxed: this thread reads its own store, or a value that is not its own thread id. */
    if (__atomic_load_n(&initialiser, __ATOMIC_RELAXED) == pthread_self()) return;
    const struct timespec pause = {0, 50000};
    nanosleep(&pause, NULL);
  }
}

static int return_unsupported(void) { return table.unsupported; }

static mh_function function_for_missing(uint32_t call) {
  if (!__atomic_exchange_n(&said_missing[call], true, __ATOMIC_RELAXED)) {
    say("%s is called, but this MPI (%s) does not have it; the call returns an error",
        mh_names[call] + 1, library.version);
  }
  return (mh_function)return_unsupported;
}

mh_function mh_resolve(uint32_t slot, const void* caller) {
  const uint32_t call = slot / 2;
  initialise_once(caller);
  if (lacks[call]) return function_for_missing(call);
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != READY) {
    const mh_function real = find_real(mh_names[call] + 1);
    return real != NULL ? real : function_for_missing(call);
  }
  mh_function* slots = slot % 2 == 0 ? mh_mpi_jumps : mh_pmpi_jumps;
  return __atomic_load_n(&slots[call], __ATOMIC_ACQUIRE);
}

mh_function mh_watch(uint32_t slot, intptr_t first) {
  const uint32_t call = slot / 2;
  void (*watcher)(int) = (void (*)(int))from_variant[2][call];
  watcher((int)first);
  return after_watcher[call];
}

/* Called by task libraries: returns the functions of base/idle_work.h, or NULL if Manyhands does
 * not help or has another version of them. */
__attribute__((visibility("default"))) const struct mh_idle_work* __mh_idle_work(uint32_t version) {
  if (version != MH_IDLE_WORK_VERSION) return NULL;
  return __atomic_load_n(&table.idle_work, __ATOMIC_ACQUIRE);
}

/* Called by programs for `ws critical`, and for `ws atomic` on data that no atomic instruction
 * updates: between __mh_ws_lock() and __mh_ws_unlock() is one thread at a time among all ranks of
 * the node. Where Manyhands does not help, the functions do nothing, and the code that the compiler
 * has generated excludes other threads of the process. */
static void lock_or_unlock(uint64_t name, int begins) {
  const mh_locker lock = __atomic_load_n(&table.lock, __ATOMIC_ACQUIRE);
  if (lock != NULL) lock(name, begins);
}
__attribute__((visibility("default"))) void __mh_ws_lock(uint64_t name) { lock_or_unlock(name, 1); }
__attribute__((visibility("default"))) void __mh_ws_unlock(uint64_t name) {
  lock_or_unlock(name, 0);
}

/* Called by programs before a marked loop (#pragma ws): returns the number of threads for the loop.
 * 1: the loop runs serially. */
__attribute__((visibility("default"))) int __mh_ws_mark(int schedule, long chunk,
                                                        int steal_schedule, long steal_chunk) {
  const mh_marker mark = __atomic_load_n(&table.mark, __ATOMIC_ACQUIRE);
  return mark != NULL ? mark(schedule, chunk, steal_schedule, steal_chunk) : 1;
}
