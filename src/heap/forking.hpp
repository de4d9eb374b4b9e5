// SPDX-License-Identifier: BSD-3-Clause
// What fork() has to do with memory that is shared.
//
// Without us the child has a copy of its parent's memory. The kernel copies private memory only,
// so:
//
//   prepare   signals are blocked, the heap's lock is taken (or is this thread's already: fork() in
//             a signal handler that interrupted malloc), a pipe is made.
//   child     copies what is still mapped from the heap's file, only pages that hold memory, and
//             says so in the pipe.
//   parent    waits for the child's word.
//
// In between, both run in the same memory. Nothing there may be written meanwhile by the thread
// that forks: its stack is changed for a private one if it lies in the heap (away_from()), stacks
// of threads are isolated when they are named (File::isolate), and our handlers are registered
// before anybody else's (preload.cpp), so that those run before our first step or after our last
// one. Threads of the parent that run on while the child copies may change blocks meanwhile; what
// other handlers protect by a lock is protected here, too.
//
// Where no copy is possible (no memory for it, the descriptor was closed), the parent's heap is
// retired: both sides keep what they have copy-on-write, and peers reach it no more.
//
// vfork(), posix_spawn(), system() and popen() call no handlers and need none: they exec. Limit: a
// child made by a raw clone() shares the heap until it execs.
#pragma once

#include <sys/types.h>

#include <csignal>

#include "heap/heap.hpp"

namespace mh::heap {

// For pthread_atfork(): one at a time, because this thread holds the heap's lock from prepare() on.
class Forking {
 public:
  using Call = pid_t (*)();

  explicit constexpr Forking(Heap& heap) : heap_(heap) {}
  void prepare();
  void parent();
  void child();
  // Calls fork() or what is like it; on a stack of its own if this one lies in shared memory.
  pid_t away_from_heap(Call call);

 private:
  [[nodiscard]] bool can_copy() const;
  void finish();

  Heap& heap_;
  // Under the lock.
  bool entered_ = false;    // the lock was free
  int pipe_[2] = {-1, -1};  // the child says how it went, or ends
  sigset_t mask_{};
};

}  // namespace mh::heap
