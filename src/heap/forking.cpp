// SPDX-License-Identifier: BSD-3-Clause
#include "heap/forking.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>

#include "heap/system.hpp"

namespace mh::heap {
namespace {

constexpr char kCopied = 'c';
constexpr char kFailed = 'f';

// What the child said; anything else: it has ended, or there is none.
char hear(int from) {
  char word = 0;
  while (::read(from, &word, 1) < 0 && errno == EINTR) {
  }
  return word;
}

void tell(int to, char word) {
  while (::write(to, &word, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace

bool Forking::can_copy() const {
  const File& file = heap_.file();
  // Without the descriptor there is no other way.
  return file.descriptor() < 0 || file.resident() < memory().available;
}

// Signals wait: a handler in the child would meet memory that is being replaced.
void Forking::prepare() {
  const KeepErrno keep;
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &mask_);
  heap_.lock();
  pipe_[0] = pipe_[1] = -1;
  if (heap_.file().shared() && (!can_copy() || ::pipe2(pipe_, O_CLOEXEC) != 0)) {
    heap_.file().retire();
  }
}

void Forking::parent() {
  const KeepErrno keep;
  if (pipe_[0] >= 0) {
    ::close(pipe_[1]);
    if (hear(pipe_[0]) == kFailed) heap_.file().retire();
    ::close(pipe_[0]);
  }
  finish();
}

void Forking::child() {
  const KeepErrno keep;
  if (pipe_[0] >= 0) {
    ::close(pipe_[0]);
    tell(pipe_[1], heap_.file().copy() ? kCopied : kFailed);
    ::close(pipe_[1]);
  }
  finish();
}

void Forking::finish() {
  heap_.unlock();
  ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

}  // namespace mh::heap
