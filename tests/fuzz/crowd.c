// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzzer rounds with crowds: many threads of each rank send and receive with the same tags on a
// communicator of the round, while another thread makes and frees short-lived communicators.
//
// Each message begins with its number, from which the receiver knows what must follow. A rank knows
// how many messages it will get, and its receiving threads count the receives that they begin in a
// shared counter. In some rounds a single thread receives while other threads poll; then messages
// of a sending thread must arrive in their order.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { TAG_CROWD = 77, SIZES = 4, MESSAGES_MOST = 12, LONGEST = 1 << 20, SHORT_LIVED = 5 };
enum { THREADS_MOST = 16, WAYS = 7 };

typedef struct {
  uint64_t id;
  int target, tag, bytes;
} Parcel;

typedef struct {
  Player* player;
  MPI_Comm comm, parent;  // for messages; for short-lived communicators
  uint64_t seed;
  int threads, each;  // threads of a rank; messages of a thread
  int tags;
  int sizes[SIZES];
  int expected;  // messages to this rank
  bool in_order;
  atomic_int tickets, received;
  atomic_char* seen;
  _Atomic uint64_t bytes, hash;
} Crowd;

typedef struct {
  Crowd* crowd;
  int number;
} Member;

static void check(const Crowd* crowd, int code, const char* call) {
  if (code != MPI_SUCCESS) fail(crowd->player, NULL, "%s returned %d in a crowd", call, code);
}
#define TRY(call) check(crowd, call, #call)

static uint64_t number_of(const Crowd* crowd, int rank, int thread, int index) {
  return (uint64_t)((rank * crowd->threads + thread) * crowd->each + index);
}

static Parcel parcel_of(const Crowd* crowd, uint64_t number) {
  Rng rng = {mix2(crowd->seed, number)};
  Parcel parcel = {.id = rng_next(&rng)};
  parcel.target = (int)rng_below(&rng, (uint32_t)crowd->player->ranks);
  parcel.tag = TAG_CROWD + (int)rng_below(&rng, (uint32_t)crowd->tags);
  parcel.bytes = crowd->sizes[rng_below(&rng, SIZES)];
  return parcel;
}

static void write_parcel(const Parcel* parcel, uint64_t number, unsigned char* data) {
  payload(parcel->id, 0, data, (size_t)parcel->bytes);
  memcpy(data, &number, sizeof number);
}

static unsigned char* memory(size_t bytes) {
  unsigned char* data = malloc(bytes);
  if (data == NULL) abort();
  return data;
}

// ---- sending ------------------------------------------------------------------------------------

