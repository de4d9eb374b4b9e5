// SPDX-License-Identifier: BSD-3-Clause
//
// Prints all outputs of the completing calls of MPI: a line for each kind of request, each call and
// each array around the request.
//
// usage: mpiexec -n 2 statuses [errors]
//
// A line has the error class, flag, index, outcount and indices of the call, the state of the
// request handles after the call, and every byte of every status. All outputs hold a pattern before
// the call, so a line also shows the outputs that a call does not write. Rank 0 makes the calls and
// rank 1 is the other end of their messages. With `errors`, receives are truncated. Rendezvous ends
// with the first truncated receive.
#include "statuses.h"

#include <stdarg.h>

static char* text;
static size_t text_length, text_room;

void print(const char* format, ...) {
  va_list words;
  for (;;) {
    va_start(words, format);
    const int length = vsnprintf(text + text_length, text_room - text_length, format, words);
    va_end(words);
    if (text_length + (size_t)length < text_room) {
      text_length += (size_t)length;
      return;
    }
    text_room = 2 * text_room + 4096;
    text = realloc(text, text_room);
  }
}

void print_status(const MPI_Status* status) {
  const unsigned char* bytes = (const unsigned char*)status;
  print(" ");
  for (size_t i = 0; i < sizeof *status; ++i) {
    print("%s%02x", i % 4 == 0 && i > 0 ? "." : "", bytes[i]);
  }
}

void print_error(const MPI_Status* status) {
  const MPI_Status fresh = fresh_status();
  const bool is_written = status->MPI_ERROR != fresh.MPI_ERROR;
  print(" source %d error", status->MPI_SOURCE);
  if (is_written) {
    print(" %d", class_of(status->MPI_ERROR));
  } else {
    print(" untouched");
  }
}

MPI_Status fresh_status(void) {
  MPI_Status status;
  memset(&status, 0x5a, sizeof status);
  return status;
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const bool with_errors = argc > 1 && strcmp(argv[1], "errors") == 0;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, with_errors ? MPI_ERRORS_RETURN : MPI_ERRORS_ARE_FATAL);
  show_requests(with_errors);
  show_blocking_calls(with_errors);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank == 0) fwrite(text, 1, text_length, stdout);
  if (rank == 0) printf("PASS\n");
  return 0;
}
