// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3 of the MPI standard, non-destructive tests: MPI_Request_get_status and its variants.
// Chapter 4, MPI_Parrived.
//
// These calls leave a complete request in place. They nevertheless fetch a rendezvous message, so
// that the status is right.
#include "mpi/calls/completion.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

void look_at(MPI_Request request, MPI_Status* status) {
  if (rndv::receives.any()) rndv::correct_status(request, status);
}

int get_status(MPI_Request request, int* flag, MPI_Status* users) {
  StatusOrOwn status(users);
  const int code = poll_requests(
      Polls::once, flag, [&] { return next.Request_get_status(request, flag, status.get()); });
  if (code == MPI_SUCCESS && *flag != 0) look_at(request, status.get());
  return code;
}

int get_status_any(int count, const MPI_Request* requests, int* index, int* flag,
                   MPI_Status* users) {
  StatusOrOwn status(users);
  const int code = poll_requests(Polls::once, flag, [&] {
    return next.Request_get_status_any(count, requests, index, flag, status.get());
  });
  if (code == MPI_SUCCESS && *flag != 0 && *index != MPI_UNDEFINED) {
    look_at(requests[*index], status.get());
  }
  return code;
}

int get_status_all(int count, const MPI_Request* requests, int* flag, MPI_Status* users) {
  const bool watching = rndv::receives.any();
  Statuses statuses(count, users, watching);
  const int code = poll_requests(Polls::once, flag, [&] {
    return next.Request_get_status_all(count, requests, flag, statuses.get());
  });
  const std::size_t found = code == MPI_SUCCESS && *flag != 0 && watching ? length(count) : 0;
  for (std::size_t i = 0; i < found; ++i) look_at(requests[i], &statuses[i]);
  return code;
}

int get_status_some(int count, const MPI_Request* requests, int* found, int* indices,
                    MPI_Status* users) {
  const bool watching = rndv::receives.any();
  Statuses statuses(count, users, watching);
  const int code = poll_requests(Polls::once, found, [&] {
    return next.Request_get_status_some(count, requests, found, indices, statuses.get());
  });
  if (code != MPI_SUCCESS || !watching) return code;
  for (std::size_t i = 0; i < length(*found); ++i) look_at(requests[indices[i]], &statuses[i]);
  return code;
}

// Partitioned messages are the library's. While the program polls for one, this rank takes the
// messages of its other receives.
int partition_arrived(MPI_Request request, int partition, int* flag) {
  return poll_requests(Polls::once, flag, [&] { return next.Parrived(request, partition, flag); });
}

}  // namespace
}  // namespace mh::mpi

#include "mpi/calls/get_status.inc"