static void send_one(const Crowd* crowd, const Parcel* parcel, unsigned char* data, Rng* rng) {
  const int bytes = parcel->bytes, to = parcel->target, tag = parcel->tag;
  MPI_Comm comm = crowd->comm;
  MPI_Request request = MPI_REQUEST_NULL;
  int flag = 0;
  switch (rng_below(rng, 5)) {
    case 0:
      TRY(MPI_Send(data, bytes, MPI_BYTE, to, tag, comm));
      break;
    case 1:
      TRY(MPI_Ssend(data, bytes, MPI_BYTE, to, tag, comm));
      break;
    case 2:
      TRY(MPI_Isend(data, bytes, MPI_BYTE, to, tag, comm, &request));
      TRY(MPI_Wait(&request, MPI_STATUS_IGNORE));
      break;
    case 3:
      TRY(MPI_Issend(data, bytes, MPI_BYTE, to, tag, comm, &request));
      while (!flag) TRY(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
      break;
    default:
      TRY(MPI_Isend(data, bytes, MPI_BYTE, to, tag, comm, &request));
      TRY(MPI_Request_free(&request));
  }
}

// Sends all messages of this thread, and returns their buffers. The buffers live until the end of
// the round, since some requests are freed, and only the end of the round shows that their sends
// are complete.
static void* send_all(void* argument) {
  const Member* member = argument;
  const Crowd* crowd = member->crowd;
  Rng rng = {mix2(crowd->seed + 1, number_of(crowd, crowd->player->rank, member->number, 0))};
  unsigned char** all = calloc(MESSAGES_MOST, sizeof *all);
  for (int i = 0; i < crowd->each; ++i) {
    const uint64_t number = number_of(crowd, crowd->player->rank, member->number, i);
    const Parcel parcel = parcel_of(crowd, number);
    all[i] = memory((size_t)parcel.bytes);
    write_parcel(&parcel, number, all[i]);
    send_one(crowd, &parcel, all[i], &rng);
  }
  return all;
}

// ---- receiving ----------------------------------------------------------------------------------

// Returns whether the status that the MPI call named `call` returns can be checked. In plain Open
// MPI an ordinary (not a matched) probe releases its lock before the status is read, and another
// thread may receive the message in between. With Manyhands the status is right.
static bool tells_the_truth(const char* call) {
#ifdef OPEN_MPI
  return getenv("LD_PRELOAD") != NULL || strstr(call, "mprobe") != NULL ||
         strstr(call, "Mprobe") != NULL;
#else
  return call != NULL;
#endif
}

static void check_size(const Crowd* crowd, const MPI_Status* status, const char* call) {
  int count = -7;
  if (!tells_the_truth(call)) return;
  TRY(MPI_Get_count(status, MPI_BYTE, &count));
  for (int i = 0; i < SIZES; ++i) {
    if (count == crowd->sizes[i]) return;
  }
  fail(crowd->player, NULL, "%s says %d bytes from %d with tag %d, which nobody sends", call, count,
       status->MPI_SOURCE, status->MPI_TAG);
}

static void check_parcel(Crowd* crowd, const unsigned char* data, const MPI_Status* status) {
  const Player* player = crowd->player;
  uint64_t number = 0;
  memcpy(&number, data, sizeof number);
  const int per_rank = crowd->threads * crowd->each, all = per_rank * player->ranks;
  if (number >= (uint64_t)all)
    fail(player, NULL, "a message has the number %llu", (unsigned long long)number);
  const Parcel parcel = parcel_of(crowd, number);
  const int source = (int)number / per_rank;
  int count = -7;
  TRY(MPI_Get_count(status, MPI_BYTE, &count));
  if (parcel.target != player->rank || atomic_exchange(&crowd->seen[number], 1) != 0)
    fail(player, NULL, "message %d for rank %d came twice or here", (int)number, parcel.target);
  if (status->MPI_SOURCE != source || status->MPI_TAG != parcel.tag || count != parcel.bytes) {
    fail(player, NULL, "source %d tag %d count %d, not %d %d %d", status->MPI_SOURCE,
         status->MPI_TAG, count, source, parcel.tag, parcel.bytes);
  }
  for (int later = (int)number + 1; crowd->in_order && later % crowd->each != 0; ++later) {
    if (atomic_load(&crowd->seen[later]) != 0)
      fail(player, NULL, "message %d came after message %d of the same thread", (int)number, later);
  }
  unsigned char* wanted = memory((size_t)parcel.bytes);
  write_parcel(&parcel, number, wanted);
  if (memcmp(wanted, data, (size_t)parcel.bytes) != 0)
    fail(player, NULL, "wrong bytes in message %d of a crowd", (int)number);
  free(wanted);
  atomic_fetch_add(&crowd->bytes, (uint64_t)parcel.bytes);
  atomic_fetch_add(&crowd->hash, mix2(parcel.id, (uint64_t)parcel.bytes));
}

// Receives a message by MPI_Improbe and MPI_Mrecv if `polls`, else by MPI_Mprobe and MPI_Imrecv.
static void receive_matched(const Crowd* crowd, bool polls, int tag, unsigned char* data,
                            MPI_Status* status) {
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  int flag = 0, count = -7;
  while (polls && !flag)
    TRY(MPI_Improbe(MPI_ANY_SOURCE, tag, crowd->comm, &flag, &message, status));
  if (!polls) TRY(MPI_Mprobe(MPI_ANY_SOURCE, tag, crowd->comm, &message, status));
  check_size(crowd, status, polls ? "MPI_Improbe" : "MPI_Mprobe");
  TRY(MPI_Get_count(status, MPI_BYTE, &count));
  if (polls) {
    TRY(MPI_Mrecv(data, count, MPI_BYTE, &message, status));
    return;
  }
  TRY(MPI_Imrecv(data, count, MPI_BYTE, &message, &request));
  TRY(MPI_Wait(&request, status));
}

// Receives a message by the way with the number `way` (0 to 6): a matched probe, a probe and a
// receive, a receive alone, or MPI_Irecv. After an ordinary probe, the receive takes any message,
// because another thread may have received the probed message.
static void receive_one(const Crowd* crowd, int way, int tag, unsigned char* data,
                        MPI_Status* status) {
  MPI_Comm comm = crowd->comm;
  MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int flag = 0, index = -7;
  if (way == 0 || way == 1) return receive_matched(crowd, way == 0, tag, data, status);
  while (way == 2 && !flag) TRY(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &flag, status));
  if (way == 3) TRY(MPI_Probe(MPI_ANY_SOURCE, tag, comm, status));
  if (way == 2 || way == 3) check_size(crowd, status, way == 2 ? "MPI_Iprobe" : "MPI_Probe");
  if (way <= 4) {
    TRY(MPI_Recv(data, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, status));
    return;
  }
  TRY(MPI_Irecv(data, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &requests[1]));
  if (way == 5) TRY(MPI_Waitany(3, requests, &index, status));
  while (way == 6 && !flag) TRY(MPI_Testany(3, requests, &index, &flag, status));
  if (index != 1) fail(crowd->player, NULL, "index %d, not 1", index);
}

