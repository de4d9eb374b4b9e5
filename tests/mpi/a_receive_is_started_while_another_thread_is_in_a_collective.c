// SPDX-License-Identifier: BSD-3-Clause
//
// Each rank first has more threads in collectives than cores, so Manyhands then waits for late
// ranks in the MPI library. A thread of the receiver enters a reduction. The main thread starts to
// receive a large message into a buffer with gaps, into which only its own process can unpack, and
// makes no call until the reduction is over. The sender enters the reduction after its MPI_Send. If
// the thread in the reduction did not learn of the receive, nobody would move a rendezvous message,
// and both ranks would hang. Receives are started or persistent, and begin before or after the
// reduction.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=64K MH_MAPPED_THRESHOLD=4K
// run: ranks 2 MH_MEMORY=cells
#include <pthread.h>

#include "check.h"

enum { THREADS = 3, CROWDED = 40, ROUNDS = 12, BLOCKS = 1000, BLOCK = LARGE / BLOCKS };

static MPI_Comm comms[THREADS];
static MPI_Datatype gaps;

static void reduce(MPI_Comm comm) {
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == ranks * (ranks - 1) / 2, "the sum is %d", sum);
}

static void* reduce_often(void* comm) {
  for (int i = 0; i < CROWDED; ++i) reduce(*(MPI_Comm*)comm);
  return NULL;
}

static void* reduce_once(void* comm) {
  reduce(*(MPI_Comm*)comm);
  return NULL;
}

static void crowd(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, reduce_often, &comms[i]);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
}

static void send(int round) {
  unsigned char* data = filled(LARGE, round);
  usleep(8000);
  MPI_Send(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  reduce(comms[0]);
  free(data);
}

static void receive(int round) {
  unsigned char *spread = blank(2 * LARGE), *packed = blank(LARGE);
  const bool persistent = round % 2 == 1, early = round / 2 % 2 == 1;
  MPI_Request request;
  MPI_Status status;
  pthread_t thread;
  if (persistent) MPI_Recv_init(spread, 1, gaps, 0, TAG, MPI_COMM_WORLD, &request);
  if (!early) pthread_create(&thread, NULL, reduce_once, &comms[0]);
  if (!early) usleep(4000);
  if (persistent)
    MPI_Start(&request);
  else
    MPI_Irecv(spread, 1, gaps, 0, TAG, MPI_COMM_WORLD, &request);
  if (early) pthread_create(&thread, NULL, reduce_once, &comms[0]);
  pthread_join(thread, NULL);
  MPI_Wait(&request, &status);
  check_status(&status, 0, TAG, LARGE);
  for (int i = 0; i < BLOCKS; ++i) memcpy(packed + i * BLOCK, spread + 2 * i * BLOCK, BLOCK);
  check_bytes(packed, LARGE, round, "beside a reduction");
  if (persistent) MPI_Request_free(&request);
  free(packed);
  free(spread);
}

int main(int argc, char** argv) {
  if (!begin_with_threads(&argc, &argv)) return skip("this library has no MPI_THREAD_MULTIPLE");
  MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps);
  MPI_Type_commit(&gaps);
  for (int i = 0; i < THREADS; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (int round = 0; round < ROUNDS; ++round) {
    if (round % 4 == 0) crowd();
    if (rank == 0)
      send(round);
    else
      receive(round);
  }
  for (int i = 0; i < THREADS; ++i) MPI_Comm_free(&comms[i]);
  MPI_Type_free(&gaps);
  return end();
}
