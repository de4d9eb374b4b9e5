// SPDX-License-Identifier: BSD-3-Clause
//
// Writes the observations of a rank in the error fuzzer, line by line (its trace), and stops runs
// that hang.
//
// A rank that has not finished a round for `timeout` seconds gets SIGALRM. The rank then prints its
// place (round, step and call) and waits a moment, so that the launcher does not end other ranks
// before their output.
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "errors.h"

enum { LINE = 400 };

static FILE* file;
static uint64_t hash;
static const char* const step_names[] = {STEPS(AS_NAME)};

const char* class_of(int code) {
  static const struct {
    int value;
    const char* name;
  } names[] = {
      {MPI_SUCCESS, "SUCCESS"},     {MPI_ERR_BUFFER, "BUFFER"},
      {MPI_ERR_COUNT, "COUNT"},     {MPI_ERR_TYPE, "TYPE"},
      {MPI_ERR_TAG, "TAG"},         {MPI_ERR_COMM, "COMM"},
      {MPI_ERR_RANK, "RANK"},       {MPI_ERR_REQUEST, "REQUEST"},
      {MPI_ERR_ROOT, "ROOT"},       {MPI_ERR_GROUP, "GROUP"},
      {MPI_ERR_OP, "OP"},           {MPI_ERR_TOPOLOGY, "TOPOLOGY"},
      {MPI_ERR_DIMS, "DIMS"},       {MPI_ERR_ARG, "ARG"},
      {MPI_ERR_UNKNOWN, "UNKNOWN"}, {MPI_ERR_TRUNCATE, "TRUNCATE"},
      {MPI_ERR_OTHER, "OTHER"},     {MPI_ERR_INTERN, "INTERN"},
      {MPI_ERR_PENDING, "PENDING"}, {MPI_ERR_IN_STATUS, "IN_STATUS"},
      {MPI_ERR_INFO, "INFO"},       {MPI_ERR_WIN, "WIN"},
      {MPI_ERR_DISP, "DISP"},       {MPI_ERR_SIZE, "SIZE"},
  };
  static char number[32];
  int class = code;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (names[i].value == class) return names[i].name;
  }
  snprintf(number, sizeof number, "class %d", class);
  return number;
}

static uint64_t hash_of(const char* line) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (; *line != 0; ++line) sum = (sum ^ (unsigned char)*line) * 0x100000001b3u;
  return mix64(sum);
}

void see(const char* format, ...) {
  char line[LINE];
  int head = snprintf(line, sizeof line, "round %d step %d %s: ", here.round, here.step,
                      step_names[here.kind]);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line + head, sizeof line - (size_t)head, format, arguments);
  va_end(arguments);
  hash += hash_of(line);
  if (file != NULL) fprintf(file, "%s\n", line);
}

void doing(const char* what) {
  snprintf(here.doing, sizeof here.doing, "%s", what);
  if (options.verbose && file != NULL && *what != 0) fprintf(file, "now: %s\n", what);
}

uint64_t trace_hash(void) { return hash; }

void trace_open(void) {
  if (options.trace == NULL) return;
  char name[4096];
  snprintf(name, sizeof name, "%s.%d", options.trace, here.rank);
  file = fopen(name, "w");
  if (file != NULL) setlinebuf(file);  // a crash loses no lines
}

void trace_close(void) {
  if (file != NULL) fclose(file);
  file = NULL;
}

static void say_place(const char* what) {
  char place[600];
  int size = snprintf(place, sizeof place,
                      "errors: %s: rank %d round %d step %d (%s): %s, %d pending\n"
                      "errors: repeat with --seed %llu --first-round %d --rounds 1, ranks %d\n",
                      what, here.rank, here.round, here.step, step_names[here.kind], here.doing,
                      op_pending(), (unsigned long long)options.seed, here.round, here.ranks);
  if (write(STDERR_FILENO, place, (size_t)size) < 0) _exit(87);
}

void give_up(const char* why) {
  say_place(why);
  MPI_Abort(MPI_COMM_WORLD, 88);
}

static void on_alarm(int signal_number) {
  (void)signal_number;
  say_place("nothing moves");
  sleep(2);
  _exit(86);
}

// Handles the signal of a crash: restores the signal's default action and prints the place of this
// rank (round, step and call). After the return the same instruction raises the signal again, which
// ends the process.
static void on_crash(int signal_number) {
  signal(signal_number, SIG_DFL);
  say_place("crashed");
}

void watch_start(void) {
  signal(SIGALRM, on_alarm);
  signal(SIGSEGV, on_crash);
  signal(SIGABRT, on_crash);
  watch_progress();
}

void watch_progress(void) { alarm((unsigned)options.timeout_s); }
