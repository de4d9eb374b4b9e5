// SPDX-License-Identifier: BSD-3-Clause
//
// Manyhands refuses what the MPI library refuses, before any data moves: an uncommitted type, a
// null buffer, a type that MPI_Fetch_and_op or MPI_Compare_and_swap does not take, MPI_NO_OP in an
// accumulate. Each error has the class that the library gives, and valid calls still work
// afterwards.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=4096 MH_EXCHANGE_THRESHOLD=4096
// run: ranks 4 helped MH_FAKE_NODES=2 MH_WINDOWS=all
#include "check.h"

static void expect(int code, int wanted, const char* what) {
  CHECK(class_of(code) == wanted, "%s: class %d, not %d", what, class_of(code), wanted);
}
static void expect_refusal(int code, const char* what) {
  CHECK(code != MPI_SUCCESS, "%s is not refused", what);
}

static int partner(void) { return (rank + ranks / 2) % ranks; }

static void refuse_in_windows(MPI_Win window, MPI_Datatype loose, MPI_Datatype pair) {
  int to = partner();
  long a[2] = {1, 1}, b[2] = {0, 0};
  expect(MPI_Put(a, 1, loose, to, 0, 1, loose, window), MPI_ERR_TYPE, "put");
  expect(MPI_Get(a, 1, loose, to, 0, 1, loose, window), MPI_ERR_TYPE, "get");
  expect(MPI_Put(a, 2, MPI_INT, to, 0, 1, loose, window), MPI_ERR_TYPE, "put there");
  expect(MPI_Accumulate(a, 1, loose, to, 0, 1, loose, MPI_SUM, window), MPI_ERR_TYPE, "accumulate");
  expect(MPI_Get_accumulate(a, 1, loose, b, 1, loose, to, 0, 1, loose, MPI_SUM, window),
         MPI_ERR_TYPE, "get_accumulate");
  expect(MPI_Fetch_and_op(a, b, loose, to, 0, MPI_REPLACE, window), MPI_ERR_TYPE, "fetch_and_op");
  expect(MPI_Compare_and_swap(a, b, b, loose, to, 0, window), MPI_ERR_TYPE, "compare_and_swap");
  expect(MPI_Accumulate(a, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_NO_OP, window), MPI_ERR_OP,
         "no_op");
  if (is_open_mpi()) return;  // Open MPI takes any type, and a null buffer
  expect(MPI_Fetch_and_op(a, b, pair, to, 0, MPI_REPLACE, window), MPI_ERR_TYPE, "fetched pair");
  expect(MPI_Compare_and_swap(a, b, b, pair, to, 0, window), MPI_ERR_TYPE, "swapped pair");
  expect(MPI_Compare_and_swap(a, b, b, MPI_DOUBLE, to, 0, window), MPI_ERR_TYPE, "swapped double");
  expect_refusal(MPI_Put(NULL, 1, MPI_LONG, to, 0, 1, MPI_LONG, window), "put from nowhere");
  expect_refusal(MPI_Get(NULL, 1, MPI_LONG, to, 0, 1, MPI_LONG, window), "get to nowhere");
  expect_refusal(MPI_Accumulate(NULL, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, window),
                 "accumulate from nowhere");
  expect_refusal(MPI_Fetch_and_op(NULL, b, MPI_LONG, to, 0, MPI_SUM, window),
                 "fetch_and_op from nowhere");
  expect_refusal(MPI_Compare_and_swap(a, NULL, b, MPI_LONG, to, 0, window), "compare with nothing");
}

