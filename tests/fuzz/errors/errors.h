// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the sources of the error fuzzer: random programs with errors and unusual calls, under
// error handlers that return.
//
// As in the fuzzer of the parent folder, every rank computes the same plan from a seed. A round is
// a list of *steps*. Each step draws its decisions from its own generator, on every rank alike. All
// ranks walk through the steps in the same order, and post receives and start sends in that order.
// A blocking call waits only for messages of its own or an earlier step, so ranks do not wait for
// each other in a cycle. An *op* is a started request that a later step completes, by any
// completing call of MPI.
//
// A rank writes its observations into its *trace*, line by line: the error class of each call, each
// status, the fate of handles and contents. A trace depends on the seed and on the MPI library, and
// must not depend on a library in front of MPI. Within a round the order of lines has no meaning.
// Observations that MPI leaves open are not in the trace, such as the contents of a truncated
// receive.
#ifndef MH_TESTS_ERRORS_H
#define MH_TESTS_ERRORS_H

#include "../layout.h"

// ---- options and state of a run ----------------------------------------------------------------

typedef struct {
  uint64_t seed;
  int first_round, rounds;
  int steps;          // steps of a round
  int only;           // the only kind of step, or -1
  int timeout_s;      // longest time of a round
  const char* trace;  // the files are TRACE.RANK; null: no trace
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

// Communicators of every round. Errors on HANDLED go to an error handler of the program, which
// writes the errors into the trace; on the others MPI_ERRORS_RETURN is set.
typedef enum { BASE, HANDLED, REVERSED, RACES, ALONE, COMMS } CommKind;

typedef struct {
  int rank, ranks;
  int round, step;
  StepKind kind;
  char doing[80];
  MPI_Comm comm[COMMS];
  MPI_Errhandler noting;
  bool blocking;  // this rank is in a blocking receive
  Rng local;      // draws the decisions of this rank alone
} Here;
extern Here here;

int rank_in(CommKind comm, int rank);  // translates a rank of BASE to a rank of `comm`

// ---- trace.c -----------------------------------------------------------------------------------

void see(const char* format, ...) __attribute__((format(printf, 1, 2)));
void doing(const char* what);  // notes the call for the watchdog; --verbose: and in the trace
const char* class_of(int code);
void trace_open(void);
void trace_close(void);
void give_up(const char* why);  // prints this rank's place and ends the job
uint64_t trace_hash(void);      // hash of all lines so far; order within a round has no effect
void watch_start(void);
void watch_progress(void);

// ---- left_out.c --------------------------------------------------------------------------------

bool left_out(const char* what);

// ---- ops.c -------------------------------------------------------------------------------------

typedef struct {
  char name[80];
  bool send, persistent, cancelled, unsure;  // unsure: the trace leaves the status out
  bool short_of_room;
  MPI_Request request;
  Layout* layout;
  size_t items;
  Buffer buffer;
  uint64_t id;
  size_t bytes;  // bytes of the message
} Op;

typedef struct {
  size_t elements;
  int element;
  uint64_t send_layout, recv_layout;
  uint64_t id;
  size_t room;    // rough number of elements that fit the receive buffer
  bool too_long;  // room is less than elements
} Content;

size_t pick_bytes(Rng* rng);
Content content_make(Rng* rng, bool may_be_too_long);
Content content_of(Rng* rng, size_t bytes);  // the receive has enough room
Op* op_send(const Content* content, const char* format, ...) __attribute__((format(printf, 2, 3)));
Op* op_recv(const Content* content, const char* format, ...) __attribute__((format(printf, 2, 3)));
void op_over(Op* op, int code, const MPI_Status* status);  // traces the op's end, frees the op
void op_free(Op* op);
void op_pend(Op* op);
int op_pending(void);
void complete_some(int most);
void complete_all(void);
MPI_Request inactive(MPI_Comm comm, void* buffer, int count);  // persistent, never started
// Completes a request, and writes its error class and status into the trace, under `name`.
void finish(const char* name, MPI_Request* request);
// Sends `value` from rank `from` to rank `to` (ranks of BASE), so that both use the same value.
// Returns the value of rank `from` on both.
int agree(int from, int to, int value);
void jitter(void);

// ---- the kinds of steps ------------------------------------------------------------------------

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
