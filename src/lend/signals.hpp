// SPDX-License-Identifier: BSD-3-Clause
// Threads of ours take no signal that somebody sends to the program. Those that code brings upon
// itself (a fault, a trapped division) are its thread's own: programs answer them, and a thread
// that blocks one is ended by it, with its process.
#pragma once

#include <pthread.h>

#include <csignal>

namespace mh::lend {

// While it lives: threads made now inherit the mask, so no other signal is ever delivered to them.
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
