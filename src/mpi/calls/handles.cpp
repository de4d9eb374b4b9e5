// SPDX-License-Identifier: BSD-3-Clause
// Calls that free or change handles: communicators, datatypes, error handlers. Constructors that
// give a communicator an error handler. Also MPI_Barrier and MPI_File_open.
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
#include "wait/wait.hpp"

namespace mh::mpi {
namespace {

// Frees a communicator by `call`, MPI_Comm_free or MPI_Comm_disconnect. Before that, removes what
// Manyhands has recorded about the communicator (its Comm), because the library may reuse the
// handle at once. Delete callbacks, which the library runs in this thread first, still find the
// record. Messages under way on the communicator go on: their receives keep the Comm, and their
// sends do not use it.
int free_comm(MPI_Comm* comm, int (*call)(MPI_Comm*)) {
  const MPI_Comm handle = *comm;
  error_handlers::note_change();
  auto taken = switches.active ? comms::forget(handle) : nullptr;
  const int result = [&] {
    const comms::BeingFreed found(taken.get());
    return call(comm);
  }();
  arrivals::forget_comm(handle);
  error_handlers::note_change();  // a callback may have asked for the handler of this handle
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

// True if the communicator has ranks on several nodes. The answer is the same on all its ranks.
bool spans_nodes(MPI_Comm handle) {
  const Comm* comm = comms::find(handle);
  return comm != nullptr && !comm->on_one_node;
}

// Carries out MPI_Barrier on several nodes. Called while Manyhands may carry out the operations of
// windows over several nodes. The rank waits in the wait loop, which serves requests of other nodes
// sooner than the RMA server thread does (mpi/rma/serving.hpp).
int barrier_over_nodes(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = next.Ibarrier(comm, &request);
  return code == MPI_SUCCESS ? wait_request(&request, MPI_STATUS_IGNORE) : code;
}

// Called before a communicator gets this error handler, from its constructor or later.
void note_error_handler(MPI_Errhandler errhandler) {
  error_handlers::note_change();
  // The program's error handler may depend on the thread that runs it. From now on, therefore, no
  // waiting thread tests requests on behalf of other threads (the server of threads/election.hpp).
  if (error_handlers::is_users_handler(errhandler)) wait::share_no_waits();
  if (errhandler == MPI_ERRORS_ARE_FATAL) return;
  switches.errors_are_fatal = false;
  arrivals::end_tight_loops();
  // With an error handler of the program, a failing collective returns MPI_SUCCESS in some
  // libraries, so Manyhands would not see that a collective has failed on this rank alone. Arrival
  // barriers and rendezvous therefore end now, as after such a failure.
  if (switches.active && error_handlers::is_users_handler(errhandler) &&
      error_handlers::failing_calls_return_success())
    comms::end_arrival_barriers();
}

}  // namespace

namespace wrap {

int Barrier(MPI_Comm comm) {
  if (config.internode_windows && spans_nodes(comm)) return barrier_over_nodes(comm);
  if (switches.active && arrivals::barrier(comm)) return MPI_SUCCESS;
  return next.Barrier(comm);
}

int Comm_free(MPI_Comm* comm) { return free_comm(comm, next.Comm_free); }

// Open MPI waits in MPI_Comm_disconnect for all members, in a barrier.
int Comm_disconnect(MPI_Comm* comm) {
  arrivals::all(*comm, true);
  arrivals::left(*comm, MPI_SUCCESS);
  return free_comm(comm, next.Comm_disconnect);
}

// The rank leaves the collective before the library's call, whose ROMIO makes a collective call of
// its own on `comm`. A file that cannot be opened is no failure of the communicator.
int File_open(MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file) {
  arrivals::all(comm, true);
  arrivals::left(comm, MPI_SUCCESS);
  return next.File_open(comm, name, mode, info, file);
}

int Comm_set_info(MPI_Comm comm, MPI_Info info) {
  comms::read_hints(comm, info);
  return next.Comm_set_info(comm, info);
}

int Comm_create_from_group(MPI_Group group, const char* stringtag, MPI_Info info,
                           MPI_Errhandler errhandler, MPI_Comm* newcomm) {
  note_error_handler(errhandler);
  prepare_wait_in_library();
  return next.Comm_create_from_group(group, stringtag, info, errhandler, newcomm);
}

int Intercomm_create_from_groups(MPI_Group local_group, int local_leader, MPI_Group remote_group,
                                 int remote_leader, const char* stringtag, MPI_Info info,
                                 MPI_Errhandler errhandler, MPI_Comm* newintercomm) {
  note_error_handler(errhandler);
  prepare_wait_in_library();
  return next.Intercomm_create_from_groups(local_group, local_leader, remote_group, remote_leader,
                                           stringtag, info, errhandler, newintercomm);
}

int Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler errhandler) {
  note_error_handler(errhandler);
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
