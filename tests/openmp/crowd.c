/* SPDX-License-Identifier: BSD-3-Clause */
/* A loop that several helpers join at once: iterations sleep, so that two cores suffice for all.
 * Rank 0 runs the loop until as many helpers, and as many threads of its own team, have done
 * iterations as the first two arguments say; the other ranks wait in a barrier. With a third
 * argument `all`, every rank runs the loop. With `finalize`, the other ranks wait in MPI_Finalize.
 * With `Test`, `Testany`, `Testall` or `Iprobe`, the other ranks poll by the call of that name.
 * test_helpers.py also makes a program with a marked loop from this source.
 *
 * Prints `case crowd ok|WRONG joined|alone`, and the fewest helpers and the fewest team threads
 * among the ranks that run the loop. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { N = 400, MOST = 200, THREADS = 64 };
struct threads {
  pid_t numbers[THREADS];
  int count;
};
static struct threads helpers, team;
static int seen[N];

static void note(struct threads* who, pid_t me) {
#pragma omp critical
  {
    int at = 0;
    while (at < who->count && who->numbers[at] != me) ++at;
    if (at == who->count && at < THREADS) who->numbers[who->count++] = me;
  }
}

static void work(int i) {
  char name[16] = "";
  const struct timespec pause = {0, 20000};
  prctl(PR_GET_NAME, name);
  note(strcmp(name, "mh-helper") == 0 ? &helpers : &team, (pid_t)syscall(SYS_gettid));
  nanosleep(&pause, NULL);
  __atomic_fetch_add(&seen[i], 1, __ATOMIC_RELAXED);
}

static long loop(void) {
  long sum = 0;
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : sum)
  for (int i = 0; i < N; ++i) {
    work(i);
    sum += i;
  }
  return sum;
}

/* Rank 0 sends a message to each other rank, which polls until the message has come. */
static void poll(int rank, const char* how) {
  int flag = 0, index, ranks;
  MPI_Request request;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int to = 1; rank == 0 && to < ranks; ++to) MPI_Send(NULL, 0, MPI_INT, to, 0, MPI_COMM_WORLD);
  if (rank == 0) return;
  while (strcmp(how, "Iprobe") == 0 && !flag)
    MPI_Iprobe(0, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  MPI_Irecv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
  flag = 0;
  while (strcmp(how, "Testany") == 0 && !flag)
    MPI_Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE);
  while (strcmp(how, "Testall") == 0 && !flag) MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE);
  while (!flag) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  int rank, times = 0, right = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int wanted = argc > 1 ? atoi(argv[1]) : 3, own = argc > 2 ? atoi(argv[2]) : 1;
  const char* how = argc > 3 ? argv[3] : "";
  const int works = rank == 0 || strcmp(how, "all") == 0;
  for (; works && times < MOST && (helpers.count < wanted || team.count < own); ++times) {
    if (loop() != (long)N * (N - 1) / 2) right = 0;
  }
  for (int i = 0; i < N; ++i) right = right && seen[i] == times;
  if (strstr(how, "Test") != NULL || strcmp(how, "Iprobe") == 0) poll(rank, how);
  int all[3] = {right, works ? helpers.count : THREADS, works ? team.count : THREADS};
  if (strcmp(how, "finalize") != 0) {
    int mine[3];
    memcpy(mine, all, sizeof mine);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Reduce(mine, all, 3, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
  }
  if (rank == 0) {
    printf("case crowd %s %s\n", all[0] ? "ok" : "WRONG", all[1] ? "joined" : "alone");
    printf("helpers %d team %d\n", all[1], all[2]);
  }
  MPI_Finalize();
  return 0;
}
