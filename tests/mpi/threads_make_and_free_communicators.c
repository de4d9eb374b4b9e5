// SPDX-License-Identifier: BSD-3-Clause
//
// Threads of two ranks, with MPI_THREAD_MULTIPLE, repeatedly make and free their own communicators
// by every constructor. The threads use the communicators concurrently: messages of all lengths
// with one tag, collectives, both or neither. Some communicators are freed while a message is under
// way, some by one rank long before the other enters the last collective. Freed handles are reused.
// Each message arrives on its own communicator; state left under a reused handle would hang or
// misdirect it.
//
// run: ranks 2 THREADS=1
// run: ranks 2 THREADS=2
// run: ranks 2 THREADS=4
// run: ranks 2 THREADS=4 MH_CORES=8
// run: ranks 2 THREADS=4 MH_WAIT_TOGETHER=0
// run: ranks 3 THREADS=3
#include <pthread.h>

#include "check.h"

enum { ROUNDS = 72, MOST_THREADS = 16, KEPT = 3, WAYS = 9, USES = 5, SECONDS = 8 };

struct maker {
  pthread_t thread;
  int index;
  MPI_Comm base;
  MPI_Comm kept[KEPT];
};

static struct maker makers[MOST_THREADS];

static MPI_Comm with_group(MPI_Comm base, bool collective, int tag) {
  MPI_Comm made;
  MPI_Group group;
  MPI_Comm_group(base, &group);
  if (collective)
    MPI_Comm_create(base, group, &made);
  else
    MPI_Comm_create_group(base, group, tag, &made);
  MPI_Group_free(&group);
  return made;
}

