/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that loads a library, runs its parallel region until a helper has joined, unloads it,
 * and runs the region of another library, whose code lies at the same address (kernels.c).
 *
 * Prints `case first ok|WRONG joined|alone` and the same for `second`; or `SKIP` and the reason. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

enum { FEW = 100 };
static const double kPatienceS = 20;

/* Rank 0 waits long enough for the library to notice what was loaded. */
static void wait_for_an_answer(int rank) {
  const int other = 1 - rank;
  if (rank == 0) MPI_Send(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD);
  MPI_Recv(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) return;
  usleep(300000);
  MPI_Send(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD);
}

static unsigned long address_of(void* library) {
  struct link_map* map = NULL;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_addr : 0;
}

static void* load(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  return library;
}

/* Runs the region until a helper has joined, or at least a few times. */
static void play(void* library, const char* name, double patience) {
  int (*const kernel)(int*) = (int (*)(int*))dlsym(library, "kernel");
  int right = 1, joined = 0;
  const double end = omp_get_wtime() + patience;
  for (int i = 0; !joined && (i < FEW || omp_get_wtime() < end); ++i) right &= kernel(&joined);
  printf("case %s %s %s\n", name, right ? "ok" : "WRONG", joined ? "joined" : "alone");
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  void* library = argc > 2 && rank == 0 ? load(argv[1]) : NULL;
  unsigned long address = 0;
  wait_for_an_answer(rank);
  if (library != NULL) {
    address = address_of(library);
    play(library, "first", kPatienceS);
    dlclose(library);
    library = load(argv[2]);
  }
  wait_for_an_answer(rank);
  if (library != NULL && address_of(library) == address) {
    play(library, "second", 0);
  } else if (rank == 0) {
    printf("SKIP the second library lies at another address\n");
  }
  MPI_Finalize();
  return 0;
}
