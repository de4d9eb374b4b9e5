// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the sources of the program that prints every status (statuses.c).
#ifndef MH_TESTS_STATUSES_H
#define MH_TESTS_STATUSES_H

#include "../check.h"

#if MPI_VERSION >= 4
#define HAVE_MPI4 1
#endif

// ---- statuses.c ----
// Appends to the text that rank 0 prints at the end.
void print(const char* format, ...) __attribute__((format(printf, 1, 2)));
void print_status(const MPI_Status* status);
// Prints the source and the error class in the status of a failed call.
void print_error(const MPI_Status* status);
MPI_Status fresh_status(void);  // every byte is 0x5a

// ---- requests.c ----
void show_requests(bool with_errors);

// ---- blocking.c ----
void show_blocking_calls(bool with_errors);

#endif
