// SPDX-License-Identifier: BSD-3-Clause
//
// An invalid argument of a persistent send or receive is an error when the request is made, with
// the class that the library gives. A valid request is made, started and freed as usual, also if
// the communicator or the datatype is freed in between. A persistent send that kept only the
// handles would use those of another object.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
#include "check.h"

typedef int Init(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
static Init* const inits[] = {MPI_Send_init, MPI_Ssend_init, MPI_Rsend_init};
enum { INITS = 3 };

// Open MPI does not check the datatype in the synchronous and ready modes, and crashes on a bad
// one, so these modes get no bad datatype there.
#ifdef OPEN_MPI
static const bool all_modes_look_at_types = false;
#else
static const bool all_modes_look_at_types = true;
#endif

static void check_refused(int code, int class, const char* what) {
  CHECK(code != MPI_SUCCESS, "%s was accepted", what);
  CHECK(class_of(code) == class, "%s is an error of class %d", what, class_of(code));
}

static void refusals(Init* init, unsigned char* data, int other) {
  MPI_Request request = MPI_REQUEST_NULL;
  int* largest = NULL;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found);
  check_refused(init(data, LARGE, MPI_BYTE, other, -3, MPI_COMM_WORLD, &request), MPI_ERR_TAG,
                "a negative tag");
  check_refused(init(data, LARGE, MPI_BYTE, other, MPI_ANY_TAG, MPI_COMM_WORLD, &request),
                MPI_ERR_TAG, "a wildcard for a tag");
  if (found && *largest < 2147483647) {
    check_refused(init(data, LARGE, MPI_BYTE, other, *largest + 1, MPI_COMM_WORLD, &request),
                  MPI_ERR_TAG, "a tag that is too large");
  }
  check_refused(init(data, LARGE, MPI_BYTE, ranks, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK,
                "a rank that is not there");
  check_refused(init(data, LARGE, MPI_BYTE, -77, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK,
                "a negative rank");
  check_refused(init(data, -1, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT,
                "a negative count");
  check_refused(init(data, LARGE, MPI_BYTE, other, 0, MPI_COMM_NULL, &request), MPI_ERR_COMM,
                "no communicator");
  if (init != MPI_Send_init && !all_modes_look_at_types) return;
  check_refused(init(data, LARGE, MPI_DATATYPE_NULL, other, 0, MPI_COMM_WORLD, &request),
                MPI_ERR_TYPE, "no datatype");
  MPI_Datatype uncommitted;
  MPI_Type_vector(LARGE / 4, 1, 2, MPI_BYTE, &uncommitted);
  check_refused(init(data, 1, uncommitted, other, 0, MPI_COMM_WORLD, &request), MPI_ERR_TYPE,
                "a datatype that is not committed");
  MPI_Type_free(&uncommitted);
  check_refused(init(NULL, LARGE, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER,
                "no buffer");
}

static void receive_refusals(unsigned char* data, int other) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_refused(MPI_Recv_init(data, LARGE, MPI_BYTE, other, -3, MPI_COMM_WORLD, &request),
                MPI_ERR_TAG, "a negative tag of a receive");
  check_refused(MPI_Recv_init(data, LARGE, MPI_BYTE, ranks, 0, MPI_COMM_WORLD, &request),
                MPI_ERR_RANK, "a rank that is not there");
  check_refused(MPI_Recv_init(data, -1, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request),
                MPI_ERR_COUNT, "a negative count of a receive");
}

// The request stays valid after its communicator or datatype is freed.
static void outlives(Init* init, int key, int vector) {
  MPI_Comm comm, again;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Datatype type;
  MPI_Type_vector(LARGE / 4, 2, vector ? 4 : 2, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  unsigned char *out = filled(LARGE, key), *in = blank(LARGE);
  MPI_Request requests[2];
  MPI_Recv_init(in, 1, type, 1 - rank, 0, comm, &requests[0]);
  init(out, 1, type, 1 - rank, 0, comm, &requests[1]);
  MPI_Type_free(&type);
  MPI_Comm_free(&comm);
  MPI_Comm_dup(MPI_COMM_WORLD, &again);  // may get the handle of `comm`
  for (int i = 0; i < 3; ++i) {
    memset(in, 0xee, LARGE);
    fill(out, LARGE, key + i);
    MPI_Start(&requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);  // a ready send needs a started receive
    MPI_Start(&requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (size_t at = 0; at < (vector ? LARGE - 4 : LARGE / 2); ++at) {
      unsigned char wanted = vector && at % 4 > 1 ? 0xee : byte_of(key + i, at);
      CHECK(in[at] == wanted, "byte %zu is %02x, not %02x", at, in[at], wanted);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
  MPI_Comm_free(&again);
  free(in);
  free(out);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  unsigned char* data = blank(LARGE);
  for (int i = 0; i < INITS; ++i) {
    refusals(inits[i], data, 1 - rank);
    outlives(inits[i], 10 * i, 0);
    outlives(inits[i], 10 * i, 1);
  }
  receive_refusals(data, 1 - rank);
  free(data);
  return end();
}