static MPI_Comm in_background(MPI_Comm base) {
  MPI_Comm made;
  MPI_Request request;
  MPI_Comm_idup(base, &made, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return made;
}

static MPI_Comm neighbours(MPI_Comm base) {
  MPI_Comm made;
  const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks, weight = 1;
  MPI_Dist_graph_create_adjacent(base, 1, &last, &weight, 1, &next, &weight, MPI_INFO_NULL, 0,
                                 &made);
  return made;
}

static MPI_Comm made_in(int way, const struct maker* m) {
  MPI_Comm made = MPI_COMM_NULL;
  const int periodic = 1;
  switch (way) {
    case 0:
      MPI_Comm_dup(m->base, &made);
      break;
    case 1:
      MPI_Comm_dup_with_info(m->base, MPI_INFO_NULL, &made);
      break;
    case 2:
      made = in_background(m->base);
      break;
    case 3:
      MPI_Comm_split(m->base, 7, -rank, &made);
      break;
    case 4:
      MPI_Comm_split_type(m->base, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made);
      break;
    case 5:
      made = with_group(m->base, true, 0);
      break;
    case 6:
      made = with_group(m->base, false, m->index);
      break;
    case 7:
      MPI_Cart_create(m->base, 1, &ranks, &periodic, 0, &made);
      break;
    default:
      made = neighbours(m->base);
  }
  return made;
}

static int bytes_of(int round) {
  static const int all[] = {1, 96, 4096, THRESHOLD, LARGE};
  return all[round % 5];
}

// Sends around a ring, with the tag that all threads use. Frees `comm` before or after completion.
static void talk(MPI_Comm* comm, int key, int bytes, bool free_early) {
  int own;
  MPI_Comm_rank(*comm, &own);
  const int next = (own + 1) % ranks, last = (own + ranks - 1) % ranks;
  unsigned char *out = filled((size_t)bytes, key + own), *in = blank((size_t)bytes);
  MPI_Request requests[2];
  MPI_Status statuses[2];
  MPI_Irecv(in, bytes, MPI_BYTE, key % 2 ? MPI_ANY_SOURCE : last, TAG, *comm, &requests[0]);
  MPI_Isend(out, bytes, MPI_BYTE, next, TAG, *comm, &requests[1]);
  if (free_early) MPI_Comm_free(comm);
  MPI_Waitall(2, requests, statuses);
  check_status(&statuses[0], last, TAG, bytes);
  check_bytes(in, (size_t)bytes, key + last, "on a communicator of this thread");
  free(in);
  free(out);
}

static void sum(MPI_Comm comm, int key) {
  int own, mine, total = 0, expected = 0;
  MPI_Comm_rank(comm, &own);
  mine = key + own;
  for (int r = 0; r < ranks; ++r) expected += key + r;
  MPI_Allreduce(&mine, &total, 1, MPI_INT, MPI_SUM, comm);
  CHECK(total == expected, "the sum is %d in place of %d", total, expected);
}

// The root of the broadcast, rank 0, frees the communicator before the other ranks, which are late,
// enter the broadcast.
static void leave_early(MPI_Comm* comm, int key) {
  int own, value;
  MPI_Comm_rank(*comm, &own);
  value = own == 0 ? key : -1;
  if (own != 0) usleep(200);
  MPI_Bcast(&value, 1, MPI_INT, 0, *comm);
  MPI_Comm_free(comm);
  CHECK(value == key, "%d was sent in place of %d", value, key);
}

static void use(MPI_Comm* comm, int round, int key) {
  const int bytes = bytes_of(round / USES);
  switch (round % USES) {
    case 0:
      return talk(comm, key, bytes, true);
    case 1:
      talk(comm, key, bytes, false);
      return sum(*comm, key);
    case 2:
      MPI_Barrier(*comm);
      talk(comm, key, bytes, false);
      return leave_early(comm, key);
    case 3:
      sum(*comm, key);
      MPI_Barrier(*comm);
      return;
    default:
      return;  // the communicator is not used
  }
}

static void* make(void* argument) {
  struct maker* m = argument;
  for (int round = 0; round < ROUNDS; ++round) {
    const int key = m->index * 10007 + round * 101;
    MPI_Comm* place = &m->kept[round % KEPT];
    if (*place != MPI_COMM_NULL) MPI_Comm_free(place);
    *place = made_in(round % WAYS, m);
    use(place, round, key);
    if (round % 16 == 15 && is_late(m->base, SECONDS)) break;
  }
  for (int i = 0; i < KEPT; ++i) {
    if (m->kept[i] != MPI_COMM_NULL) MPI_Comm_free(&m->kept[i]);
  }
  return NULL;
}

// No message goes by rendezvous once an intercommunicator exists, so this part is last.
static void make_intercommunicators(struct maker* m) {
  MPI_Comm side, inter, merged;
  for (int i = 0; i < 4; ++i) {
    MPI_Comm_split(m->base, rank > 0, rank, &side);
    MPI_Intercomm_create(side, 0, m->base, rank > 0 ? 0 : 1, TAG, &inter);
    MPI_Intercomm_merge(inter, rank > 0, &merged);
    talk(&merged, i, LARGE, false);
    sum(merged, i);
    sum(m->base, i);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&side);
  }
}

// Open MPI 4 opens its framework of topologies at the first topology, without a lock. If two
// threads make their first topologies at once, they crash, also without Manyhands.
static void make_first_topology(void) {
  MPI_Comm made;
  const int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &made);
  MPI_Comm_free(&made);
}

int main(int argc, char** argv) {
  if (!begin_with_threads(&argc, &argv)) return skip("this library has no MPI_THREAD_MULTIPLE");
  const int threads = wanted_threads();
  make_first_topology();
  for (int i = 0; i < threads; ++i) {
    makers[i].index = i;
    MPI_Comm_dup(MPI_COMM_WORLD, &makers[i].base);
    for (int k = 0; k < KEPT; ++k) makers[i].kept[k] = MPI_COMM_NULL;
  }
  for (int i = 1; i < threads; ++i) pthread_create(&makers[i].thread, NULL, make, &makers[i]);
  make(&makers[0]);
  for (int i = 1; i < threads; ++i) pthread_join(makers[i].thread, NULL);
  make_intercommunicators(&makers[0]);
  for (int i = 0; i < threads; ++i) MPI_Comm_free(&makers[i].base);
  return end();
}
