// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/compat/error_handlers.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <vector>

#include "base/tuning.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::error_handlers {
namespace {

MPI_Errhandler handler_of(MPI_Comm comm) {
  MPI_Errhandler handler{};
  real.Comm_get_errhandler(comm, &handler);
  return handler;
}

// Gives a handle back that handler_of() made.
void let_go(MPI_Errhandler handler) {
  if (is_users_handler(handler)) real.Errhandler_free(&handler);
}

// Open MPI raises errors where they belong.
#if defined(MH_ABI_OPENMPI)
constexpr bool kRaisesElsewhere = false;
#else
constexpr bool kRaisesElsewhere = true;
#endif

// Handlers that are set aside just now, by how many waits: the first one takes a handler away, the
// last one gives it back. Never destroyed: threads may wait when the process ends.
struct Held {
  MPI_Comm comm;
  MPI_Errhandler handler;
  int waits;
};
std::mutex g_mutex;  // guards what follows
std::vector<Held>& g_held = *new std::vector<Held>;

// With the mutex.
std::vector<Held>::iterator held(MPI_Comm comm) {
  return std::find_if(g_held.begin(), g_held.end(),
                      [comm](const Held& one) { return one.comm == comm; });
}

// The program's own handlers, be they set aside or not.
bool compare_with_world(MPI_Comm comm) {
  const ThreadLock hold(g_mutex);
  const auto own = held(comm);
  const auto worlds = held(MPI_COMM_WORLD);
  const MPI_Errhandler ours = own != g_held.end() ? own->handler : handler_of(comm);
  const MPI_Errhandler world =
      worlds != g_held.end() ? worlds->handler : handler_of(MPI_COMM_WORLD);
  const bool differs = ours != world;
  if (own == g_held.end()) let_go(ours);
  if (worlds == g_held.end()) let_go(world);
  return differs;
}

// Of the communicator that this thread asked for last.
struct Known {
  std::uint64_t comm = 0;
  std::uint32_t changes = 0;
  bool differs = false;
};

bool differs_from_world(MPI_Comm comm) {
  thread_local Known known;
  const std::uint32_t now = changes.load(std::memory_order_relaxed);
  if (known.comm == bits_of(comm) && known.changes == now) return known.differs;
  known = {.comm = bits_of(comm), .changes = now, .differs = compare_with_world(comm)};
  return known.differs;
}

// One thread at a time raises an error, and meanwhile no other sets a handler aside: the handler
// would be gone again before it is called. A handler may call MPI, or wait for other threads, so
// the lock is recursive and its wait has a bound. Taken before g_mutex.
std::recursive_timed_mutex g_raising;

using RaisingTurn = std::unique_lock<std::recursive_timed_mutex>;

RaisingTurn take_turn() {
  constexpr std::chrono::duration<double, std::nano> kBound(tuning::kHandlerPatienceNs);
  return switches.threads ? RaisingTurn(g_raising, kBound) : RaisingTurn();
}

// Other threads may still have the handler of `comm` set aside: it is there for this error.
int raise_by_handler(MPI_Comm comm, int code) {
  const RaisingTurn turn = take_turn();
  const auto set = [comm](bool back) {
    const ThreadLock hold(g_mutex);
    const auto found = held(comm);
    if (found == g_held.end()) return;
    real.Comm_set_errhandler(comm, back ? found->handler : MPI_ERRORS_RETURN);
  };
  set(true);
  const int raised = raise(comm, code);
  set(false);
  return raised;
}

}  // namespace

bool is_users_handler(MPI_Errhandler handler) {
#if !defined(MH_ABI_OPENMPI)  // Open MPI 4 has none
  if (handler == MPI_ERRORS_ABORT) return false;
#endif
  return handler != MPI_ERRORS_RETURN && handler != MPI_ERRORS_ARE_FATAL;
}

bool failure_is_told_to_handlers_alone() {
  static const bool alone = [] {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    real.Get_library_version(text, &length);
    int major = 0;
    return std::sscanf(text, "MPICH Version: %d", &major) == 1 && major >= 5;
  }();
  return alone;
}

Override::Override(MPI_Comm comm) : comm_(comm) {
  const RaisingTurn turn = take_turn();
  const ThreadLock hold(g_mutex);
  if (const auto found = held(comm); found != g_held.end()) {
    ++found->waits;
    return;
  }
  g_held.push_back({.comm = comm, .handler = handler_of(comm), .waits = 1});
  real.Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

Override::~Override() {
  const ThreadLock hold(g_mutex);
  const auto found = held(comm_);
  if (--found->waits != 0) return;
  real.Comm_set_errhandler(comm_, found->handler);
  let_go(found->handler);
  g_held.erase(found);
}

ReceiveErrors::ReceiveErrors(MPI_Comm comm) : comm_(comm) {
  if (!kRaisesElsewhere || switches.errors_are_fatal || comm == MPI_COMM_NULL) return;
  if (!differs_from_world(comm)) return;
  world_.emplace(MPI_COMM_WORLD);
  own_.emplace(comm);
}

int ReceiveErrors::raised(int code) {
  const bool to_raise = own_ && code != MPI_SUCCESS;
  own_.reset();
  world_.reset();
  return to_raise ? raise_by_handler(comm_, code) : code;
}

int raise_for_held_message(const Comm* comm, int code) {
  const bool to_raise = !kRaisesElsewhere && code != MPI_SUCCESS && comm != nullptr;
  return to_raise ? raise(comms::for_errors(*comm), code) : code;
}

}  // namespace mh::mpi::error_handlers
