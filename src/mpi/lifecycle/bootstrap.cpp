// SPDX-License-Identifier: BSD-3-Clause
// Start and end of Manyhands in a process: MPI_Init, MPI_Init_thread, MPI_Finalize, MPI_Abort; also
// MPI_Pcontrol. Runs in one thread.
#include <algorithm>

#include "base/clock.hpp"
#include "base/say.hpp"
#include "base/settings.hpp"
#include "mpi/collective/arrivals.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/front/entry.hpp"
#include "mpi/internode/internode.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/lifecycle/node_setup.hpp"
#include "mpi/lifecycle/parts.hpp"
#include "mpi/next.hpp"
#include "mpi/profile/profile.hpp"
#include "mpi/rma/remote.hpp"
#include "mpi/rma/windows.hpp"
#include "mpi/rndv/persistent_sends.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "mpi/wrappers.hpp"
#include "openmp/marker.hpp"
#include "openmp/sharing.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {
namespace {

void say_settings() {
  if (config.world_rank != 0) return;
  for (const std::string& warning : loaded_settings().warnings) print_message("{}", warning);
  if (settings().enable && settings().threshold < kLeastThreshold)
    print_message("MH_THRESHOLD={} counts as {}: shorter messages gain nothing",
                  settings().threshold, kLeastThreshold);
}

// Prints, once per node, why the kernel does not copy large messages, unless the settings forbid
// such copies.
void say_why_not() {
  const bool chosen = !settings().enable || settings().memory == MemoryPath::none ||
                      settings().memory == MemoryPath::cells ||
                      settings().memory == MemoryPath::mapped || config.ranks == 1;
  if (config.single_copy || config.me != 0 || chosen) return;
  print_message("large messages{} go through {}: {}; `mh doctor` explains",
                config.heaps_mapped ? " outside the shared heap" : "",
                config.pipelines ? "shared cells" : "the MPI library",
                node_setup::why_no_single_copy());
}

// Starts Manyhands after the library's MPI_Init* has succeeded. Collective over MPI_COMM_WORLD.
void start_helping() {
  const std::uint64_t begin = ticks();
  int level = MPI_THREAD_SINGLE;
  real.Query_thread(&level);
  detail::config.multiple = level == MPI_THREAD_MULTIPLE;
  switches.threads = config.multiple;
  if (config.multiple) openmp::permit_teams();
  real.Comm_rank(MPI_COMM_WORLD, &detail::config.world_rank);
  MPI_Errhandler handler{};
  real.Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  switches.errors_are_fatal = handler == MPI_ERRORS_ARE_FATAL;
  detail::config.unmapped_threshold =
      std::max<std::uint64_t>(settings().threshold, kLeastThreshold);
  detail::config.least_threshold = config.unmapped_threshold;
  detail::config.exchange_threshold = settings().exchange_threshold;
  detail::config.help_threshold = settings().help_threshold;
  detail::config.mapped_help_threshold = settings().mapped_help_threshold;
  say_settings();
  node_setup::await_everyone();
  node_setup::make_communicators();
  node_setup::build_node();
  node_setup::agree_on_threshold();
  say_why_not();
  switches.started = true;
  if (switches.active) cores::share_cores();
  internode::start();
  rma::remote::start_internode();
  if (!switches.active) return;
  comms::start();
  services.counters().start_tick.set(begin);
  wait::install_actions(&node_work(), cores::rules());
  park_light_tasks();
}

void start_all() {
  start_helping();
  profile::start();
}

// Stops Manyhands before the library's MPI_Finalize. Collective over MPI_COMM_WORLD.
void stop_helping() {
  if (!switches.started) return;
  switches.started = false;
  wait::offer_tasks({});  // no task may run on top of a task that has called exit()
  // Waits until all ranks of MPI_COMM_WORLD on this node have reached this call of MPI_Finalize,
  // and helps them meanwhile: after this barrier none of them needs this rank.
  if (switches.active) arrivals::barrier(MPI_COMM_WORLD);
  node_setup::withdraw_node();
  rma::remote::stop_internode();
  internode::stop([] { return rndv::receives.any(); });
  openmp::stop_sharing();
  write_report(config.rendezvous ? "" : node_setup::why_no_single_copy());
  wait::install_actions(nullptr, {});
  cores::take_back_cores();
  arrivals::end_tight_loops();
  if (switches.active) {
    rma::stop_windows();
    rndv::stop_persistent_sends();
    rndv::free_kept_types();
    comms::stop();
  }
  switches.active = false;
  detail::config.rendezvous = detail::config.single_copy = detail::config.heaps_mapped = false;
  detail::config.pipelines = false;
  real.Comm_free(&detail::config.node_comm);
  datatypes::stop_commit_probes();
  real.Comm_free(&detail::config.self_comm);
  // The segment stays mapped, since threads of the program may still be inside an intercepted call.
  // The mapping goes with the process, which is about to end.
}

// True if MPI_Init_thread of the library is to be asked for MPI_THREAD_MULTIPLE, whatever the
// program asks for: iterations of a loop on a lent core may call MPI at any time. MPI allows to
// provide more than the requested level.
bool wants_all_threads() {
  if (!settings().enable) return false;
  // The RMA server thread carries out requests of other nodes (rma/serving.hpp), and so calls MPI
  // beside the program's threads.
  if (settings().windows == WindowScope::all) return true;
  const ThreadLevel level = settings().thread_level;
  return level == ThreadLevel::multiple ||
         (level == ThreadLevel::automatic && openmp::has_marked_loops());
}

}  // namespace

mh_marker marker() { return openmp::mark_next_region; }

namespace wrap {

int Init(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  const int code = wants_all_threads()
                       ? next.Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided)
                       : next.Init(argc, argv);
  if (code == MPI_SUCCESS) start_all();
  return code;
}

int Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int level = wants_all_threads() ? MPI_THREAD_MULTIPLE : required;
  const int code = next.Init_thread(argc, argv, level, provided);
  if (code == MPI_SUCCESS) start_all();
  return code;
}

int Finalize() {
  stop_helping();
  return next.Finalize();
}

int Abort(MPI_Comm comm, int errorcode) { return next.Abort(comm, errorcode); }

void Pcontrol(int level) { switches.switched_on.store(level != 0, std::memory_order_relaxed); }

}  // namespace wrap
}  // namespace mh::mpi
