// SPDX-License-Identifier: BSD-3-Clause
#include "node/named_locks.hpp"

#include <algorithm>
#include <cerrno>

#include "base/clock.hpp"
#include "base/tuning.hpp"

namespace mh::node {
namespace {

// True if the caller holds the lock after a call that locks the mutex has returned `result`. If the
// last holder has died, the caller first makes the mutex usable again.
bool holds(pthread_mutex_t& mutex, int result) {
  if (result == EOWNERDEAD) ::pthread_mutex_consistent(&mutex);
  return result == 0 || result == EOWNERDEAD;
}

}  // namespace

bool NamedLock::initialise() {
  pthread_mutexattr_t kind;
  if (::pthread_mutexattr_init(&kind) != 0) return false;
  const bool made = ::pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED) == 0 &&
                    ::pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST) == 0 &&
                    ::pthread_mutex_init(&mutex_, &kind) == 0;
  ::pthread_mutexattr_destroy(&kind);
  return made;
}

bool NamedLock::lock_soon() {
  if (holds(mutex_, ::pthread_mutex_trylock(&mutex_))) return true;
  const std::uint64_t end = ticks() + ticks_from_ns(tuning::kSpinForLockNs);
  // Each attempt takes the lock's cache line away from the holder, so the pauses between attempts
  // grow.
  for (int pauses = 1; ticks() < end; pauses = std::min(2 * pauses, 64)) {
    for (int i = 0; i < pauses; ++i) spin_pause();
    if (holds(mutex_, ::pthread_mutex_trylock(&mutex_))) return true;
  }
  return false;
}

void NamedLock::lock() { static_cast<void>(holds(mutex_, ::pthread_mutex_lock(&mutex_))); }

void NamedLock::unlock() { ::pthread_mutex_unlock(&mutex_); }

bool NamedLocks::initialise() {
  return std::ranges::all_of(locks_, [](NamedLock& lock) { return lock.initialise(); });
}

NamedLock* NamedLocks::find_or_take(std::uint64_t name) {
  for (std::size_t looked = 0; looked < kMost; ++looked) {
    NamedLock& lock = locks_[(name + looked) % kMost];
    std::uint64_t here = lock.name_.load(std::memory_order_relaxed);
    if (here == name) return &lock;
    if (here != 0) continue;
    if (lock.name_.compare_exchange_strong(here, name, std::memory_order_relaxed) || here == name)
      return &lock;
  }
  return nullptr;
}

}  // namespace mh::node
