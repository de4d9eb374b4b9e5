// SPDX-License-Identifier: BSD-3-Clause
#include "wait/parking.hpp"

#include <sched.h>

#include "base/atomics.hpp"
#include "base/clock.hpp"
#include "threads/parking.hpp"

namespace mh::wait {
namespace {

using Parking = threads::Parking<RealAtomics>;

// The seat of a parked task, with the condition that the poller, one of the workers, tests for it
// (wait/parking.hpp). Lies on the task's stack.
struct ParkedWait : Parking::Seat {
  ParkedWait(void* waiting, detail::Predicate predicate) : task(waiting), done(predicate) {}
  void* task;
  detail::Predicate done;
};

Parking g_parking;
// Returns the number of OpenMP regions around the caller; null: not known. Set by
// set_task_library(), before any task may park.
RegionDepth g_depth = nullptr;
constinit thread_local bool t_polls = false;  // this thread is the poller

// Waits until the poller, a worker on another thread, has made its last access to the seat of this
// task. Only then may the task destroy the seat.
void await_poller(const ParkedWait& me) {
  constexpr int kSpins = 100;
  for (int spins = 0; !me.is_left(); ++spins) {
    spins < kSpins ? spin_pause() : static_cast<void>(::sched_yield());
  }
}

}  // namespace

void set_task_library(const mh_light_tasks* library, RegionDepth depth) {
  g_depth = depth;
  parking::task_library.store(library, std::memory_order_release);
}

namespace parking {

std::atomic<const mh_light_tasks*> task_library{nullptr};

bool may_park() { return !t_polls && (g_depth == nullptr || g_depth() == 0); }

// Parks the calling task until done() is true. The task may continue on another thread, so no
// thread-local variable is used after library->park().
void park(detail::Predicate done) {
  const mh_light_tasks* const library = task_library.load(std::memory_order_relaxed);
  ParkedWait me(library->current(), done);
  g_parking.sit(me);
  library->park([](void* of) { return static_cast<ParkedWait*>(of)->is_told() ? 1 : 0; }, &me);
  await_poller(me);
}

bool begin_polling() {
  t_polls = t_polls || g_parking.enter();
  return t_polls;
}

void end_polling() {
  if (!t_polls) return;
  t_polls = false;
  g_parking.leave();
}

bool is_polling() { return t_polls; }

unsigned poll() {
  const mh_light_tasks* const library = task_library.load(std::memory_order_relaxed);
  return g_parking.poll(
      [](Parking::Seat& seat) { return static_cast<ParkedWait&>(seat).done(); },
      [&](Parking::Seat& seat) { library->wake(static_cast<ParkedWait&>(seat).task); });
}

}  // namespace parking
}  // namespace mh::wait
