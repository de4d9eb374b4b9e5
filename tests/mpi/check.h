// SPDX-License-Identifier: BSD-3-Clause
// Shared by the conformance programs: checks that end the job, payloads, and the report "passed".
//
// A program tests one behaviour, which its name states. It runs plain and helped; plain is the
// reference. Rank 0 prints PASS when all ranks have reached the end, or SKIP and the reason. The
// head of a program has a line for each way to run it: `run: ranks 2 [KEY=VALUE ...]`.
#ifndef MH_TESTS_MPI_CHECK_H
#define MH_TESTS_MPI_CHECK_H

#include <execinfo.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  RTS_HEADER = 96,    // bytes of the RTS header of a large message
  THRESHOLD = 65536,  // bytes from which on messages go by rendezvous
  LARGE = 1000000,    // bytes, well above the threshold
  STUCK_SECONDS = 40,
  TAG = 5
};

static int rank, ranks;

// Handles SIGALRM after STUCK_SECONDS: prints the rank and the stack of the main thread, which gets
// the signal, and ends the process.
static inline void on_stuck(int number) {
  (void)number;
  char text[64];
  int length = snprintf(text, sizeof text, "rank %d is stuck\n", rank);
  if (write(STDERR_FILENO, text, (size_t)length) < 0) _exit(87);
  void* frames[32];
  backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
  sleep(1);
  _exit(86);
}

#define CHECK(condition, ...)                                                                 \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "rank %d: %s:%d: %s is false: ", rank, __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                                           \
      fprintf(stderr, "\n");                                                                  \
      MPI_Abort(MPI_COMM_WORLD, 3);                                                           \
    }                                                                                         \
  } while (0)

static inline void check_preloaded(void) {
  const char* preload = getenv("LD_PRELOAD");
  if (preload == NULL || strstr(preload, "libmanyhands") == NULL) return;
  const char* enable = getenv("MH_ENABLE");
  if (enable != NULL && strcmp(enable, "0") == 0) return;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  bool found = false;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    if (strstr(line, "libmanyhands-") != NULL) found = true;
  }
  if (maps != NULL) fclose(maps);
  CHECK(found, "no variant of the library is loaded though it is preloaded");
}

static struct timespec began;

static inline void begin_after_init(void) {
  clock_gettime(CLOCK_MONOTONIC, &began);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  signal(SIGALRM, on_stuck);
  alarm(STUCK_SECONDS);
  check_preloaded();
}

static inline void begin(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  begin_after_init();
}

// Starts MPI with MPI_THREAD_MULTIPLE. Returns false if the library does not provide it.
static inline bool begin_with_threads(int* argc, char*** argv) {
  int provided = 0;
  MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
  begin_after_init();
  return provided == MPI_THREAD_MULTIPLE;
}

// Returns whether the test has run for `seconds`. Collective over `comm`; rank 0's clock decides.
static inline bool is_late(MPI_Comm comm, int seconds) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int late = now.tv_sec - began.tv_sec >= seconds;
  MPI_Bcast(&late, 1, MPI_INT, 0, comm);
  return late;
}

static inline int wanted_threads(void) {
  const char* wanted = getenv("THREADS");
  return wanted != NULL ? atoi(wanted) : 8;
}

static inline int end(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0) printf("PASS\n");
  return 0;
}

static inline int skip(const char* why) {
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0) printf("SKIP %s\n", why);
  return 0;
}

// The eight bytes of a payload that begin at byte 8 * word.
static inline uint64_t word_of(int key, size_t word) {
  uint64_t x = (word + 1) * 0x9e3779b97f4a7c15u + (uint64_t)key * 0xbf58476d1ce4e5b9u;
  return (x ^ (x >> 29)) * 0x94d049bb133111ebu;
}

static inline unsigned char byte_of(int key, size_t at) {
  return (unsigned char)(word_of(key, at / 8) >> (at % 8 * 8));
}

// Fills `data` word by word, little-endian.
static inline void fill(void* data, size_t bytes, int key) {
  unsigned char* to = data;
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    const uint64_t word = word_of(key, at / 8);
    memcpy(to + at, &word, sizeof word);
  }
  for (size_t at = bytes / 8 * 8; at < bytes; ++at) to[at] = byte_of(key, at);
}

static inline unsigned char* filled(size_t bytes, int key) {
  unsigned char* data = malloc(bytes + 1);
  CHECK(data != NULL, "no memory for %zu bytes", bytes);
  fill(data, bytes, key);
  return data;
}

static inline unsigned char* blank(size_t bytes) {
  unsigned char* data = malloc(bytes + 1);
  CHECK(data != NULL, "no memory for %zu bytes", bytes);
  memset(data, 0xee, bytes + 1);
  return data;
}

static inline void check_bytes(const void* data, size_t bytes, int key, const char* what) {
  const unsigned char* from = data;
  size_t at = 0;
  for (uint64_t word; at + 8 <= bytes; at += 8) {
    memcpy(&word, from + at, sizeof word);
    if (word != word_of(key, at / 8)) break;
  }
  for (; at < bytes; ++at) {
    CHECK(from[at] == byte_of(key, at), "%s: byte %zu of %zu is %02x, not %02x", what, at, bytes,
          from[at], byte_of(key, at));
  }
}

static inline void check_blank(const void* data, size_t from, size_t to, const char* what) {
  for (size_t i = from; i < to; ++i) {
    CHECK(((const unsigned char*)data)[i] == 0xee, "%s: byte %zu was written", what, i);
  }
}

static inline void check_status(const MPI_Status* status, int source, int tag, int bytes) {
  int count = -1;
  MPI_Get_count(status, MPI_BYTE, &count);
  CHECK(status->MPI_SOURCE == source, "source %d, not %d", status->MPI_SOURCE, source);
  CHECK(status->MPI_TAG == tag, "tag %d, not %d", status->MPI_TAG, tag);
  CHECK(count == bytes, "count %d, not %d", count, bytes);
}

// Sleeps outside of MPI, so that helpers and other ranks can use this rank's core.
static inline void pass_time(double seconds) {
  const struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

static inline const char* library_version(void) {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

static inline bool is_open_mpi(void) { return strstr(library_version(), "Open MPI") != NULL; }

// Returns whether the library is MPICH 5, with either ABI. MPICH 5 may lose the error of a
// truncated receive from any source, and crashes when a persistent send is cancelled.
static inline bool is_mpich5(void) {
  const char* version = strstr(library_version(), "MPICH Version:");
  return version != NULL && strtol(version + strlen("MPICH Version:"), NULL, 10) >= 5;
}

static inline int class_of(int code) {
  int class = code;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
  return class;
}

#endif
