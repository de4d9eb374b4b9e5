// SPDX-License-Identifier: BSD-3-Clause
// Threads of ours take no signal of the program.
#pragma once

#include <pthread.h>

#include <csignal>

namespace mh::lend {

// While it lives: threads made now inherit the mask, so no signal is ever delivered to them.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace mh::lend
