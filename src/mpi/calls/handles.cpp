// SPDX-License-Identifier: BSD-3-Clause
// Calls that change what is known of handles: communicators, datatypes, error handlers.
// Also the barrier.
#include <string_view>

#include "mpi/collective/arrivals.hpp"
#include "mpi/compat/error_handlers.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "mpi/wrappers.hpp"
#include "steal/chunking.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {
namespace {

constexpr const char* kAccessKey = "post_comm_access";

// The hint of CAB-MPI, III-E1. Unknown values are no hint; unknown keys are the library's business.
void read_access_hint(MPI_Comm handle, MPI_Info info) {
  Comm* comm = comms::find(handle);
  if (comm == nullptr || info == MPI_INFO_NULL) return;
  char value[16] = {};
  int flag = 0;
  real.Info_get(info, kAccessKey, static_cast<int>(sizeof value) - 1, value, &flag);
  if (flag == 0) return;
  const std::string_view wanted = value;
  if (wanted == "lo-to-hi") comm->order = steal::order_for(AccessOrder::low_to_high);
  if (wanted == "hi-to-lo") comm->order = steal::order_for(AccessOrder::high_to_low);
  if (wanted == "random") comm->order = steal::order_for(AccessOrder::random);
}

// Its handle may be another communicator's at once, so it is taken from the table before the call.
int free_comm(MPI_Comm* comm, int (*call)(MPI_Comm*)) {
  error_handlers::note_change();
  arrivals::forget_comm(*comm);
  auto taken = switches.active ? comms::take(*comm) : nullptr;
  const int result = call(comm);
  if (taken == nullptr) return result;
  if (result == MPI_SUCCESS) {
    rndv::receives.keep_comm(taken);
    arrivals::leave(*taken);
    comms::leave(*taken);
  } else {
    comms::restore(std::move(taken));
  }
  return result;
}

// The same answer on all its members.
bool spans_nodes(MPI_Comm handle) {
  const Comm* comm = comms::find(handle);
  return comm != nullptr && !comm->on_one_node;
}

// Where windows over several nodes may be ours: in the wait loop, in which a rank serves those of
// other nodes far sooner than the thread that it has for that (mpi/rma/serving.hpp).
int barrier_over_nodes(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = next.Ibarrier(comm, &request);
  wait::until([&] {
    int flag = 0;
    if (code == MPI_SUCCESS) code = real.Test(&request, &flag, MPI_STATUS_IGNORE);
    return code != MPI_SUCCESS || flag != 0;
  });
  return code;
}

}  // namespace

namespace wrap {

int Barrier(MPI_Comm comm) {
  if (config.internode_windows && spans_nodes(comm)) return barrier_over_nodes(comm);
  if (switches.active && arrivals::barrier(comm)) return MPI_SUCCESS;
  return next.Barrier(comm);
}

int Comm_free(MPI_Comm* comm) { return free_comm(comm, next.Comm_free); }

int Comm_disconnect(MPI_Comm* comm) { return free_comm(comm, next.Comm_disconnect); }

int Comm_set_info(MPI_Comm comm, MPI_Info info) {
  if (switches.active) read_access_hint(comm, info);
  return next.Comm_set_info(comm, info);
}

int Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler) {
  error_handlers::note_change();
  // It may count on being called by the thread whose call fails.
  if (error_handlers::is_users_handler(errhandler)) wait::share_no_waits();
  if (errhandler != MPI_ERRORS_ARE_FATAL) {
    switches.errors_are_fatal = false;
    arrivals::end_tight_loops();
    // Collectives may fail from now on, and nobody else sees it.
    if (switches.active && error_handlers::is_users_handler(errhandler) &&
        error_handlers::failure_is_told_to_handlers_alone())
      comms::note_failed_collective();
  }
  return next.Comm_set_errhandler(comm, errhandler);
}

int Type_free(MPI_Datatype* datatype) {
  if (switches.active && rndv::keep_type(*datatype)) {
    *datatype = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
  }
  datatypes::forget_type(*datatype);
  return next.Type_free(datatype);
}

}  // namespace wrap
}  // namespace mh::mpi
