// SPDX-License-Identifier: BSD-3-Clause
// Exclusion among all ranks of the node, for the pragmas `ws critical` and `ws atomic`: the locks
// of the segment.
//
// In addition, the compiler's own code excludes the threads of this rank from each other. Without a
// segment (one rank on the node) only the compiler's code excludes threads.
//
// The lock's holder may be in an MPI call that needs an answer of a waiting rank, for example the
// first message between two ranks, which connects them. A waiting thread therefore drives the MPI
// library if it may call the library now, and otherwise sleeps. Thread-safe.
#include <sched.h>
#include <unistd.h>

#include <atomic>

#include "base/say.hpp"
#include "lend/pool.hpp"
#include "mpi/calls/in_loop.hpp"
#include "mpi/front/entry.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "openmp/participation.hpp"

namespace mh::mpi {
namespace {

void say_once_no_lock() {
  static std::atomic<bool> said{false};  // relaxed: one thread of a rank prints the message
  if (said.exchange(true, std::memory_order_relaxed)) return;
  print_message(
      "rank {} has more than {} names of critical sections; all further names exclude only threads "
      "of the same rank",
      config.world_rank, node::NamedLocks::kMost);
}

// True if this thread may call the MPI library outside of shared loops: the library admits several
// threads, or this is the only thread that may call it.
bool may_call_library() {
  if (config.multiple) return true;
  int level = MPI_THREAD_SERIALIZED;
  real.Query_thread(&level);
  return level <= MPI_THREAD_FUNNELED && ::gettid() == ::getpid();
}

// Makes the MPI library progress; returns false if this thread may not call the library.
bool advance() {
  if (!switches.started) return false;
  if (openmp::in_region() && openmp::current->marked) {
    const in_loop::Turn turn(*openmp::current, in_loop::Rule::turns);
    kick_progress();
    return true;
  }
  if (!may_call_library()) return false;
  kick_progress();
  return true;
}

void wait_for(node::NamedLock& lock) {
  lend::give_core_back();  // no effect unless this thread is on a lent core
  while (!lock.lock_soon()) {
    if (!advance()) return lock.lock();
    ::sched_yield();
  }
}

void lock_or_unlock(std::uint64_t name, int begins) {
  if (!services.node) return;
  node::NamedLock* const lock = services.node->header().locks.find_or_take(name);
  if (lock == nullptr) return say_once_no_lock();
  if (begins == 0) return lock->unlock();
  if (!lock->lock_soon()) wait_for(*lock);
}

}  // namespace

mh_locker locker() { return lock_or_unlock; }

}  // namespace mh::mpi
