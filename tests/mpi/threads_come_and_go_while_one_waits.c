// SPDX-License-Identifier: BSD-3-Clause
//
// A thread of each rank waits for the last message of the program. Meanwhile, generations of
// short-lived threads exchange one message each and end, some of them after a pause outside MPI. If
// another thread cancels a receive, the wait for the receive ends. A server thread that ended
// without a successor would leave the waiting threads asleep.
//
// run: ranks 2
// run: ranks 2 MH_CORES=8
#include <pthread.h>

#include "check.h"

enum { GENERATIONS = 60, THREADS = 10, LAST = 999, NEVER = 998 };

static void* wait_for_last(void* argument) {
  (void)argument;
  int last = 0;
  MPI_Status status;
  MPI_Recv(&last, 1, MPI_INT, 1 - rank, LAST, MPI_COMM_WORLD, &status);
  CHECK(last == 4711, "the last message is %d", last);
  check_status(&status, 1 - rank, LAST, sizeof last);
  return NULL;
}

static void* exchange_once(void* argument) {
  const int number = (int)(intptr_t)argument, tag = number % THREADS, other = 1 - rank;
  int mine = number * 2 + rank, theirs = -1;
  if (number % 4 == 0) pass_time(20e-6 * (number % 7));
  if (rank == 0) MPI_Send(&mine, 1, MPI_INT, other, tag, MPI_COMM_WORLD);
  MPI_Recv(&theirs, 1, MPI_INT, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(&mine, 1, MPI_INT, other, tag, MPI_COMM_WORLD);
  CHECK(theirs == number * 2 + other, "thread %d got %d", number, theirs);
  return NULL;
}

static MPI_Request never = MPI_REQUEST_NULL;

static void* wait_for_never(void* argument) {
  (void)argument;
  MPI_Status status;
  int cancelled = 0;
  MPI_Wait(&never, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled, "it was not cancelled");
  return NULL;
}

int main(int argc, char** argv) {
  int nothing = 0, last = 4711;
  pthread_t waiter, cancelled, threads[THREADS];
  if (!begin_with_threads(&argc, &argv)) return skip("this library has no MPI_THREAD_MULTIPLE");
  MPI_Irecv(&nothing, 1, MPI_INT, 1 - rank, NEVER, MPI_COMM_WORLD, &never);
  MPI_Request to_cancel = never;  // MPI_Wait in the other thread writes to `never`
  pthread_create(&waiter, NULL, wait_for_last, NULL);
  pthread_create(&cancelled, NULL, wait_for_never, NULL);
  for (int generation = 0; generation < GENERATIONS; ++generation) {
    for (intptr_t i = 0; i < THREADS; ++i) {
      pthread_create(&threads[i], NULL, exchange_once, (void*)(generation * THREADS + i));
    }
    for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
    if (generation == GENERATIONS / 2) {
      MPI_Cancel(&to_cancel);
      pthread_join(cancelled, NULL);
    }
  }
  MPI_Send(&last, 1, MPI_INT, 1 - rank, LAST, MPI_COMM_WORLD);
  pthread_join(waiter, NULL);
  return end();
}
