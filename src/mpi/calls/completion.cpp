// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/calls/completion.hpp"

#include "mpi/job/comms.hpp"
#include "mpi/protocol/handlers.hpp"
#include "mpi/protocol/lost_descriptors.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/protocol/send_descriptors.hpp"
#include "mpi/protocol/settle.hpp"

namespace mh::mpi {

int settle_and_raise(MPI_Request handle, const PendingReceivePtr& entry, MPI_Status* status) {
  if (!entry) {
    short_receives.settle(handle);
    return MPI_SUCCESS;
  }
  const int code = settle_request(handle, entry, status);
  if (code == MPI_SUCCESS) return code;
  const Comm* comm = entry->receipt.comm.get();
  return raise(comm != nullptr ? comms::for_errors(*comm) : MPI_COMM_WORLD, code);
}

int checked(int code, const MPI_Status& status) {
  if (code != MPI_SUCCESS && is_truncation(code)) send_descriptors::truncated(nullptr, status);
  return code;
}

int checked(int code, int count, const MPI_Status* statuses) {
  if (code != MPI_ERR_IN_STATUS) return code;
  for (std::size_t i = 0; i < length(count); ++i) checked(statuses[i].MPI_ERROR, statuses[i]);
  return code;
}

int failed(int code, MPI_Request handle, const PendingReceivePtr& entry, MPI_Status* status) {
  const bool dropped = drop_request(handle, entry, status);
  if (dropped && entry->receipt.envelope)
    code = handlers::raised_of_renewed(entry->receipt.comm.get(), code);
  return dropped && !entry->receipt.too_short ? code : checked(code, *status);
}

}  // namespace mh::mpi
