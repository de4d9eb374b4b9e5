// SPDX-License-Identifier: BSD-3-Clause
//
// The words shared by the parts of the error fuzzer: random programs that also do what is wrong or
// unusual, under handlers that return.
//
// As in the fuzzer beside it, every rank computes the same plan from a seed. A round is a list of
// *steps*; each step draws all its decisions from a generator of its own, on every rank alike, so a
// rank that takes no part needs not know what the others do. All ranks walk through the steps in
// one order, receives are posted and sends are started in that order, and a call that blocks asks
// only for what lies at or before its step: so no rank waits for a rank that waits for it. An *op*
// is a request that was started and will be completed at some later step, in any way MPI offers.
//
// What a rank sees goes into its *trace*, line by line: each call's error class, each status, what
// happened to handles and contents. A trace depends on the seed and on the MPI library, and must
// not depend on what stands in front of that library. Within a round the order of lines has no
// meaning. What a program cannot rely on is not in the trace: the contents of a truncated receive,
// for one.
#ifndef MH_TESTS_ERRORS_H
#define MH_TESTS_ERRORS_H

#include "../layout.h"

// ---- the run -----------------------------------------------------------------------------------

typedef struct {
  uint64_t seed;
  int first_round, rounds;
  int steps;          // of a round
  int only;           // one kind of step, or -1
  int timeout_s;      // without a finished round
  const char* trace;  // files TRACE.RANK, or null
  bool verbose;
} Options;
extern Options options;

// clang-format off
#define STEPS(X) X(BURST) X(BAD_CALL) X(COLLECTIVE) X(NOBODY) X(PERSISTENT) X(CANCEL) X(FREED)     \
  X(RACE) X(PROBED) X(COMMUNICATOR) X(COMPLETE)
#define AS_ENUM(name) STEP_##name,
#define AS_NAME(name) #name,
// clang-format on
typedef enum { STEPS(AS_ENUM) STEP_COUNT } StepKind;

// Communicators of every round. Errors on HANDLED go to a handler of the program, which notes them.
typedef enum { BASE, HANDLED, REVERSED, RACES, ALONE, COMMS } CommKind;

typedef struct {
  int rank, ranks;
  int round, step;
  StepKind kind;
  char doing[80];
  MPI_Comm comm[COMMS];
  MPI_Errhandler noting;
  bool blocking;  // in a blocking receive
  Rng local;      // decisions that are this rank's alone
} Here;
extern Here here;

int rank_in(CommKind comm, int rank);  // the rank there of a rank of BASE

// ---- trace.c -----------------------------------------------------------------------------------

void see(const char* format, ...) __attribute__((format(printf, 1, 2)));
void doing(const char* what);  // for the watchdog, and with --verbose in the trace
const char* class_of(int code);
void trace_open(void);
void trace_close(void);
void give_up(const char* why);  // says where this rank is, and ends the job
uint64_t trace_hash(void);      // of all lines so far, whatever their order within a round
void watch_start(void);
void watch_progress(void);

// ---- left_out.c --------------------------------------------------------------------------------

bool left_out(const char* what);

// ---- ops.c -------------------------------------------------------------------------------------

typedef struct {
  char name[80];
  bool send, persistent, cancelled, unsure;  // unsure: of what the status says, nothing is seen
  bool short_of_room;
  MPI_Request request;
  Layout* layout;
  size_t items;
  Buffer buffer;
  uint64_t id;
  size_t bytes;  // of the message
} Op;

typedef struct {
  size_t elements;
  int element;
  uint64_t send_layout, recv_layout;
  uint64_t id;
  size_t room;    // elements the receive has room for, about
  bool too_long;  // room is less than elements
} Content;

size_t pick_bytes(Rng* rng);
Content content_make(Rng* rng, bool may_be_too_long);
Content content_of(Rng* rng, size_t bytes);  // with enough room
Op* op_send(const Content* content, const char* format, ...) __attribute__((format(printf, 2, 3)));
Op* op_recv(const Content* content, const char* format, ...) __attribute__((format(printf, 2, 3)));
void op_over(Op* op, int code, const MPI_Status* status);  // sees how it ended, and frees it
void op_free(Op* op);
void op_pend(Op* op);
int op_pending(void);
void complete_some(int most);
void complete_all(void);
MPI_Request inactive(MPI_Comm comm, void* buffer, int count);  // persistent, and never started
// One request to its end; its class and status are seen under this name.
void finish(const char* name, MPI_Request* request);
// Tells another rank of BASE a number, or is told one, on a tag that nobody else uses.
int agree(int from, int to, int value);
void jitter(void);

// ---- steps -------------------------------------------------------------------------------------

void step_burst(Rng* rng);
void step_probed(Rng* rng);
void step_race(Rng* rng);
void step_clean(Rng* rng);

void step_bad_call(Rng* rng);
void step_nobody(Rng* rng);
void step_communicator(Rng* rng);

void step_persistent(Rng* rng);
void step_cancel(Rng* rng);
void step_freed(Rng* rng);

void step_collective(Rng* rng);

#endif
