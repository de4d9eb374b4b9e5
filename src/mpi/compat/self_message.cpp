// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/compat/self_message.hpp"

#include <mutex>

#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/tags.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {

int send_to_self(const void* from, MPI_Count count, MPI_Datatype type, void* to, MPI_Count room,
                 MPI_Datatype to_type) {
  static std::mutex one_at_a_time;
  const ThreadLock hold(one_at_a_time);
  const int tag = tags::kRelaid.first;
  MPI_Request requests[2];
  by_count::Irecv(real, to, room, to_type, 0, tag, config.self_comm, &requests[0]);
  by_count::Isend(real, from, count, type, 0, tag, config.self_comm, &requests[1]);
  int code = MPI_SUCCESS;
  for (MPI_Request& request : requests) {
    int flag = 0;
    int tested = MPI_SUCCESS;
    while (tested == MPI_SUCCESS && flag == 0) {
      tested = real.Test(&request, &flag, MPI_STATUS_IGNORE);
      if (flag == 0) spin_pause();
    }
    if (code == MPI_SUCCESS) code = tested;
  }
  return code;
}

}  // namespace mh::mpi