static void* receive_all(void* argument) {
  const Member* member = argument;
  Crowd* crowd = member->crowd;
  Rng rng = {mix2(crowd->seed + 2, (uint64_t)member->number)};
  unsigned char* data = memory(LONGEST);
  while (atomic_fetch_add(&crowd->tickets, 1) < crowd->expected) {
    const bool any = crowd->tags > 1 || rng_chance(&rng, 50);
    MPI_Status status;
    memset(&status, 0x5a, sizeof status);
    receive_one(crowd, (int)rng_below(&rng, WAYS), any ? MPI_ANY_TAG : TAG_CROWD, data, &status);
    check_parcel(crowd, data, &status);
    atomic_fetch_add(&crowd->received, 1);
  }
  free(data);
  return NULL;
}

static void* poll_all(void* argument) {
  const Crowd* crowd = ((const Member*)argument)->crowd;
  while (atomic_load(&crowd->received) < crowd->expected) {
    MPI_Status status;
    int flag = 0;
    TRY(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, crowd->comm, &flag, &status));
    if (flag) check_size(crowd, &status, "MPI_Iprobe");
  }
  return NULL;
}

// ---- communicators that come and go -------------------------------------------------------------

static void* make_and_free(void* argument) {
  Crowd* crowd = ((const Member*)argument)->crowd;
  const Player* player = crowd->player;
  const int to = (player->rank + 1) % player->ranks;
  for (int i = 0; i < SHORT_LIVED; ++i) {
    const Parcel parcel = {.id = mix2(crowd->seed + 3, (uint64_t)i), .bytes = crowd->sizes[i % 4]};
    unsigned char *out = memory(LONGEST), *in = memory(LONGEST);
    MPI_Comm comm;
    MPI_Request request;
    MPI_Status status;
    int flag = 0, count = -7;
    write_parcel(&parcel, 0, out);
    TRY(MPI_Comm_dup(crowd->parent, &comm));
    TRY(MPI_Isend(out, parcel.bytes, MPI_BYTE, to, TAG_CROWD, comm, &request));
    while (!flag) TRY(MPI_Iprobe(MPI_ANY_SOURCE, TAG_CROWD, comm, &flag, &status));
    TRY(MPI_Get_count(&status, MPI_BYTE, &count));
    if (count != parcel.bytes)
      fail(player, NULL, "on a new communicator %d bytes, not %d", count, parcel.bytes);
    TRY(MPI_Recv(in, count, MPI_BYTE, status.MPI_SOURCE, TAG_CROWD, comm, &status));
    TRY(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (memcmp(in, out, (size_t)count) != 0) fail(player, NULL, "wrong bytes on a communicator");
    TRY(MPI_Comm_free(&comm));
    free(out);
    free(in);
  }
  return NULL;
}

// ---- playing a round ----------------------------------------------------------------------------

static void crowd_make(Crowd* crowd, Player* player, int round) {
  memset(crowd, 0, sizeof *crowd);
  crowd->player = player;
  crowd->seed = mix2(player->seed + 99, (uint64_t)round);
  Rng rng = {crowd->seed};
  crowd->threads = options.crowd;
  crowd->each = rng_range(&rng, 3, MESSAGES_MOST);
  crowd->tags = rng_chance(&rng, 60) ? 1 : 3;
  crowd->in_order = rng_chance(&rng, 40);
  crowd->sizes[0] = rng_chance(&rng, 70) ? 96 : rng_range(&rng, 8, 200);
  crowd->sizes[1] = rng_range(&rng, 65536, LONGEST);
  for (int i = 2; i < SIZES; ++i) {
    const int bytes = (int)pick_bytes(&rng, LONGEST);
    crowd->sizes[i] = bytes < 8 ? 8 : bytes;
  }
  const int all = player->ranks * crowd->threads * crowd->each;
  crowd->seen = calloc((size_t)all, sizeof *crowd->seen);
  for (int i = 0; i < all; ++i) {
    if (parcel_of(crowd, (uint64_t)i).target == player->rank) ++crowd->expected;
  }
  TRY(MPI_Comm_dup(player->comm[COMM_BASE], &crowd->comm));
  TRY(MPI_Comm_dup(player->comm[COMM_BASE], &crowd->parent));
}

void play_crowd(Player* player, int round) {
  static Crowd crowds[1];
  Crowd* crowd = crowds;
  pthread_t threads[2 * THREADS_MOST + 1];
  Member members[THREADS_MOST];
  player->round = round;
  player->doing = "in a crowd";
  crowd_make(crowd, player, round);
  for (int i = 0; i < crowd->threads; ++i) {
    members[i] = (Member){crowd, i};
    pthread_create(&threads[2 * i], NULL, send_all, &members[i]);
    pthread_create(&threads[2 * i + 1], NULL, crowd->in_order && i > 0 ? poll_all : receive_all,
                   &members[i]);
  }
  pthread_create(&threads[2 * crowd->threads], NULL, make_and_free, &members[0]);
  unsigned char** sent[THREADS_MOST];
  for (int i = 0; i < crowd->threads; ++i) {
    void* result = NULL;
    pthread_join(threads[2 * i], &result);
    sent[i] = result;
    pthread_join(threads[2 * i + 1], NULL);
  }
  pthread_join(threads[2 * crowd->threads], NULL);
  TRY(MPI_Barrier(crowd->comm));
  for (int i = 0; i < crowd->threads; ++i) {
    for (int j = 0; j < crowd->each; ++j) free(sent[i][j]);
    free(sent[i]);
  }
  player->messages += (uint64_t)crowd->expected;
  player->bytes += crowd->bytes;
  player->hash += crowd->hash;
  free(crowd->seen);
  TRY(MPI_Comm_free(&crowd->comm));
  TRY(MPI_Comm_free(&crowd->parent));
}
