// SPDX-License-Identifier: BSD-3-Clause
// Operating-system functions for threads that lend or borrow cores: sleeping on a word shared
// between processes, moving threads of the same user's processes between cores, and blocking
// signals. Thread-safe.
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace mh::lend {

// Sleeps while `word` is `value`, for at most `nanoseconds`; may return early. The word may lie in
// memory shared between processes.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                       std::int64_t nanoseconds) {
  static_assert(sizeof word == sizeof value && std::atomic<std::uint32_t>::is_always_lock_free);
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec limit{.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

// Wakes at most `sleepers` threads that sleep on `word`.
inline void futex_wake(std::atomic<std::uint32_t>& word, std::uint32_t sleepers = 1) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, sleepers, nullptr, nullptr, 0);
}

// Binds the thread, given by its kernel id, to this CPU. Returns false if a cpuset forbids the CPU,
// or if there is no such CPU or thread. Thread id 0 is refused, since the kernel would take it for
// the calling thread.
inline bool bind_thread(std::int32_t thread, std::int32_t cpu) {
  if (thread <= 0 || cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(thread, sizeof set, &set) == 0;
}

// Blocks signals in the calling thread while the object lives. Threads that are made meanwhile
// inherit the mask, so they take no signal sent to the program. Signals that a thread's own code
// raises (a fault, a trapped division) stay unblocked: programs handle them, and the kernel ends a
// process whose thread blocks such a signal.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) ::sigdelset(&all, own);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace mh::lend
