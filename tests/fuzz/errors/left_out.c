// SPDX-License-Identifier: BSD-3-Clause
//
// The calls that the error fuzzer does not make under each MPI library, because the plain library
// crashes in them or answers differently from run to run. The traces use the same names for calls;
// `*` in a name matches any text.
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"

static const struct {
  const char* library;  // family and major version, or the family alone
  const char* what;
  const char* why;
} table[] = {
    {"openmpi", "*recv of a null message",
     "the error goes to MPI_COMM_NULL, whose handler ends the job"},
    {"openmpi", "two receives that are too short in one call",
     "the library frees a request that is under way"},
    {"openmpi4", "a send and an error in one call",
     "the error of a pending send is never set, and is read as the error of the call"},
    {"openmpi", "too short on a freed communicator",
     "the error goes to no communicator and ends the job"},
    {"openmpi", "persistent receives that are too short",
     "the error handling frees the request twice"},
    {"openmpi", "persistent receives that are never started",
     "MPI_Request_free frees the communicator, too"},
    {"openmpi", "*[Pp]robe with null_comm", "the error goes to MPI_COMM_NULL, as above"},
    {"openmpi", "Allgather with null_comm", "the call crashes"},
    {"openmpi", "* with same_buffers", "not checked: the call is carried out"},
    {"mpich", "*educe* with negative_count", "not checked: the call crashes, or other ranks hang"},
    {"mpich", "*can with negative_count", "not checked: the call crashes"},
    {"mpich", "* with raw_type", "not checked for some counts and calls: the message is sent"},
    {"mpich", "I* with null_type", "not checked: the call crashes"},
    {"mpich", "* of none with null_type", "not checked: the message is sent, or its receive waits"},
    {"mpich", "handlers of completions", "the version and the call decide whose handler is called"},
    {"mpich", "wrong constructor 1", "a split by a negative colour succeeds"},
    {"mpich4", "Bcast with null_type", "not checked: the ranks that pass the data on crash"},
    {"mpich4", "status of Irecv from nobody", "the status is that of an earlier request"},
    {"mpich5", "*educe* with null_type", "not checked: the call crashes"},
    {"mpich5", "*can with null_type", "not checked: the call crashes"},
};

static const char* library(void) {
  static char name[16];
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length, major = 0;
  if (name[0] != 0) return name;
  MPI_Get_library_version(text, &length);
  if (sscanf(text, "Open MPI v%d", &major) == 1) {
    snprintf(name, sizeof name, "openmpi%d", major);
  } else {
    const char* version = strstr(text, "ersion:");
    if (version != NULL) sscanf(version, "ersion: %d", &major);
    snprintf(name, sizeof name, "mpich%d", major);
  }
  return name;
}

bool left_out(const char* what) {
  for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i) {
    if (strncmp(library(), table[i].library, strlen(table[i].library)) != 0) continue;
    if (fnmatch(table[i].what, what, 0) == 0) return true;
  }
  return false;
}
