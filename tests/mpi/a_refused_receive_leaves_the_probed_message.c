// SPDX-License-Identifier: BSD-3-Clause
//
// A receive that the library refuses leaves the message that a probe has seen: the next receive
// gets it. The messages have the size of an RTS header, and threads may probe, so that Manyhands
// itself holds the probed messages.
//
// run: ranks 2
// run: ranks 2 MH_FAKE_NODES=2
#include "check.h"

static void expect_refusal(int code) {
  CHECK(class_of(code) == MPI_ERR_COUNT || class_of(code) == MPI_ERR_ARG, "class %d",
        class_of(code));
}

static void receive(const unsigned char* sent) {
  unsigned char data[RTS_HEADER] = {0};
  MPI_Status status;
  MPI_Probe(1, TAG, MPI_COMM_WORLD, &status);
  expect_refusal(MPI_Recv(data, -1, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  MPI_Recv(data, RTS_HEADER, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &status);
  CHECK(memcmp(data, sent, RTS_HEADER) == 0, "the message is wrong");
}

static void receive_matched(const unsigned char* sent) {
  unsigned char data[RTS_HEADER] = {0};
  MPI_Status status;
  MPI_Message message;
  MPI_Mprobe(1, TAG, MPI_COMM_WORLD, &message, &status);
  expect_refusal(MPI_Mrecv(data, -1, MPI_BYTE, &message, MPI_STATUS_IGNORE));
  MPI_Mrecv(data, RTS_HEADER, MPI_BYTE, &message, &status);
  CHECK(memcmp(data, sent, RTS_HEADER) == 0, "the matched message is wrong");
  CHECK(status.MPI_SOURCE == 1 && status.MPI_TAG == TAG, "from %d, tag %d", status.MPI_SOURCE,
        status.MPI_TAG);
}

int main(int argc, char** argv) {
  if (!begin_with_threads(&argc, &argv)) return skip("this library has no MPI_THREAD_MULTIPLE");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  unsigned char* sent = filled(RTS_HEADER, 1);
  if (rank == 1)
    for (int i = 0; i < 2; ++i) MPI_Send(sent, RTS_HEADER, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
  if (rank == 0) {
    receive(sent);
    receive_matched(sent);
  }
  free(sent);
  return end();
}
