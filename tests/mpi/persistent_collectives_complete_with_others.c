// SPDX-License-Identifier: BSD-3-Clause
//
// Every call that completes requests also completes persistent collectives, partitioned and
// generalized requests, alone and among short and long sends and receives. A wait that tested only
// requests of messages would never see them complete.
//
// run: ranks 2 not openmpi4,openmpi5
// run: ranks 2 not openmpi4,openmpi5 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
// run: ranks 3 not openmpi4,openmpi5
#include "check.h"

// MPI 3 (Open MPI 4) has no MPI_Allreduce_init and other persistent collectives.
#if MPI_VERSION >= 4
enum { IN, OUT, COLLECTIVE, GENERALIZED, PARTS_IN, PARTS_OUT, NOTHING, MOST };
static MPI_Request requests[MOST];
static unsigned char *out, *in, *parts_out, *parts_in;
static int mine, sum;
static bool under_way[MOST];

static int query(void* state, MPI_Status* status) {
  (void)state;
  MPI_Status_set_elements(status, MPI_BYTE, 7);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = 3;
  status->MPI_TAG = 4;
  return MPI_SUCCESS;
}
static int release(void* state) {
  (void)state;
  return MPI_SUCCESS;
}
static int cancel(void* state, int complete) {
  (void)state;
  (void)complete;
  return MPI_SUCCESS;
}

// MPICH 4.0 treats a completed persistent collective as active. Calls that complete some requests
// of an array, such as MPI_Waitsome, therefore get the array `left`, in which only pending requests
// are left.
static MPI_Request left[MOST];
static int begin_some(void) {
  int active = 0;
  memcpy(left, requests, sizeof left);
  for (int i = 0; i < MOST; ++i) {
    if (!under_way[i]) left[i] = MPI_REQUEST_NULL;
    active += under_way[i];
  }
  return active;
}
static void take(int index) {
  CHECK(index >= 0 && index < MOST && under_way[index], "request %d is complete", index);
  under_way[index] = false;
  if (index != COLLECTIVE && index != PARTS_IN && index != PARTS_OUT) {
    CHECK(left[index] == MPI_REQUEST_NULL, "request %d is not null", index);
    requests[index] = MPI_REQUEST_NULL;
  }
  left[index] = MPI_REQUEST_NULL;
}

static void by_wait(void) {
  for (int i = 0; i < MOST; ++i) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
}
static void by_waitall(void) { MPI_Waitall(MOST, requests, MPI_STATUSES_IGNORE); }
static void by_waitall_with_statuses(void) {
  MPI_Status statuses[MOST];
  MPI_Waitall(MOST, requests, statuses);
  if (under_way[IN]) CHECK(statuses[IN].MPI_TAG == TAG, "tag %d", statuses[IN].MPI_TAG);
  if (under_way[GENERALIZED]) {
    CHECK(statuses[GENERALIZED].MPI_SOURCE == 3 && statuses[GENERALIZED].MPI_TAG == 4,
          "a generalized request has source %d, tag %d", statuses[GENERALIZED].MPI_SOURCE,
          statuses[GENERALIZED].MPI_TAG);
  }
  CHECK(statuses[NOTHING].MPI_SOURCE == MPI_ANY_SOURCE && statuses[NOTHING].MPI_TAG == MPI_ANY_TAG,
        "a null request has source %d, tag %d", statuses[NOTHING].MPI_SOURCE,
        statuses[NOTHING].MPI_TAG);
}
static void by_waitany(void) {
  int index;
  for (int active = begin_some(); active > 0; --active) {
    MPI_Waitany(MOST, left, &index, MPI_STATUS_IGNORE);
    take(index);
  }
}
static void by_waitsome(void) {
  int found, indices[MOST];
  for (int active = begin_some(); active > 0; active -= found) {
    MPI_Waitsome(MOST, left, &found, indices, MPI_STATUSES_IGNORE);
    for (int i = 0; i < found; ++i) take(indices[i]);
  }
}
static void by_test(void) {
  for (int i = 0; i < MOST; ++i) {
    for (int flag = 0; !flag;) MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
  }
}
static void by_testany(void) {
  int index, flag;
  for (int active = begin_some(); active > 0; active -= flag) {
    MPI_Testany(MOST, left, &index, &flag, MPI_STATUS_IGNORE);
    if (flag) take(index);
  }
}
static void by_testsome(void) {
  int found, indices[MOST];
  for (int active = begin_some(); active > 0; active -= found) {
    MPI_Testsome(MOST, left, &found, indices, MPI_STATUSES_IGNORE);
    for (int i = 0; i < found; ++i) take(indices[i]);
  }
}
static void (*const completions[])(void) = {by_wait,    by_waitall,  by_waitall_with_statuses,
                                            by_waitany, by_waitsome, by_test,
                                            by_testany, by_testsome};
