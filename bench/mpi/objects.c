// SPDX-License-Identifier: BSD-3-Clause
// The cost of making and freeing MPI's objects: communicators, groups, infos, topologies, windows,
// files and datatypes, by one thread of each rank or by several at a time. Each thread has its own
// communicator; a call makes an object and frees it. The program also measures a barrier and a
// reduction for comparison, since most calls that make objects contain collectives.
// Options, with their defaults in parentheses:
//   --threads N (1)   threads of a rank; more than one need MPI_THREAD_MULTIPLE
//   --multiple        asks for MPI_THREAD_MULTIPLE with one thread, too
//   --only NAME       one kind of object
//   --batches N (15)  number of batches   --batch-ms T (40)  length of a batch in ms
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"
#include "turns.h"

enum {
  kMostThreads = 64,
  kFirstCalls = 8,
  kMostCalls = 100000,
  kGrowth = 8,
  kRuns = 3,
  kWindow = 4096,
  kRoom = 256
};

// The arguments with which one thread makes and frees objects.
struct maker {
  pthread_t thread;
  MPI_Comm comm;
  MPI_Comm self;  // a communicator of this rank alone
  MPI_Group group;
  int rank, ranks, index;
  char path[kRoom];
  char memory[kWindow];
  const struct kind* kind;
  int calls;
};

struct kind {
  const char* name;
  void (*make)(struct maker*);
  int alone;  // 1: never by several threads at a time
};

static void barrier(struct maker* m) { MPI_Barrier(m->comm); }

static void reduction(struct maker* m) {
  int one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, m->comm);
  if (sum != m->ranks) fail("a reduction gave a wrong sum");
}

static void duplicate(struct maker* m) {
  MPI_Comm made;
  MPI_Comm_dup(m->comm, &made);
  MPI_Comm_free(&made);
}

static void idup(struct maker* m) {
  MPI_Comm made;
  MPI_Request request;
  MPI_Comm_idup(m->comm, &made, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&made);
}

static void dup_with_info(struct maker* m) {
  MPI_Comm made;
  MPI_Comm_dup_with_info(m->comm, MPI_INFO_NULL, &made);
  MPI_Comm_free(&made);
}

static void split(struct maker* m) {
  MPI_Comm made;
  MPI_Comm_split(m->comm, 0, m->rank, &made);
  MPI_Comm_free(&made);
}

static void split_alone(struct maker* m) {
  MPI_Comm made;
  MPI_Comm_split(m->comm, m->rank, 0, &made);
  MPI_Comm_free(&made);
}

static void split_type(struct maker* m) {
  MPI_Comm made;
  MPI_Comm_split_type(m->comm, MPI_COMM_TYPE_SHARED, m->rank, MPI_INFO_NULL, &made);
  MPI_Comm_free(&made);
}

static void create(struct maker* m) {
  MPI_Comm made;
  MPI_Comm_create(m->comm, m->group, &made);
  MPI_Comm_free(&made);
}

static void create_group(struct maker* m) {
  MPI_Comm made;
  MPI_Comm_create_group(m->comm, m->group, m->index, &made);
  MPI_Comm_free(&made);
}

static void intercomm(struct maker* m) {
  MPI_Comm made;
  MPI_Intercomm_create(m->self, 0, m->comm, 1 - m->rank, m->index, &made);
  MPI_Comm_free(&made);
}

static void group(struct maker* m) {
  MPI_Group all, some;
  const int first[] = {0};
  MPI_Comm_group(m->comm, &all);
  MPI_Group_incl(all, 1, first, &some);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
}

static void info(struct maker* m) {
  MPI_Info made, kept;
  MPI_Info_create(&made);
  MPI_Info_set(made, "mpi_assert_no_any_tag", "false");
  MPI_Comm_set_info(m->comm, made);
  MPI_Comm_get_info(m->comm, &kept);
  MPI_Info_free(&kept);
  MPI_Info_free(&made);
}

static void cart(struct maker* m) {
  MPI_Comm made;
  const int periodic[] = {1};
  MPI_Cart_create(m->comm, 1, &m->ranks, periodic, 0, &made);
  MPI_Comm_free(&made);
}

