// SPDX-License-Identifier: BSD-3-Clause
// Locks that all threads of all ranks of a node share, by name (`ws critical`, `ws atomic`).
//
// The locks lie in the header of the segment. A name is a number (a hash). A lock gets its name
// when it is first asked for, and keeps the name. The kernel watches the holder: if the thread or
// its process ends, the lock passes to the next thread (a robust mutex). Data that the dead holder
// has left half written are the program's affair.
//
// A lock excludes like a mutex: not recursive, and to be released by its holder. Thread-safe.
// Limit: kMost names; further names have no lock.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/cacheline.hpp"

namespace mh::node {

class alignas(kCacheLine) NamedLock {
 public:
  // Called once, by the first rank of the node, before any other process sees the lock. Returns
  // false if the system has no such locks.
  bool initialise();
  // Spins for kSpinForLockNs at most. True: the caller holds the lock. False: it was not free.
  bool lock_soon();
  // Sleeps until the lock is free.
  void lock();
  // No effect in a thread that does not hold the lock.
  void unlock();

 private:
  friend class NamedLocks;

  // 0: no name yet. relaxed: initialise() has made the mutex before the segment had a second user.
  std::atomic<std::uint64_t> name_{0};
  pthread_mutex_t mutex_{};
};

class NamedLocks {
 public:
  static constexpr std::size_t kMost = 128;

  bool initialise();
  // The lock of this name (not 0). The first call with a name takes a free lock for it. Null if no
  // lock is free.
  NamedLock* find_or_take(std::uint64_t name);

 private:
  NamedLock locks_[kMost];
};

}  // namespace mh::node
