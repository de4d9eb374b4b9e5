// SPDX-License-Identifier: BSD-3-Clause
// The common part of the benchmark programs. See measure.h.
#define _GNU_SOURCE
#include "measure.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { kMaxOptions = 16 };

double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void fail(const char* what) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fprintf(stderr, "bench: rank %d: %s\n", rank, what);
  fflush(NULL);
  // Some launchers lose output that a rank writes just before an abort, and none reports when it
  // has delivered the output. Therefore the rank sleeps before it aborts.
  usleep(300000);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

void* buffer_new(size_t bytes, unsigned char fill) {
  void* buffer = NULL;
  if (posix_memalign(&buffer, 4096, bytes) != 0) fail("not enough memory for the buffers");
  memset(buffer, fill, bytes);
  return buffer;
}

void buffer_free(void* buffer) { free(buffer); }

uint64_t touch_low_to_high(const void* buffer, size_t bytes) {
  const uint64_t* word = buffer;
  const size_t words = bytes / sizeof *word;
  uint64_t sum = 0;
  for (size_t i = 0; i < words; i++) sum += word[i];
  // An empty assembler statement uses the sum, so that the compiler keeps the loop above.
  __asm__ volatile("" : : "r"(sum) : "memory");
  return sum;
}

size_t parse_bytes(const char* text) {
  char* end;
  size_t value = strtoull(text, &end, 10);
  if (end == text) fail("a size must start with a number, for example 64K");
  if (*end == 'K') value <<= 10, end++;
  if (*end == 'M') value <<= 20, end++;
  if (*end != '\0' && *end != ',') fail("a size may end in K or M only, for example 64K or 8M");
  return value;
}

struct sizes parse_sizes(const char* text) {
  struct sizes list = {0, {0}};
  for (const char* at = text; at != NULL; at = strchr(at, ',')) {
    if (*at == ',') at++;
    if (list.count == kMaxSizes) fail("too many sizes");
    list.bytes[list.count++] = parse_bytes(at);
  }
  return list;
}

static void set_number(const char* text, const struct option_to* option) {
  char* end;
  if (option->kind == kNumber) {
    *(int*)option->to = (int)strtol(text, &end, 10);
  } else {
    *(double*)option->to = strtod(text, &end);
  }
  if (end == text || *end != '\0') {
    fprintf(stderr, "bench: --%s takes a number, not '%s'\n", option->name, text);
    fail("a wrong argument");
  }
}

static void set_option(const char* text, const struct option_to* option) {
  switch (option->kind) {
    case kNumber:
    case kReal:
      set_number(text, option);
      break;
    case kBytes:
      *(size_t*)option->to = parse_bytes(text);
      break;
    case kSizes:
      *(struct sizes*)option->to = parse_sizes(text);
      break;
    case kText:
      *(const char**)option->to = text;
      break;
    case kFlag:
      *(int*)option->to = 1;
      break;
  }
}

void parse_options(const char* program, int argc, char** argv, const struct option_to* options) {
  struct option all[kMaxOptions + 1] = {{0}};
  for (int i = 0; options[i].name != NULL && i < kMaxOptions; i++) {
    all[i].name = options[i].name;
    all[i].has_arg = options[i].kind == kFlag ? no_argument : required_argument;
  }
  int which = 0;
  for (int found; (found = getopt_long(argc, argv, "", all, &which)) != -1;) {
    if (found == '?') {
      fprintf(stderr, "bench: the head of %s.c lists the options\n", program);
      fail("an unknown option");
    }
    set_option(optarg, &options[which]);
  }
}

struct samples samples_new(int batches, int timed_calls) {
  const size_t bytes = (size_t)batches * sizeof(double);
  struct samples s = {batches, malloc(bytes), NULL, NULL};
  if (timed_calls) {
    s.min = malloc(bytes);
    s.median = malloc(bytes);
  }
  if (s.mean == NULL || (timed_calls && (s.min == NULL || s.median == NULL))) fail("out of memory");
  return s;
}

