// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Init_thread at every level returns the library's level; MPI_Query_thread and
// MPI_Is_thread_main agree. With MPI_THREAD_MULTIPLE, several threads exchange large messages on a
// communicator with different tags. The answers of the three calls must agree, or a program would
// use threads that the library does not support.
//
// run: ranks 2 LEVEL=0
// run: ranks 2 LEVEL=1
// run: ranks 2 LEVEL=2
// run: ranks 2 LEVEL=3
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, MESSAGES = 12 };

static void* exchange(void* argument) {
  int thread = (int)(intptr_t)argument, other = 1 - rank;
  for (int i = 0; i < MESSAGES; ++i) {
    int bytes = i % 3 == 0 ? 100 : LARGE / 2 + thread;
    unsigned char *out = filled((size_t)bytes, 100 * thread + 10 * rank + i), *in = blank(LARGE);
    MPI_Status status;
    MPI_Request request;
    if (i % 2 == 0) {
      MPI_Sendrecv(out, bytes, MPI_BYTE, other, thread, in, LARGE, MPI_BYTE, other, thread,
                   MPI_COMM_WORLD, &status);
    } else {
      MPI_Isend(out, bytes, MPI_BYTE, other, thread, MPI_COMM_WORLD, &request);
      MPI_Recv(in, LARGE, MPI_BYTE, other, thread, MPI_COMM_WORLD, &status);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    check_status(&status, other, thread, bytes);
    check_bytes(in, (size_t)bytes, 100 * thread + 10 * other + i, "a thread's message");
    free(in);
    free(out);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                        MPI_THREAD_MULTIPLE};
  const char* level = getenv("LEVEL");
  int wanted = levels[level != NULL ? atoi(level) : 3], provided = -1, queried = -1,
      main_thread = 0;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  begin_after_init();
  MPI_Query_thread(&queried);
  MPI_Is_thread_main(&main_thread);
  CHECK(queried == provided && main_thread, "provided %d, queried %d", provided, queried);
  if (provided < wanted) return skip("this library does not have the level");
  if (wanted != MPI_THREAD_MULTIPLE) {
    exchange((void*)0);
    return end();
  }
  pthread_t threads[THREADS];
  for (intptr_t i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, exchange, (void*)i);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  return end();
}
