// SPDX-License-Identifier: BSD-3-Clause
//
// A rank waits for a late rank in one-sided synchronisation, and nowhere else. Its polls for
// messages end before the late rank works. All help thus comes from the call that WAIT names:
//
//   fence   MPI_Win_fence                      wait   MPI_Win_wait, of an exposed window
//   start   MPI_Win_start to MPI_Win_complete  lock   MPI_Win_lock, while the late rank holds it
//   flush   MPI_Win_flush of an accumulate to another node: 4 ranks on 2 nodes, WORK=loop
//
// With WORK=loop rank 0 is late, in a loop whose iterations sleep, and rank 1 waits for rank 0.
// With WORK=message rank 1 is late: it receives a long message from rank 0, which sleeps after it
// has started the send. Rank 2 waits for rank 1.
//
// run: by test_epochs.py, with WORK, WAIT and ROUNDS
#include "../mpi/check.h"

enum { ITERATIONS = 200, BYTES = 4 << 20, NUMBERS = BYTES / 8, GO = TAG + 1, DONE = TAG + 2 };

static bool has(const char* name, const char* value) {
  const char* found = getenv(name);
  return found != NULL && strcmp(found, value) == 0;
}

static bool is_loop;
static int late, waiter;
static MPI_Win win;
static MPI_Group the_other;  // of the late rank: the waiter; of the waiter: the late rank
static double* memory;

// ---- The work of the late rank, and the long message --------------------------------------------

static void loop(void) {
  long sum = 0;
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : sum)
  for (int i = 0; i < ITERATIONS; ++i) {
    usleep(20);
    sum += i;
  }
  CHECK(sum == (long)ITERATIONS * (ITERATIONS - 1) / 2, "%ld", sum);
}

static void receive(int round) {
  unsigned char* data = blank(BYTES);
  MPI_Recv(data, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  check_bytes(data, BYTES, round, "the message");
  free(data);
}

static void send(int round) {
  unsigned char* data = filled(BYTES, round);
  MPI_Request request;
  MPI_Isend(data, BYTES, MPI_BYTE, late, TAG, MPI_COMM_WORLD, &request);
  usleep(20000);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(data);
}

static void work(int round) {
  if (is_loop) {
    loop();
  } else {
    receive(round);
  }
}

// ---- Waiting in one-sided synchronisation -------------------------------------------------------

static void tell(int who, int what) { MPI_Send(NULL, 0, MPI_BYTE, who, what, MPI_COMM_WORLD); }

static bool is_told(MPI_Request* request) {
  int flag = 0;
  MPI_Test(request, &flag, MPI_STATUS_IGNORE);
  return flag != 0;
}

static MPI_Request expect(int whom, int what) {
  MPI_Request request;
  MPI_Irecv(NULL, 0, MPI_BYTE, whom, what, MPI_COMM_WORLD, &request);
  return request;
}

static void poll_for(int whom, int what) {
  MPI_Request request = expect(whom, what);
  while (!is_told(&request)) continue;
}

static void put(int round) {
  const double value = round;
  MPI_Put(&value, 1, MPI_DOUBLE, late, 0, 1, MPI_DOUBLE, win);
}

static void at_the_fence(int round) {
  if (rank == late) work(round);
  if (!is_loop && rank == 0) send(round);
  MPI_Win_fence(0, win);
}

static void exposed(int round) {
  if (rank == waiter) {
    MPI_Win_post(the_other, 0, win);
    MPI_Win_wait(win);
  } else if (rank == late) {
    work(round);
    MPI_Win_start(the_other, 0, win);
    MPI_Win_complete(win);
  }
}

static void accessing(int round) {
  if (rank == waiter) {
    MPI_Win_start(the_other, 0, win);
    put(round);
    MPI_Win_complete(win);
  } else if (rank == late) {
    work(round);
    MPI_Win_post(the_other, 0, win);
    MPI_Win_wait(win);
    CHECK(memory[0] == round, "%g in round %d", memory[0], round);
  }
}

static void locked(int round) {
  if (rank == waiter) {
    poll_for(late, GO);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, late, 0, win);
    put(round);
    MPI_Win_unlock(late, win);
    tell(late, DONE);
  } else if (rank == late) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, late, 0, win);
    tell(waiter, GO);
    work(round);
    MPI_Win_unlock(late, win);
    poll_for(waiter, DONE);
    CHECK(memory[0] == round, "%g in round %d", memory[0], round);
  }
}

// The late rank works until the waiting rank has flushed. The flush is for a rank of the other
// node.
static void flushing(int round) {
  const int target = 2;
  if (rank == late) {
    MPI_Request done = expect(waiter, DONE);
    tell(waiter, GO);
    do loop();
    while (!is_told(&done));
  } else if (rank == waiter) {
    poll_for(late, GO);
    double* ones = malloc(BYTES);
    for (int i = 0; i < NUMBERS; ++i) ones[i] = 1;
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Accumulate(ones, NUMBERS, MPI_DOUBLE, target, 0, NUMBERS, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_flush(target, win);
    MPI_Get(ones, NUMBERS, MPI_DOUBLE, target, 0, NUMBERS, MPI_DOUBLE, win);
    MPI_Win_unlock(target, win);
    for (int i = 0; i < NUMBERS; ++i) CHECK(ones[i] == round + 1, "%g at %d", ones[i], i);
    free(ones);
    tell(late, DONE);
  }
}

static void run(int round) {
  if (has("WAIT", "fence")) {
    at_the_fence(round);
    return;
  }
  if (has("WAIT", "wait")) exposed(round);
  if (has("WAIT", "start")) accessing(round);
  if (has("WAIT", "lock")) locked(round);
  if (has("WAIT", "flush")) flushing(round);
  if (!is_loop && rank == 0) send(round);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  is_loop = has("WORK", "loop");
  late = is_loop ? 0 : 1;
  waiter = late + 1;
  const int other = rank == late ? waiter : late;
  MPI_Group all;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, 1, &other, &the_other);
  MPI_Win_allocate(BYTES, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  memset(memory, 0, BYTES);
  MPI_Win_fence(0, win);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  const int rounds = atoi(getenv("ROUNDS"));
  for (int round = 0; round < rounds; ++round) {
    run(round);
    alarm(STUCK_SECONDS);
  }
  if (has("WAIT", "fence")) MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  MPI_Group_free(&all);
  MPI_Group_free(&the_other);
  MPI_Win_free(&win);
  return end();
}
