// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, non-destructive tests: MPI_Request_get_status and its kin.
//
// A completed request stays in place; a described message is fetched all the same, so that the
// status is right.
#include "mpi/calls/completion.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/protocol/settle.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// A completed request stays in place.
void look_at(MPI_Request request, MPI_Status* status) {
  short_receives.look(request);
  if (pending_requests.any()) peek(request, status);
}

}  // namespace

namespace wrap {

int Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  if (!switches.active) return next.Request_get_status(request, flag, status);
  StatusOrOwn seen(status);
  const int code = next.Request_get_status(request, flag, seen.get());
  if (code != MPI_SUCCESS) return code;
  if (*flag == 0) return test_in_vain(code);
  look_at(request, seen.get());
  return code;
}

int Request_get_status_any(int count, const MPI_Request array_of_requests[], int* index, int* flag,
                           MPI_Status* status) {
  StatusOrOwn seen(status);
  const int code = next.Request_get_status_any(count, array_of_requests, index, flag, seen.get());
  if (code != MPI_SUCCESS || !switches.active) return code;
  if (*flag == 0) return test_in_vain(code);
  if (*index != MPI_UNDEFINED) look_at(array_of_requests[*index], seen.get());
  return code;
}

int Request_get_status_all(int count, const MPI_Request array_of_requests[], int* flag,
                           MPI_Status array_of_statuses[]) {
  if (!switches.active || !is_watching()) {
    const int code = next.Request_get_status_all(count, array_of_requests, flag, array_of_statuses);
    return switches.active && code == MPI_SUCCESS && *flag == 0 ? test_in_vain(code) : code;
  }
  Batch batch(count, array_of_requests, array_of_statuses);
  const int code = next.Request_get_status_all(count, array_of_requests, flag, batch.statuses());
  if (code == MPI_SUCCESS && *flag == 0) return test_in_vain(code);
  for (std::size_t i = 0; code == MPI_SUCCESS && i < batch.size(); ++i) {
    look_at(batch.handle(i), &batch.status(i));
  }
  return code;
}

int Request_get_status_some(int incount, const MPI_Request array_of_requests[], int* outcount,
                            int array_of_indices[], MPI_Status array_of_statuses[]) {
  if (!switches.active || !is_watching()) {
    const int code = next.Request_get_status_some(incount, array_of_requests, outcount,
                                                  array_of_indices, array_of_statuses);
    return switches.active && code == MPI_SUCCESS && *outcount == 0 ? test_in_vain(code) : code;
  }
  Batch batch(incount, array_of_requests, array_of_statuses);
  const int code = next.Request_get_status_some(incount, array_of_requests, outcount,
                                                array_of_indices, batch.statuses());
  if (code != MPI_SUCCESS || *outcount == MPI_UNDEFINED) return code;
  if (*outcount == 0) return test_in_vain(code);
  for (std::size_t i = 0; i < length(*outcount); ++i) {
    look_at(batch.handle(static_cast<std::size_t>(array_of_indices[i])), &batch.status(i));
  }
  return code;
}

}  // namespace wrap
}  // namespace mh::mpi
