// SPDX-License-Identifier: BSD-3-Clause
//
// Floating-point sums and products of many ranks, CALLS times each. The ranks may carry out the
// sums themselves after 64 calls on a communicator. Every result is compared, bit by bit, with the
// library's result on a communicator that is often made anew, where the library still computes. The
// cases: in place, on a subset of the ranks, and from Inf, NaN and zeros of either sign. Sums in
// another order than the library's differ in the last bit.
//
// run: ranks 3
// run: ranks 7 not mpich4 CALLS=70
// run: ranks 4 heap CALLS=70 LONG=20003
#include <math.h>

#include "check.h"

static uint64_t state = 1;

static uint64_t random_bits(void) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return state ^ state >> 29;
}

static double random_number(int call) {
  static const double special[] = {0.0, -0.0, HUGE_VAL, 1e-310, 1e308};
  if (call % 50 == 49 && random_bits() % 8 == 0) return special[random_bits() % 5];
  const double number = (double)(int64_t)random_bits() / (double)(1LL << 40);
  return number * (double)(1ULL << random_bits() % 40);
}

static void fill_numbers(void* data, int count, MPI_Datatype type, int call) {
  double* doubles = data;
  float* floats = data;
  for (int i = 0; i < count; ++i) {
    const double number = random_number(call);
    if (type == MPI_FLOAT) {
      floats[i] = (float)number;
    } else {
      doubles[i] = number;
    }
  }
}

static void compare(int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, int calls) {
  double* in = malloc((size_t)count * sizeof(double));
  double* ours = malloc((size_t)count * sizeof(double));
  double* theirs = malloc((size_t)count * sizeof(double));
  const size_t bytes = (size_t)count * (type == MPI_FLOAT ? sizeof(float) : sizeof(double));
  MPI_Comm fresh = MPI_COMM_NULL;
  for (int call = 0; call < calls; ++call) {
    if (call % 32 == 0) {
      if (fresh != MPI_COMM_NULL) MPI_Comm_free(&fresh);
      MPI_Comm_dup(comm, &fresh);
    }
    fill_numbers(in, count, type, call);
    MPI_Allreduce(in, theirs, count, type, op, fresh);
    const int in_place = call % 2;
    memcpy(ours, in, bytes);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : in, ours, count, type, op, comm);
    CHECK(memcmp(ours, theirs, bytes) == 0, "call %d of %d numbers: %g, not %g", call, count,
          type == MPI_FLOAT ? (double)((float*)ours)[0] : ours[0],
          type == MPI_FLOAT ? (double)((float*)theirs)[0] : theirs[0]);
  }
  MPI_Comm_free(&fresh);
  free(in);
  free(ours);
  free(theirs);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* given = getenv("CALLS");
  const int calls = given != NULL ? atoi(given) : 90;
  state += (uint64_t)rank;
  MPI_Comm but_one;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 1, -rank, &but_one);
  const char* length = getenv("LONG");
  if (length != NULL) compare(atoi(length), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, calls);
  compare(300, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, calls);
  compare(17, MPI_FLOAT, MPI_SUM, but_one, calls);
  compare(16, MPI_DOUBLE, MPI_PROD, MPI_COMM_WORLD, calls);
  MPI_Comm_free(&but_one);
  return end();
}
