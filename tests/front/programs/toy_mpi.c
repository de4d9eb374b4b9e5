/* SPDX-License-Identifier: BSD-3-Clause */
/* An unknown MPI library with the version string TOY_VERSION and the calls of toy_program.c. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef TOY_VERSION
#define TOY_VERSION "Toy MPI 1.0"
#endif

int PMPI_Get_library_version(char* version, int* length) {
  *length = (int)strlen(strcpy(version, TOY_VERSION));
  return 0;
}

int PMPI_Barrier(long comm) { return comm == 42 ? 0 : 1; }
int MPI_Barrier(long comm) { return PMPI_Barrier(comm); }

int PMPI_Pcontrol(const int level, ...) {
  va_list arguments;
  va_start(arguments, level);
  double sum = 0;
  for (int i = 0; i < 7; ++i) {
    sum += va_arg(arguments, double);
    sum += va_arg(arguments, int);
  }
  for (int i = 0; i < 3; ++i) sum += va_arg(arguments, double);
  va_end(arguments);
  printf("level %d sum %g\n", level, sum);
  return 0;
}
int MPI_Pcontrol(const int level, ...) __attribute__((alias("PMPI_Pcontrol")));
