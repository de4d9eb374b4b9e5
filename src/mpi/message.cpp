// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/message.hpp"

namespace mh::mpi {

bool is_truncation(int code) {
  int error = MPI_SUCCESS;
  real.Error_class(code, &error);
  return error == MPI_ERR_TRUNCATE;
}

int raise(MPI_Comm comm, int code) {
  real.Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace mh::mpi
