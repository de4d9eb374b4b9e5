// SPDX-License-Identifier: BSD-3-Clause
//
// MPI_File_open makes a collective call of its own in ROMIO, and may fail without an error of the
// communicator. Long messages go by rendezvous afterwards as before (test_opening_files.py).
//
// run: ranks 2
#include "check.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  char missing[] = "/tmp/mh-test-no-such-folder/file", there[] = "/tmp/mh-test-open-XXXXXX";
  if (rank == 0) close(mkstemp(there));
  MPI_Bcast(there, sizeof there, MPI_CHAR, 0, MPI_COMM_WORLD);

  MPI_File file;
  const int code = MPI_File_open(MPI_COMM_WORLD, missing, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
  CHECK(code != MPI_SUCCESS, "a file that does not exist was opened");
  MPI_File_open(MPI_COMM_WORLD, there, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_File_close(&file);
  if (rank == 0) unlink(there);

  unsigned char* data = rank == 0 ? filled(LARGE, 1) : blank(LARGE);
  if (rank == 0) MPI_Send(data, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
  if (rank == 1) {
    MPI_Recv(data, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_bytes(data, LARGE, 1, "after the files");
  }
  free(data);
  return end();
}