void samples_free(struct samples* s) {
  free(s->mean);
  free(s->min);
  free(s->median);
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

void samples_store(struct samples* s, int i, double* each, int calls) {
  double sum = 0;
  for (int c = 0; c < calls; c++) sum += each[c];
  qsort(each, (size_t)calls, sizeof *each, ascending);
  s->mean[i] = sum / calls;
  s->min[i] = each[0];
  s->median[i] = (each[(calls - 1) / 2] + each[calls / 2]) / 2;
}

// Writes the CPUs on which this process may run (its affinity) to `out`, as a list like "0-3,8".
static void cpu_list(char* out, size_t room) {
  cpu_set_t set;
  out[0] = '\0';
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  size_t used = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && used + 16 < room; cpu++) {
    if (!CPU_ISSET(cpu, &set)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) last++;
    const char* comma = used == 0 ? "" : ",";
    used += (size_t)(last == cpu ? snprintf(out + used, room - used, "%s%d", comma, cpu)
                                 : snprintf(out + used, room - used, "%s%d-%d", comma, cpu, last));
    cpu = last;
  }
}

static void print_text(const char* text) {
  putchar('"');
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar((unsigned char)*text < ' ' ? ' ' : *text);
  }
  putchar('"');
}

void print_config(const char* program, int argc, char** argv) {
  enum { kRoom = 192 };
  struct {
    char host[64], cpus[kRoom];
  } mine, *all = NULL;
  int rank, ranks, length;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  memset(&mine, 0, sizeof mine);
  gethostname(mine.host, sizeof mine.host - 1);
  cpu_list(mine.cpus, sizeof mine.cpus);
  if (rank == 0) all = malloc((size_t)ranks * sizeof mine);
  MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0) return;

  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Get_library_version(library, &length);
  library[strcspn(library, "\n")] = '\0';
  printf("{\"kind\": \"config\", \"program\": \"%s\", \"ranks\": %d, \"mpi\": ", program, ranks);
  print_text(library);
  printf(", \"arguments\": [");
  for (int i = 1; i < argc; i++) {
    printf(i == 1 ? "" : ", ");
    print_text(argv[i]);
  }
  printf("], \"hosts\": [");
  for (int i = 0; i < ranks; i++) {
    printf(i == 0 ? "" : ", ");
    print_text(all[i].host);
  }
  printf("], \"cpus\": [");
  for (int i = 0; i < ranks; i++) {
    printf(i == 0 ? "" : ", ");
    print_text(all[i].cpus);
  }
  printf("]}\n");
  fflush(stdout);
  free(all);
}

void print_values(const char* name, const double* values, int count) {
  printf("\"%s\": [", name);
  for (int i = 0; i < count; i++) printf("%s%.6g", i == 0 ? "" : ", ", values[i]);
  printf("]");
}

void print_samples(const struct samples* s) {
  print_values("mean_ns", s->mean, s->batches);
  if (s->min == NULL) return;
  printf(", ");
  print_values("min_ns", s->min, s->batches);
  printf(", ");
  print_values("median_ns", s->median, s->batches);
}

void memcpy_rate(MPI_Comm team, size_t bytes, int batches, double* rate) {
  enum { kBatchNs = 1500000 };
  char* from = buffer_new(bytes, 1);
  char* to = buffer_new(bytes, 2);
  int calls = 1;
  int agreed;
  // Each rank computes how many copies fill a batch. The ranks then agree on the largest number, so
  // that all copy for about the same time.
  double start = now_ns();
  memcpy(to, from, bytes);
  memcpy(to, from, bytes);
  const double once = (now_ns() - start) / 2;
  if (once * 2 < kBatchNs) calls = (int)(kBatchNs / (once + 1)) + 1;
  MPI_Allreduce(&calls, &agreed, 1, MPI_INT, MPI_MAX, team);
  for (int b = 0; b < batches; b++) {
    MPI_Barrier(team);
    start = now_ns();
    for (int c = 0; c < agreed; c++) {
      memcpy(to, from, bytes);
      __asm__ volatile("" : : "r"(to) : "memory");
    }
    const double mine = (double)bytes * agreed / (now_ns() - start);
    MPI_Reduce(&mine, &rate[b], 1, MPI_DOUBLE, MPI_SUM, 0, team);
  }
  buffer_free(from);
  buffer_free(to);
}
