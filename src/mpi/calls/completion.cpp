// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/calls/completion.hpp"

#include "mpi/job/comms.hpp"
#include "mpi/protocol/handlers.hpp"
#include "mpi/protocol/lost_descriptors.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/protocol/send_descriptors.hpp"
#include "mpi/protocol/settle.hpp"

namespace mh::mpi {

int checked(int code, const MPI_Status& status) {
  if (code != MPI_SUCCESS && is_truncation(code)) send_descriptors::truncated(nullptr, status);
  return code;
}

int settled(int code, MPI_Request handle, const PendingReceivePtr& entry, MPI_Status* status) {
  if (code != MPI_SUCCESS) {
    const bool dropped = drop_request(handle, entry, status);
    if (dropped && entry->receipt.envelope)
      code = handlers::raised_of_renewed(entry->receipt.comm.get(), code);
    return dropped && !entry->receipt.too_short ? code : checked(code, *status);
  }
  if (!entry) {
    short_receives.settle(handle);
    return MPI_SUCCESS;
  }
  code = settle_request(handle, entry, status);
  if (code == MPI_SUCCESS) return code;
  const Comm* comm = entry->receipt.comm.get();
  return raise(comm != nullptr ? comms::for_errors(*comm) : MPI_COMM_WORLD, code);
}

}  // namespace mh::mpi
