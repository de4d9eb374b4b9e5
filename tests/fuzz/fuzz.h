// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the sources of the differential fuzzer.
//
// Every rank computes the same plan from a seed, without communication. A *round* is a list of
// *steps*; a step is a message, a group of messages, a collective or a local act. All ranks walk
// through the steps of a round in the same order, so blocking calls cannot deadlock: the partner of
// the rank blocked at the lowest step has already posted its side. A *player* is an independent run
// of the plan: the process itself, or a thread with its own communicators. An *op* is a call that
// was started and has not been checked yet. Every byte of a message is a hash of the message's id
// and the byte's offset. The fuzzer also checks bytes that a receive must not touch. The fuzzer
// does not use the library under test directly.
#ifndef MH_TESTS_FUZZ_H
#define MH_TESTS_FUZZ_H

#include "layout.h"

#if MPI_VERSION >= 4
#define HAVE_MPI4 1
#endif
// MPICH 4.0 has MPI_Isendrecv, but releases its datatypes once too often, so the fuzzer does not
// call it there.
#if (MPI_VERSION >= 4 && !(defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000)) || \
    (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAVE_ISENDRECV 1
#endif

// ---- options ------------------------------------------------------------------------------------

typedef struct {
  uint64_t seed;
  int first_round, rounds;
  size_t max_bytes;
  int threads;    // 0: one player, the main thread
  int crowd;      // threads of each rank that share a tag; 0: rounds by plan
  int timeout_s;  // longest time of a round
  int steps;      // rough number of steps of a round
  bool stats;
  bool verbose;
} Options;

extern Options options;

// ---- messages and steps ------------------------------------------------------------------------

// clang-format off
#define SEND_MODES(X) X(SEND) X(ISEND) X(SSEND) X(ISSEND) X(BSEND) X(IBSEND) X(SEND_INIT)          \
  X(SSEND_INIT) X(BSEND_INIT) X(SEND_C) X(ISEND_C) X(RSEND) X(IRSEND) X(RSEND_INIT) X(SENDRECV)
#define RECV_MODES(X) X(RECV) X(IRECV) X(RECV_INIT) X(PROBE_RECV) X(IPROBE_RECV) X(PROBE_IRECV)    \
  X(MPROBE_MRECV) X(IMPROBE_MRECV) X(MPROBE_IMRECV) X(IMPROBE_IMRECV) X(RECV_C) X(IRECV_C)         \
  X(RECVSENDRECV)
#define EXCHANGES(X) X(X_SENDRECV) X(X_SENDRECV_REPLACE) X(X_ISENDRECV) X(X_ISENDRECV_REPLACE)     \
  X(X_IRECV_SEND) X(X_ISEND_RECV)
#define COMPLETIONS(X) X(WAIT) X(WAITALL) X(WAITALL_IGNORE) X(WAITANY) X(WAITSOME) X(TEST)         \
  X(TESTALL) X(TESTANY) X(TESTSOME) X(GET_STATUS)
#define STEPS(X) X(STEP_MESSAGE) X(STEP_GATHER) X(STEP_EXCHANGE) X(STEP_PERSISTENT)                \
  X(STEP_COLLECTIVE) X(STEP_CANCEL) X(STEP_NULL) X(STEP_RENEW) X(STEP_PREPOST) X(STEP_PACK)
#define COLLECTIVES(X) X(BARRIER) X(BCAST) X(REDUCE) X(ALLREDUCE) X(GATHER) X(GATHERV) X(SCATTER)  \
  X(SCATTERV) X(ALLGATHER) X(ALLGATHERV) X(ALLTOALL) X(ALLTOALLV) X(ALLTOALLW) X(SCAN) X(EXSCAN)   \
  X(REDUCE_SCATTER) X(REDUCE_SCATTER_BLOCK) X(INTER_BCAST)
#define AS_ENUM(name) name,
#define AS_NAME(name) #name,
// clang-format on

typedef enum { SEND_MODES(AS_ENUM) SEND_MODE_COUNT } SendMode;
typedef enum { RECV_MODES(AS_ENUM) RECV_MODE_COUNT } RecvMode;
typedef enum { EXCHANGES(AS_ENUM) EXCHANGE_COUNT } Exchange;
typedef enum { COMPLETIONS(AS_ENUM) COMPLETION_COUNT } Completion;
typedef enum { STEPS(AS_ENUM) STEP_COUNT } StepKind;
typedef enum { COLLECTIVES(AS_ENUM) COLLECTIVE_COUNT } Collective;

extern const char* const send_names[];
extern const char* const recv_names[];
extern const char* const exchange_names[];
extern const char* const completion_names[];
extern const char* const step_names[];
extern const char* const collective_names[];

typedef enum {
  COMM_BASE,
  COMM_DUP,
  COMM_SPLIT,
  COMM_REVERSED,
  COMM_SELF,
  COMM_INTER,
  COMMS
} CommKind;
extern const char* const comm_names[];

typedef struct {
  uint64_t id;
  int source, target;  // ranks of the player's base communicator
  CommKind comm;
  int tag;
  int element;
  size_t elements, bytes;
  uint64_t send_layout, recv_layout;  // seeds; 0 is the basic type itself
  bool send_contiguous, recv_contiguous;
  SendMode send;
  RecvMode recv;
  bool any_source, any_tag;
  bool send_bottom, recv_bottom;
  bool ignore_status;
  bool recv_first;     // a rank's message to itself: the receive is posted before the send
  size_t extra_items;  // further items that fit into the receive buffer
} Message;

typedef struct {
  StepKind kind;
  uint64_t seed;
  CommKind comm;
  Message* messages;
  int count;
  int target;   // receiver of a gather
  int repeats;  // starts of a persistent group; exchange: all messages have one size and type
  Collective collective;
} Step;

typedef struct {
  Step* steps;
  int count;
} Plan;

typedef enum { OP_SEND, OP_RECV } OpKind;

typedef struct {
  OpKind kind;
  Message message;
  Layout* layout;
  size_t items;
  Buffer buffer;
  MPI_Request request;
  bool persistent;
  bool keep;  // a persistent request that is started again later
  bool done;
  bool gathered;  // the status tells which message was received
  int arrived_from, arrived_tag;
} Op;

typedef struct {
  Buffer buffer;
  uint64_t id;
} Resting;  // a received buffer that must not change any more

typedef struct {
  int thread;
  int rank, ranks;
  uint64_t seed;
  MPI_Comm parent;
  MPI_Comm comm[COMMS];
  bool bsend_allowed;
  Rng local;  // draws the decisions of this rank alone
  Op** pending;
  int pending_count, pending_room;
  Resting* resting;
  int resting_count, resting_room;
  size_t resting_bytes;
  uint64_t messages, bytes, hash;
  uint64_t used_send[SEND_MODE_COUNT], used_recv[RECV_MODE_COUNT];
  uint64_t used_completion[COMPLETION_COUNT], used_step[STEP_COUNT];
  uint64_t used_collective[COLLECTIVE_COUNT], used_exchange[EXCHANGE_COUNT];
  // where the player is in its plan, for the watchdog's report
  int round, step;
  const Step* now;
  const Message* at;
  const char* doing;
} Player;

// ---- plan.c ----
Plan plan_make(const Player* player, int round);
void plan_free(Plan* plan);
size_t pick_bytes(Rng* rng, size_t most);
// Returns the rank by which rank `from` addresses rank `to` on the communicator `comm`, or -1 if it
// cannot. `from` and `to` are ranks of the player's base communicator.
int rank_in(const Player* player, CommKind comm, int from, int to);
// The inverse of rank_in(): returns the rank in the base communicator of the source that rank
// `receiver` sees as `source_rank_in_comm` on `comm`, or -1.
int rank_of_comm(const Player* player, CommKind comm, int source_rank_in_comm, int receiver);

// ---- play.c ----
void play_round(Player* player, int round);
void comms_make(Player* player);
void comms_free(Player* player);

// ---- collect.c ----
void play_collective(Player* player, const Step* step);
void finish_request(Player* player, MPI_Request* request, MPI_Status* status);

// ---- crowd.c ----
void play_crowd(Player* player, int round);

// ---- pack.c ----
void play_pack(Player* player, const Step* step);

// ---- watch.c ----
void watch_start(Player* players, int count);
void watch_progress(void);
void describe(const Message* message, char* out, size_t room);
_Noreturn void fail(const Player* player, const Message* message, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
