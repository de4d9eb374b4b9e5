// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/message.hpp"

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

int raise(MPI_Comm comm, int code) {
  real.Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace mh::mpi
