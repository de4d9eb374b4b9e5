// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/onesided/server_thread.hpp"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "lend/threads.hpp"
#include "mpi/onesided/serving.hpp"

namespace mh::mpi::rma::server_thread {
namespace {

// By whoever ends the thread, read by it; seq_cst with `inside`: either it sees that it shall end,
// or the other sees that it is inside.
std::atomic<bool> g_ending{false};
std::atomic<bool> g_inside{false};  // by the thread: it may be in a call of the library
pthread_t g_thread;
pid_t g_owner = 0;  // the process that has the thread; a child of it has none

void nap(std::int64_t ns) {
  const timespec time{.tv_sec = 0, .tv_nsec = ns};
  ::nanosleep(&time, nullptr);
}

// Somebody else has served so lately that there is no need to.
bool is_served() {
  return ticks() - last_turn() < ticks_from_ns(static_cast<double>(tuning::kShortNapNs));
}

bool serve_if_not_ending() {
  g_inside.store(true);
  const bool busy = !g_ending.load() && serve_other_nodes();
  g_inside.store(false);
  return busy;
}

void* live(void* /*nothing*/) {
  std::int64_t length = tuning::kLongNapNs;
  bool busy = false;
  while (!g_ending.load()) {
    // While there is something to do the last turn was this thread's.
    busy = (busy || !is_served()) && serve_if_not_ending();
    length = busy ? tuning::kShortNapNs : std::min(2 * length, tuning::kLongNapNs);
    if (!busy) nap(length);
  }
  return nullptr;
}

// A program that ends without MPI_Finalize: the library's own end must not meet the thread in a
// call. Where it waits there for a thread that is ending the process, nothing is waited for.
void leave_library() {
  constexpr std::int64_t kLookNs = 1'000'000;
  constexpr int kLooks = 100;
  if (g_owner != ::getpid()) return;
  g_ending.store(true);
  for (int i = 0; i < kLooks && g_inside.load(); ++i) nap(kLookNs);
}

}  // namespace

bool start() {
  const lend::SignalsBlocked guard;
  g_ending.store(false);
  if (::pthread_create(&g_thread, nullptr, live, nullptr) != 0) return false;
  ::pthread_setname_np(g_thread, "mh-server");
  g_owner = ::getpid();
  std::atexit(leave_library);
  return true;
}

void stop() {
  g_ending.store(true);
  ::pthread_join(g_thread, nullptr);
  g_owner = 0;
}

}  // namespace mh::mpi::rma::server_thread
