// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/message.hpp"

#include <cstdio>

#include "mpi/next.hpp"

namespace mh::mpi {

namespace {

int class_of(int code) {
  int error = MPI_SUCCESS;
  real.Error_class(code, &error);
  return error;
}

}  // namespace

bool is_truncation(int code) { return class_of(code) == MPI_ERR_TRUNCATE; }
bool is_pending(int code) { return class_of(code) == MPI_ERR_PENDING; }

bool is_users_handler(MPI_Errhandler handler) {
  return handler != MPI_ERRORS_RETURN && handler != MPI_ERRORS_ARE_FATAL &&
         handler != MPI_ERRORS_ABORT;
}

bool failure_is_told_to_handlers_alone() {
  static const bool alone = [] {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    real.Get_library_version(text, &length);
    int major = 0;
    return std::sscanf(text, "MPICH Version: %d", &major) == 1 && major >= 5;
  }();
  return alone;
}

int raise(MPI_Comm comm, int code) {
  real.Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace mh::mpi