// Makes valid calls that are similar to the refused ones.
static void swap(int to, MPI_Win window) {
  char seven = 7, had = 1, none = 0;
  expect(MPI_Compare_and_swap(&seven, &none, &had, MPI_CHAR, to, 1, window), MPI_SUCCESS, "char");
  MPI_Win_flush(to, window);
  CHECK(had == 0, "there was %d", had);
  long three = 3, was = 1, nothing = 0;
  expect(MPI_Compare_and_swap(&three, &nothing, &was, MPI_LONG, to, 0, window), MPI_SUCCESS,
         "long");
  MPI_Win_flush(to, window);
  CHECK(was == 0, "there was %ld", was);
}
static void accept_in_windows(MPI_Win window) {
  int to = partner();
  long seven = 7, had = 1, none = 0;
  if (!is_open_mpi()) swap(to, window);  // Open MPI 4 crashes in the swap
  MPI_Put(&seven, 1, MPI_LONG, to, 0, 1, MPI_LONG, window);
  MPI_Win_flush(to, window);
  expect(MPI_Fetch_and_op(NULL, &had, MPI_LONG, to, 0, MPI_NO_OP, window), MPI_SUCCESS, "fetch");
  MPI_Win_flush(to, window);
  CHECK(had == 7, "there is %ld", had);
  expect(MPI_Put(NULL, 0, MPI_LONG, to, 0, 0, MPI_LONG, window), MPI_SUCCESS, "put of nothing");
  expect(MPI_Put(&none, 1, MPI_LONG, to, 0, 1, MPI_LONG, window), MPI_SUCCESS, "put");
}

static void refuse_windows(MPI_Datatype loose, MPI_Datatype pair) {
  static long memory[4];
  MPI_Win windows[2];
  void* allocated;
  MPI_Win_create(memory, sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &windows[0]);
  MPI_Win_allocate(sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &allocated,
                   &windows[1]);
  memset(allocated, 0, sizeof memory);
  for (int i = 0; i < 2; ++i) {
    MPI_Win_set_errhandler(windows[i], MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, partner(), 0, windows[i]);
    refuse_in_windows(windows[i], loose, pair);
    accept_in_windows(windows[i]);
    MPI_Win_unlock(partner(), windows[i]);
    MPI_Win_free(&windows[i]);
  }
}

static void refuse_messages(MPI_Datatype loose) {
  unsigned char* data = blank(LARGE);
  MPI_Request request;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  expect(MPI_Send(data, 1, loose, partner(), TAG, MPI_COMM_WORLD), MPI_ERR_TYPE, "send");
  expect(MPI_Ssend(data, 1, loose, partner(), TAG, MPI_COMM_WORLD), MPI_ERR_TYPE, "ssend");
  expect(MPI_Isend(data, 1, loose, partner(), TAG, MPI_COMM_WORLD, &request), MPI_ERR_TYPE,
         "isend");
  expect(MPI_Recv(data, 1, loose, partner(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TYPE,
         "recv");
  expect(MPI_Irecv(data, 1, loose, partner(), TAG, MPI_COMM_WORLD, &request), MPI_ERR_TYPE,
         "irecv");
  expect(MPI_Send_init(data, 1, loose, partner(), TAG, MPI_COMM_WORLD, &request), MPI_ERR_TYPE,
         "send_init");
  expect(MPI_Send(NULL, LARGE, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD), MPI_ERR_BUFFER,
         "send from nowhere");
  expect(MPI_Isend(NULL, LARGE, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER,
         "isend from nowhere");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  free(data);
}

// The refused type is accepted once it is committed.
static void exchange(MPI_Datatype type) {
  unsigned char* data = filled(LARGE, rank);
  unsigned char* got = blank(LARGE);
  MPI_Sendrecv(data, 1, type, partner(), TAG, got, 1, type, partner(), TAG, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  check_bytes(got, LARGE, partner(), "the message");
  free(data);
  free(got);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Datatype loose, pair, large;
  MPI_Type_contiguous(2, MPI_INT, &loose);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Type_contiguous(LARGE, MPI_BYTE, &large);
  refuse_windows(loose, pair);
  refuse_messages(large);
  MPI_Type_commit(&large);
  exchange(large);
  MPI_Type_free(&loose);
  MPI_Type_free(&pair);
  MPI_Type_free(&large);
  return end();
}
