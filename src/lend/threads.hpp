// SPDX-License-Identifier: BSD-3-Clause
// What the operating system does for threads that lend or borrow cores: they sleep on a word that
// other processes share, are moved between cores, also those of other processes of this user, and
// take no signals of the program's.
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

// Sleeps while `word` is `value`, for at most `nanoseconds`; may return early for no reason. Not
// the private kind of futex.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                       std::int64_t nanoseconds) {
  static_assert(sizeof word == sizeof value && std::atomic<std::uint32_t>::is_always_lock_free);
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec limit{.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

// Wakes so many sleepers at most.
inline void futex_wake(std::atomic<std::uint32_t>& word, std::uint32_t sleepers = 1) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, sleepers, nullptr, nullptr, 0);
}

// From now on that thread (its number in the system) runs on this CPU alone. False where it may not
// (cpusets), where there is no such CPU, and where there is no such thread (any more): its number
// is 0 then, by which the system would take the calling one.
inline bool bind_thread(std::int32_t thread, std::int32_t cpu) {
  if (thread <= 0 || cpu < 0 || cpu >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  return ::sched_setaffinity(thread, sizeof set, &set) == 0;
}

// While it lives: threads made now inherit the mask, so no signal that somebody sends to the
// program is ever delivered to them. Those that code brings upon itself (a fault, a trapped
// division) are its thread's own: programs answer them, and a thread that blocks one is ended by
// it, with its process.
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
