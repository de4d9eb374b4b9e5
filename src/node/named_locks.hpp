// SPDX-License-Identifier: BSD-3-Clause
// Locks that all threads of all ranks of a node share, by name, for the pragmas `ws critical` and
// `ws atomic`.
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
  // false if the system has no mutexes that are robust and shared by processes.
  bool initialise();
  // Tries to lock, spinning for tuning::kSpinForLockNs at most. True if the caller then holds the
  // lock, false if it was not free.
  bool lock_soon();
  // Locks; sleeps in the kernel until the lock is free.
  void lock();
  // Releases the lock. Has no effect if the calling thread does not hold it.
  void unlock();

 private:
  friend class NamedLocks;

  // The lock's name; 0: no name yet. relaxed: the name publishes nothing, because initialise() has
  // made the mutex before a second process used the segment.
  std::atomic<std::uint64_t> name_{0};
  pthread_mutex_t mutex_{};
};

class NamedLocks {
 public:
  static constexpr std::size_t kMost = 128;

  bool initialise();
  // Returns the lock of this name, which is not 0. The first call with a name takes a free lock for
  // it. Null if no lock is free.
  NamedLock* find_or_take(std::uint64_t name);

 private:
  NamedLock locks_[kMost];
};

}  // namespace mh::node
