// SPDX-License-Identifier: BSD-3-Clause
// Gives a fork()ed child its own copy of the shared heap.
//
// The child of a program without Manyhands has a copy of all of its parent's memory. fork() copies
// private memory only, not the heap, so:
//
//   prepare   blocks signals, takes the heap's lock (this thread may hold it already: fork() in a
//             signal handler that interrupted malloc), makes a pipe.
//   child     copies the pages that hold memory and are still mapped from the heap's file, and
//             reports the result through the pipe.
//   parent    waits for the child's report.
//
// Between prepare() and the child's report, parent and child run in the same memory, and the thread
// that forks must not write to the heap. If its stack lies in the heap, the thread runs on a
// private stack meanwhile (call_off_heap_stack()). The stack of another thread is made private when
// the program gives it to pthread_attr_setstack() (File::isolate). Our handlers are registered
// before all others (preload.cpp), so other handlers run before our first step or after our last
// step. Threads of the parent may change blocks while the child copies; data that a handler of the
// program protects by a lock do not change during the copy.
//
// If no copy is possible (no memory for it, no pipe), the parent's heap is retired: parent and
// child continue copy-on-write, and peers cannot reach the heap any more.
//
// vfork(), posix_spawn(), system() and popen() call no handlers and need none: their children exec.
// Limit: a child made by a raw clone() shares the heap until it execs.
#pragma once

#include <sys/types.h>

#include <csignal>

#include "heap/heap.hpp"

namespace mh::heap {

// The handlers that the preloaded heap registers by pthread_atfork(). One fork() of the process at
// a time, because the forking thread holds the heap's lock from prepare() on.
class Forking {
 public:
  using Call = pid_t (*)();

  explicit constexpr Forking(Heap& heap) : heap_(heap) {}
  void prepare();
  void parent();
  void child();
  // Calls fork() or a function like it. If the calling thread's stack lies in shared memory, the
  // call runs on a private stack.
  pid_t call_off_heap_stack(Call call);

 private:
  [[nodiscard]] bool can_copy() const;
  void finish();

  Heap& heap_;
  // The heap's lock guards these members.
  bool entered_ = false;    // prepare() took the lock
  int pipe_[2] = {-1, -1};  // from child to parent: one character, or the end if the child has died
  sigset_t mask_{};         // the thread's signal mask before prepare()
};

}  // namespace mh::heap