static void graph(struct maker* m) {
  MPI_Comm made;
  const int ends[] = {1, 2}, edges[] = {1, 0};
  MPI_Graph_create(m->comm, 2, ends, edges, 0, &made);
  MPI_Comm_free(&made);
}

static void dist_graph(struct maker* m) {
  MPI_Comm made;
  const int degree = 1, other = 1 - m->rank, weight = 1;
  MPI_Dist_graph_create(m->comm, 1, &m->rank, &degree, &other, &weight, MPI_INFO_NULL, 0, &made);
  MPI_Comm_free(&made);
}

static void dist_graph_adjacent(struct maker* m) {
  MPI_Comm made;
  const int other = 1 - m->rank, weight = 1;
  MPI_Dist_graph_create_adjacent(m->comm, 1, &other, &weight, 1, &other, &weight, MPI_INFO_NULL, 0,
                                 &made);
  MPI_Comm_free(&made);
}

static void vector(struct maker* m) {
  (void)m;
  MPI_Datatype made;
  MPI_Type_vector(16, 4, 8, MPI_DOUBLE, &made);
  MPI_Type_commit(&made);
  MPI_Type_free(&made);
}

static void structure(struct maker* m) {
  (void)m;
  MPI_Datatype made;
  const int lengths[] = {2, 3};
  const MPI_Aint places[] = {0, 32};
  const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE};
  MPI_Type_create_struct(2, lengths, places, types, &made);
  MPI_Type_commit(&made);
  MPI_Type_free(&made);
}

static void file(struct maker* m) {
  MPI_File made;
  const int how = MPI_MODE_CREATE | MPI_MODE_RDWR;
  if (MPI_File_open(m->comm, m->path, how, MPI_INFO_NULL, &made) != MPI_SUCCESS) {
    fail("a file cannot be opened");
  }
  MPI_File_close(&made);
}

static void window(struct maker* m) {
  MPI_Win made;
  MPI_Win_create(m->memory, kWindow, 1, MPI_INFO_NULL, m->comm, &made);
  MPI_Win_free(&made);
}

static void window_allocated(struct maker* m) {
  MPI_Win made;
  void* memory;
  MPI_Win_allocate(kWindow, 1, MPI_INFO_NULL, m->comm, &memory, &made);
  MPI_Win_free(&made);
}

