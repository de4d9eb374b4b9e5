// SPDX-License-Identifier: BSD-3-Clause
//
// Messages of the size of an RTS header, of its multiples and of neighbouring sizes arrive intact,
// among large messages of the same tag and into buffers that fit a large message. None must be
// taken for an RTS header, which has the same size.
//
// run: ranks 2
#include "check.h"

enum { MOST = 12 * RTS_HEADER + 2 };

int main(int argc, char** argv) {
  begin(&argc, &argv);
  unsigned char* large = filled(LARGE, 999);
  for (int bytes = 80; bytes < MOST; ++bytes) {
    unsigned char* data = filled((size_t)bytes, bytes);
    bool with_large = bytes % RTS_HEADER == 0;
    if (rank == 0) {
      MPI_Send(data, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
      if (with_large) MPI_Send(large, LARGE, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    } else {
      MPI_Status status;
      unsigned char* in = blank(LARGE);
      MPI_Recv(in, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
      check_status(&status, 0, TAG, bytes);
      check_bytes(in, (size_t)bytes, bytes, "a small message");
      check_blank(in, (size_t)bytes, LARGE, "behind a small message");
      if (with_large) {
        MPI_Recv(in, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status);
        check_status(&status, 0, TAG, LARGE);
        check_bytes(in, LARGE, 999, "a large message");
      }
      free(in);
    }
    free(data);
  }
  free(large);
  return end();
}
