// SPDX-License-Identifier: BSD-3-Clause
// What fork() has to do with memory that is shared.
//
// Without us the child has a copy of its parent's memory. The kernel copies private memory only, so
// the child makes a copy of the heap's before anything else runs in it, and the parent waits for
// that: only of pages that hold memory. Where that cannot be (no memory for it, the descriptor was
// closed), the parent's heap is retired: both sides keep what they have copy-on-write, and peers
// reach it no more. Threads of the parent that run on while the child copies may change blocks
// meanwhile; what other handlers of pthread_atfork() protect by a lock is protected here, too,
// because ours were registered first.
//
// vfork(), posix_spawn(), system() and popen() call no handlers and need none: they exec. Limit: a
// child made by a raw clone() or _Fork() shares the heap until it execs.
#pragma once

#include <csignal>

#include "heap/heap.hpp"

namespace mh::heap {

// For pthread_atfork(): one at a time, because the heap's lock is held from prepare() on.
class Forking {
 public:
  explicit constexpr Forking(Heap& heap) : heap_(heap) {}
  void prepare();
  void parent();
  void child();

 private:
  [[nodiscard]] bool can_copy() const;
  void finish();

  Heap& heap_;
  int pipe_[2] = {-1, -1};  // the child says how it went, or ends
  sigset_t mask_{};
};

}  // namespace mh::heap
