// SPDX-License-Identifier: BSD-3-Clause
//
// Threads of each rank, with MPI_THREAD_MULTIPLE, repeatedly make windows on their own
// communicators, write to every rank through them and free them. A thread has two windows at a
// time, and frees them in its own order. Therefore memory of a freed window soon serves a window of
// another thread. The data is right in each window; state left from the freed window would
// misdirect a put. If threads make windows at the same time, Open MPI 5 crashes, and MPICH 5 in 7
// of 150 runs, also without Manyhands.
//
// run: ranks 2 not openmpi5,mpich5,abi THREADS=4
// run: ranks 2 not openmpi5,mpich5,abi THREADS=4 MH_CORES=8
// run: ranks 3 not openmpi5,mpich5,abi THREADS=3 MH_CORES=9
#include <pthread.h>

#include "check.h"

enum { ROUNDS = 16, MOST_THREADS = 8, NUMBERS = 16, SECONDS = 8 };

struct made {
  MPI_Win window;
  int* numbers;  // numbers of this rank, one for each rank
  int own[NUMBERS];
};

struct maker {
  pthread_t thread;
  int index;
  MPI_Comm comm;
};

static struct maker makers[MOST_THREADS];

static void make(struct made* made, MPI_Comm comm, bool allocates) {
  const MPI_Aint bytes = NUMBERS * sizeof(int);
  if (allocates) {
    MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, comm, &made->numbers, &made->window);
  } else {
    made->numbers = made->own;
    MPI_Win_create(made->own, bytes, sizeof(int), MPI_INFO_NULL, comm, &made->window);
  }
}

static void use(const struct made* made, int seed) {
  MPI_Win_fence(0, made->window);
  for (int to = 0; to < ranks; ++to) {
    const int number = seed + rank * ranks + to;
    MPI_Put(&number, 1, MPI_INT, to, rank, 1, MPI_INT, made->window);
    MPI_Win_fence(0, made->window);
  }
  for (int from = 0; from < ranks; ++from) {
    const int number = seed + from * ranks + rank;
    CHECK(made->numbers[from] == number, "from %d: %d, not %d", from, made->numbers[from], number);
  }
  MPI_Win_fence(0, made->window);
}

static void* work(void* argument) {
  const struct maker* m = argument;
  struct made first, second;
  for (int round = 0; round < ROUNDS && !is_late(m->comm, SECONDS); ++round) {
    const int seed = 1000 * (100 * m->index + round);
    make(&first, m->comm, round % 2 == 0);
    make(&second, m->comm, (round + m->index) % 3 == 0);
    use(&first, seed);
    use(&second, seed + 500);
    const bool first_first = (round + m->index) % 2 == 0;
    MPI_Win_free(first_first ? &first.window : &second.window);
    MPI_Win_free(first_first ? &second.window : &first.window);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (!begin_with_threads(&argc, &argv)) return skip("this library has no MPI_THREAD_MULTIPLE");
  const int threads = wanted_threads();
  CHECK(threads <= MOST_THREADS && ranks <= NUMBERS, "too many");
  for (int i = 0; i < threads; ++i) {
    makers[i].index = i;
    MPI_Comm_dup(MPI_COMM_WORLD, &makers[i].comm);
  }
  for (int i = 0; i < threads; ++i) pthread_create(&makers[i].thread, NULL, work, &makers[i]);
  for (int i = 0; i < threads; ++i) pthread_join(makers[i].thread, NULL);
  for (int i = 0; i < threads; ++i) MPI_Comm_free(&makers[i].comm);
  return end();
}
