// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_Comm_spawn starts a copy of this program, and large messages between parent and child arrive.
// The child is another MPI job, whose ranks must not be taken for ranks of the parent's node
// segment.
//
// run: ranks 1
#include "check.h"

static void talk(MPI_Comm inter, bool parent) {
  unsigned char *out = filled(LARGE, parent), *in = blank(LARGE);
  MPI_Status status;
  MPI_Sendrecv(out, LARGE, MPI_BYTE, 0, TAG, in, LARGE, MPI_BYTE, 0, TAG, inter, &status);
  check_status(&status, 0, TAG, LARGE);
  check_bytes(in, LARGE, !parent, "between a parent and its child");
  MPI_Comm_disconnect(&inter);
  free(in);
  free(out);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm parent, child;
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    talk(parent, false);
    MPI_Finalize();
    return 0;
  }
  int code = 0;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, &code)) {
    return skip("this library cannot spawn here");
  }
  talk(child, true);
  return end();
}