enum { COMPLETIONS = sizeof completions / sizeof completions[0] };

static void play(int kinds, int bytes, int key, void (*complete)(void)) {
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  mine = rank + key;
  sum = 0;
  memset(under_way, 0, sizeof under_way);
  memset(in, 0xee, (size_t)bytes);
  fill(out, (size_t)bytes, key + rank);
  if (kinds & 1 << IN) {
    MPI_Irecv(in, bytes, MPI_BYTE, last, TAG, MPI_COMM_WORLD, &requests[IN]);
    MPI_Isend(out, bytes, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &requests[OUT]);
    under_way[IN] = under_way[OUT] = true;
  }
  if (kinds & 1 << COLLECTIVE) {
    MPI_Start(&requests[COLLECTIVE]);
    under_way[COLLECTIVE] = true;
  }
  if (kinds & 1 << GENERALIZED) {
    MPI_Grequest_start(query, release, cancel, NULL, &requests[GENERALIZED]);
    MPI_Grequest_complete(requests[GENERALIZED]);
    under_way[GENERALIZED] = true;
  }
  if (kinds & 1 << PARTS_IN) {
    fill(parts_out, LARGE, key + rank + 50);
    MPI_Startall(2, &requests[PARTS_IN]);
    for (int i = 0; i < 4; ++i) MPI_Pready(i, requests[PARTS_OUT]);
    under_way[PARTS_IN] = under_way[PARTS_OUT] = true;
  }
  if (rank == 1) pass_time(0.001);
  complete();
  if (kinds & 1 << IN) check_bytes(in, (size_t)bytes, key + last, "a message among others");
  if (kinds & 1 << PARTS_IN) check_bytes(parts_in, LARGE, key + last + 50, "a partitioned message");
  int wanted = ranks * key + ranks * (ranks - 1) / 2;
  CHECK(!(kinds & 1 << COLLECTIVE) || sum == wanted, "the sum is %d, not %d", sum, wanted);
  CHECK(requests[GENERALIZED] == MPI_REQUEST_NULL, "a generalized request is left");
}

static void play_all(void) {
  const int sets[] = {1 << COLLECTIVE,
                      1 << GENERALIZED,
                      1 << PARTS_IN,
                      1 << COLLECTIVE | 1 << IN,
                      1 << GENERALIZED | 1 << IN,
                      1 << PARTS_IN | 1 << IN,
                      1 << COLLECTIVE | 1 << GENERALIZED | 1 << PARTS_IN | 1 << IN};
  const int sizes[] = {8, 4000, LARGE};
  const int rounds = ranks > 2 ? 1 : 2;  // slow with more ranks than cores
  for (int set = 0; set < 7; ++set) {
    for (int way = 0; way < COMPLETIONS; ++way) {
      for (int size = 0; size < (sets[set] & 1 << IN ? 3 : 1); ++size) {
        for (int round = 0; round < rounds; ++round) {
          play(sets[set], sizes[size], 10 * set + round, completions[way]);
        }
      }
    }
  }
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int i = 0; i < MOST; ++i) requests[i] = MPI_REQUEST_NULL;
  out = blank(LARGE), in = blank(LARGE), parts_out = blank(LARGE), parts_in = blank(LARGE);
  MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                     &requests[COLLECTIVE]);
  MPI_Precv_init(parts_in, 4, LARGE / 4, MPI_BYTE, last, 9, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &requests[PARTS_IN]);
  MPI_Psend_init(parts_out, 4, LARGE / 4, MPI_BYTE, next, 9, MPI_COMM_WORLD, MPI_INFO_NULL,
                 &requests[PARTS_OUT]);
  play_all();
  // With MPI_ERRORS_RETURN, waits of Manyhands take another path than with fatal errors, so all
  // cases run again.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  play_all();
  MPI_Request_free(&requests[COLLECTIVE]);
  MPI_Request_free(&requests[PARTS_IN]);
  MPI_Request_free(&requests[PARTS_OUT]);
  return end();
}
#else
int main(int argc, char** argv) {
  begin(&argc, &argv);
  return skip("this library has no persistent collectives");
}
#endif
