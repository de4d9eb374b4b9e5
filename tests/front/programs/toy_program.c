/* SPDX-License-Identifier: BSD-3-Clause */
/* The first call is variadic and fills every argument register and the stack: toy_mpi.c prints
 * another sum if the front loses an argument. Then many threads make their first calls at once. */
#include <pthread.h>
#include <stdio.h>

extern int MPI_Barrier(long comm);
extern int MPI_Pcontrol(const int level, ...);

static void* call(void* failures) {
  if (MPI_Barrier(42) != 0) __atomic_add_fetch((int*)failures, 1, __ATOMIC_RELAXED);
  return NULL;
}

int main(int argc, char** argv) {
  (void)argv;
  int failures = 0;
  pthread_t threads[16];
  if (argc == 1) {
    MPI_Pcontrol(3, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8.5, 9.5);
  }
  for (int i = 0; i < 16; ++i) pthread_create(&threads[i], NULL, call, &failures);
  for (int i = 0; i < 16; ++i) pthread_join(threads[i], NULL);
  printf("failures %d\n", failures);
  return failures;
}
