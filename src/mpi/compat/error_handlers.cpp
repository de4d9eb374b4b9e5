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

// Releases a handle that handler_of() has returned. Handles of predefined handlers are not freed.
void release_handler(MPI_Errhandler handler) {
  if (is_users_handler(handler)) real.Errhandler_free(&handler);
}

// True if the MPI library may call the error handler of MPI_COMM_WORLD, instead of that of the
// receive's communicator, when a call completes a nonblocking receive that has failed. MPICH 4.0
// does so, Open MPI does not.
#if defined(MH_ABI_OPENMPI)
constexpr bool kRaisesOnWorld = false;
#else
constexpr bool kRaisesOnWorld = true;
#endif

// A communicator that has MPI_ERRORS_RETURN while blocking receives wait, and the handler that the
// program has set. Of several waits that overlap in time, the first replaces the handler and the
// last to end restores it.
struct ReplacedHandler {
  MPI_Comm comm;
  MPI_Errhandler handler;
  int waits;
};
// The replaced handlers of this process. The only object of this type is never destroyed, because
// threads may still wait when the process ends.
struct ReplacedHandlers {
  std::mutex mutex;
  std::vector<ReplacedHandler> handlers;  // guarded by `mutex`
  // Held by a thread that raises an error, and by a thread that replaces a handler. Therefore no
  // thread can replace the program's handler after raise_by_handler() has restored it and before
  // that function calls it. A handler may call MPI or wait for other threads, so the lock is
  // recursive and is awaited for tuning::kHandlerPatienceNs at most. Locked before `mutex`.
  std::recursive_timed_mutex raising;

  // Returns the entry of `comm` in `handlers`, the communicators whose handler is replaced; the end
  // of `handlers` if there is none. Called with `mutex` locked.
  auto find(MPI_Comm comm) {
    return std::find_if(handlers.begin(), handlers.end(),
                        [comm](const ReplacedHandler& one) { return one.comm == comm; });
  }
};
ReplacedHandlers& g_replaced = *new ReplacedHandlers;

// True if the program's handlers of `comm` and MPI_COMM_WORLD differ. If Manyhands has replaced a
// handler for the time of a wait, the program's handler counts.
bool compare_with_world(MPI_Comm comm) {
  const ThreadLock hold(g_replaced.mutex);
  const auto none = g_replaced.handlers.end();
  const auto own = g_replaced.find(comm);
  const auto worlds = g_replaced.find(MPI_COMM_WORLD);
  const MPI_Errhandler ours = own != none ? own->handler : handler_of(comm);
  const MPI_Errhandler world = worlds != none ? worlds->handler : handler_of(MPI_COMM_WORLD);
  const bool differs = ours != world;
  if (own == none) release_handler(ours);
  if (worlds == none) release_handler(world);
  return differs;
}

// The last answer of differs_from_world() to this thread, and the communicator and the count of
// changes of error handlers for which this answer is valid.
struct KnownAnswer {
  std::uint64_t comm = 0;
  std::uint32_t changes = 0;
  bool differs = false;
};

bool differs_from_world(MPI_Comm comm) {
  thread_local KnownAnswer known;
  const std::uint32_t now = changes.load(std::memory_order_relaxed);
  if (known.comm == bits_of(comm) && known.changes == now) return known.differs;
  known = {.comm = bits_of(comm), .changes = now, .differs = compare_with_world(comm)};
  return known.differs;
}

using RaisingLock = std::unique_lock<std::recursive_timed_mutex>;

RaisingLock lock_raising() {
  constexpr std::chrono::duration<double, std::nano> kBound(tuning::kHandlerPatienceNs);
  return switches.threads ? RaisingLock(g_replaced.raising, kBound) : RaisingLock();
}

// Calls the handler that the program has set for `comm`, with the error `code`. If that handler is
// replaced because receives of other threads wait, the function first restores it and afterwards
// sets MPI_ERRORS_RETURN again.
int raise_by_handler(MPI_Comm comm, int code) {
  const RaisingLock turn = lock_raising();
  const auto set = [comm](bool back) {
    const ThreadLock hold(g_replaced.mutex);
    const auto found = g_replaced.find(comm);
    if (found == g_replaced.handlers.end()) return;
    real.Comm_set_errhandler(comm, back ? found->handler : MPI_ERRORS_RETURN);
  };
  set(true);
  const int raised = raise(comm, code);
  set(false);
  return raised;
}

}  // namespace

bool is_users_handler(MPI_Errhandler handler) {
#if !defined(MH_ABI_OPENMPI)  // Open MPI 4 lacks MPI_ERRORS_ABORT
  if (handler == MPI_ERRORS_ABORT) return false;
#endif
  return handler != MPI_ERRORS_RETURN && handler != MPI_ERRORS_ARE_FATAL;
}

bool failing_calls_return_success() {
  static const bool is_mpich5 = [] {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    real.Get_library_version(text, &length);
    int major = 0;
    return std::sscanf(text, "MPICH Version: %d", &major) == 1 && major >= 5;
  }();
  return is_mpich5;
}

HandlerOverride::HandlerOverride(MPI_Comm comm) : comm_(comm) {
  const RaisingLock turn = lock_raising();
  const ThreadLock hold(g_replaced.mutex);
  if (const auto found = g_replaced.find(comm); found != g_replaced.handlers.end()) {
    ++found->waits;
    return;
  }
  g_replaced.handlers.push_back({.comm = comm, .handler = handler_of(comm), .waits = 1});
  real.Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

HandlerOverride::~HandlerOverride() {
  const ThreadLock hold(g_replaced.mutex);
  const auto found = g_replaced.find(comm_);
  if (--found->waits != 0) return;
  real.Comm_set_errhandler(comm_, found->handler);
  release_handler(found->handler);
  g_replaced.handlers.erase(found);
}

ReceiveErrors::ReceiveErrors(MPI_Comm comm) : comm_(comm) {
  if (!kRaisesOnWorld || switches.errors_are_fatal || comm == MPI_COMM_NULL) return;
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
  const bool to_raise = !kRaisesOnWorld && code != MPI_SUCCESS && comm != nullptr;
  return to_raise ? raise(comms::for_errors(*comm), code) : code;
}

}  // namespace mh::mpi::error_handlers