// The kinds of objects, in the order of measuring. Files are opened by one thread of a rank only:
// MPICH 4 opens files under a lock of the process, so several threads would wait for each other
// forever. Intercommunicators come last, since the first one ends rendezvous and may thus change
// other times.
#define KIND(of) \
  { #of, of, 0 }
static const struct kind kKinds[] = {KIND(barrier),
                                     KIND(reduction),
                                     {"dup", duplicate, 0},
                                     KIND(idup),
                                     KIND(dup_with_info),
                                     KIND(split),
                                     {"split, alone", split_alone, 0},
                                     KIND(split_type),
                                     KIND(create),
                                     KIND(create_group),
                                     KIND(group),
                                     KIND(info),
                                     KIND(cart),
                                     KIND(graph),
                                     KIND(dist_graph),
                                     KIND(dist_graph_adjacent),
                                     KIND(vector),
                                     {"struct", structure, 0},
                                     {"file", file, 1},
                                     {"win_create", window, 0},
                                     {"win_allocate", window_allocated, 0},
                                     KIND(intercomm)};
enum { kCount = sizeof kKinds / sizeof kKinds[0] };

struct options {
  const char* only;
  int threads, multiple, batches;
  double batch_ms;
};

static struct maker makers[kMostThreads];

static void* work(void* argument) {
  struct maker* m = argument;
  for (int i = 0; i < m->calls; i++) m->kind->make(m);
  return NULL;
}

// Returns the time in ns in which each of the `threads` threads of this rank makes and frees
// `calls` objects.
static double run(const struct kind* kind, int threads, int calls) {
  for (int i = 0; i < threads; i++) {
    makers[i].kind = kind;
    makers[i].calls = calls;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_ns();
  for (int i = 1; i < threads; i++) {
    if (pthread_create(&makers[i].thread, NULL, work, &makers[i]) != 0) fail("no more threads");
  }
  work(&makers[0]);
  for (int i = 1; i < threads; i++) pthread_join(makers[i].thread, NULL);
  return now_ns() - start;
}

// Returns the number of objects for which a batch takes `batch_ms`. The number grows step by step,
// since most of the time of a small batch is the start of the threads. Each step takes the fastest
// of several runs, since a thread that loses its core for a time slice waits for as long as a
// thousand calls take.
static int calls_for(const struct kind* kind, int threads, double batch_ms) {
  int calls = kFirstCalls;
  for (int enough = 0; !enough;) {
    double least = run(kind, threads, calls);
    for (int i = 1; i < kRuns; i++) least = fmin(least, run(kind, threads, calls));
    const double part = least / (batch_ms * 1e6);
    enough = part > 0.5 || calls > kMostCalls;
    calls = (int)(calls * (part > 0.125 ? 1 / part : kGrowth)) + 1;
    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  return calls;
}

static void measure(const struct kind* kind, const struct options* o, int rank) {
  struct samples s = samples_new(o->batches, 0);
  const int calls = calls_for(kind, o->threads, o->batch_ms);
  for (int b = 0; b < o->batches; b++) {
    turns_next();
    s.mean[b] = run(kind, o->threads, calls) / calls;
  }
  if (rank == 0) {
    printf("{\"kind\": \"object\", \"name\": \"%s\", \"threads\": %d, ", kind->name, o->threads);
    printf("\"multiple\": %s, \"calls\": %d, ", o->multiple ? "true" : "false", calls);
    print_samples(&s);
    printf("}\n");
    fflush(stdout);
  }
  samples_free(&s);
}

static void begin(int rank, int ranks, int threads) {
  const char* folder = getenv("TMPDIR");
  int id = (int)getpid();
  MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < threads; i++) {
    struct maker* m = &makers[i];
    m->rank = rank;
    m->ranks = ranks;
    m->index = i;
    MPI_Comm_dup(MPI_COMM_WORLD, &m->comm);
    MPI_Comm_dup(MPI_COMM_SELF, &m->self);
    MPI_Comm_group(m->comm, &m->group);
    folder = folder != NULL ? folder : "/tmp";
    snprintf(m->path, sizeof m->path, "%s/mh-bench-objects-%d-%d", folder, id, i);
  }
}

static void end(int threads) {
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < threads; i++) {
    if (makers[i].rank == 0) unlink(makers[i].path);
    MPI_Group_free(&makers[i].group);
    MPI_Comm_free(&makers[i].self);
    MPI_Comm_free(&makers[i].comm);
  }
}

// Returns whether the argument --multiple is given. MPI_Init_thread() needs the answer, and
// parse_options() can run only after it.
static int wants_multiple(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--multiple") == 0) return 1;
  }
  return 0;
}

static struct options parse(int argc, char** argv, int provided) {
  struct options o = {.threads = 1, .batches = 15, .batch_ms = 40};
  const struct option_to options[] = {
      {"threads", kNumber, &o.threads}, {"multiple", kFlag, &o.multiple}, {"only", kText, &o.only},
      {"batches", kNumber, &o.batches}, {"batch-ms", kReal, &o.batch_ms}, {0}};
  parse_options("objects", argc, argv, options);
  if (o.batches < 1 || o.threads < 1 || o.threads > kMostThreads)
    fail("--batches, --threads: out of range");
  if (o.threads > 1 && !o.multiple) fail("--threads needs --multiple");
  if (o.multiple && provided != MPI_THREAD_MULTIPLE) fail("this MPI has no MPI_THREAD_MULTIPLE");
  return o;
}

int main(int argc, char** argv) {
  int rank, ranks, provided;
  const int wanted = wants_multiple(argc, argv) ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct options o = parse(argc, argv, provided);
  print_config("objects", argc, argv);
  if (ranks != 2) fail("needs two ranks");
  begin(rank, ranks, o.threads);
  turns_begin(rank);
  for (int i = 0; i < kCount; i++) {
    if (o.only != NULL && strcmp(o.only, kKinds[i].name) != 0) continue;
    if (kKinds[i].alone && o.threads > 1) continue;
    measure(&kKinds[i], &o, rank);
  }
  turns_end();
  end(o.threads);
  MPI_Finalize();
  return 0;
}
