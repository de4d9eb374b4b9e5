// SPDX-License-Identifier: BSD-3-Clause
// Chapter 11, start and end: MPI_Init, MPI_Init_thread, MPI_Finalize, MPI_Abort; MPI_Pcontrol.
#include "base/settings.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/lifecycle/bootstrap.hpp"
#include "mpi/next.hpp"
#include "mpi/wrappers.hpp"
#include "openmp/sharing.hpp"

namespace mh::mpi {
namespace {

// Iterations that others do may call MPI at any time. MPI allows the library to grant more than was
// asked for, so the program sees what there is.
bool wants_all_threads() {
  // So does the thread that carries out what other nodes ask for (onesided/server_thread.hpp).
  if (settings().enable && settings().windows == WindowScope::all) return true;
  switch (settings().thread_level) {
    case ThreadLevel::automatic:
      return openmp::has_marked_loops();
    case ThreadLevel::multiple:
      return true;
    case ThreadLevel::keep:
      break;
  }
  return false;
}

}  // namespace

namespace wrap {

int Init(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  const int code = wants_all_threads()
                       ? next.Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided)
                       : next.Init(argc, argv);
  if (code == MPI_SUCCESS) start();
  return code;
}

int Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int level = wants_all_threads() ? MPI_THREAD_MULTIPLE : required;
  const int code = next.Init_thread(argc, argv, level, provided);
  if (code == MPI_SUCCESS) start();
  return code;
}

int Finalize() {
  stop();
  return next.Finalize();
}

int Abort(MPI_Comm comm, int errorcode) { return next.Abort(comm, errorcode); }

void Pcontrol(int level) { switches.switched_on.store(level != 0, std::memory_order_relaxed); }

}  // namespace wrap
}  // namespace mh::mpi
