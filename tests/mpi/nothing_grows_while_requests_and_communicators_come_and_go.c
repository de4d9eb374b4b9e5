// SPDX-License-Identifier: BSD-3-Clause
//
// Memory in use does not grow while thousands of communicators and persistent requests are made and
// freed, also while a persistent receive exists that is never started.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
#include <malloc.h>

#include "check.h"

// Memory pools of the libraries grow now and then, but a leak grows in every window of TIMES
// repetitions. So the test takes the window in which memory grew least: it may grow by
// MOST_BYTES_EACH for each repetition.
enum { WARM = 60, WINDOWS = 12, TIMES = 60, MOST_BYTES_EACH = 8 };

static int peer(void) { return 1 - rank; }

static void duplicates_of_duplicates(int i) {
  MPI_Comm first, second, third;
  MPI_Comm_dup(MPI_COMM_WORLD, &first);
  MPI_Comm_dup(first, &second);
  MPI_Comm_split(second, i % 2, rank, &third);
  MPI_Comm_free(&first);
  MPI_Comm_free(&third);
  MPI_Comm_free(&second);
}

static unsigned char *in, *out;

static void messages_on_new_communicators(int i) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Request requests[2];
  MPI_Irecv(in, THRESHOLD, MPI_BYTE, peer(), i % 9, comm, &requests[0]);
  MPI_Isend(out, THRESHOLD, MPI_BYTE, peer(), i % 9, comm, &requests[1]);
  MPI_Comm_free(&comm);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void persistent_requests(int i) {
  MPI_Request requests[2];
  MPI_Recv_init(in, THRESHOLD, MPI_BYTE, peer(), i % 9, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(out, THRESHOLD, MPI_BYTE, peer(), i % 9, MPI_COMM_WORLD, &requests[1]);
  MPI_Startall(2, requests);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (int k = 0; k < 2; ++k) MPI_Request_free(&requests[k]);
}

static void freed_while_active(int i) {
  MPI_Request receive, send;
  MPI_Irecv(in, THRESHOLD, MPI_BYTE, peer(), i % 9, MPI_COMM_WORLD, &receive);
  MPI_Send_init(out, THRESHOLD, MPI_BYTE, peer(), i % 9, MPI_COMM_WORLD, &send);
  MPI_Start(&send);
  MPI_Request_free(&send);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
}

static void (*const activities[])(int) = {duplicates_of_duplicates, messages_on_new_communicators,
                                          persistent_requests, freed_while_active};
static const char* const names[] = {"duplicates", "messages on new communicators",
                                    "persistent requests", "requests freed while active"};
enum { ACTIVITIES = sizeof activities / sizeof activities[0] };

static long in_use(void) {
  struct mallinfo2 now = mallinfo2();
  return (long)(now.uordblks + now.hblkhd);
}

static void watch(int which, const char* beside) {
  for (int i = 0; i < WARM; ++i) activities[which](i);
  MPI_Barrier(MPI_COMM_WORLD);
  long least = 1 << 20;
  for (int window = 0; window < WINDOWS; ++window) {
    long before = in_use();
    for (int i = 0; i < TIMES; ++i) activities[which](i);
    MPI_Barrier(MPI_COMM_WORLD);
    long grown = in_use() - before;
    if (grown < least) least = grown;
  }
  long each = least / TIMES;
  CHECK(each <= MOST_BYTES_EACH, "%s%s: %ld bytes more each time", names[which], beside, each);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  in = blank(2 * THRESHOLD), out = blank(2 * THRESHOLD);
  for (int which = 0; which < ACTIVITIES; ++which) watch(which, "");
  MPI_Request idle;
  unsigned char* room = blank(LARGE);
  MPI_Recv_init(room, LARGE, MPI_BYTE, peer(), 99, MPI_COMM_WORLD, &idle);
  for (int which = 0; which < ACTIVITIES; ++which) watch(which, " beside an idle receive");
  MPI_Request_free(&idle);
  free(room);
  free(in);
  free(out);
  return end();
}
