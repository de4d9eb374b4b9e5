// SPDX-License-Identifier: BSD-3-Clause
// The link between a collection and the wait loop of libmanyhands.so (base/idle_work.h): an idle
// rank of the collection helps other ranks, and a rank that waits in an MPI call runs tasks. If
// libmanyhands.so is not in the process, the link does nothing.
//
// Threads: the collection's thread. The destructor withdraws the offer of tasks, also when a task
// ends the program.
#pragma once

#include "base/idle_work.h"

namespace mh::tasks {

class IdleWork {
 public:
  IdleWork();
  IdleWork(const IdleWork&) = delete;
  IdleWork& operator=(const IdleWork&) = delete;
  ~IdleWork();

  // Does a bounded piece of work for other ranks (a step of the wait loop), while this rank has no
  // task. True: there was such work.
  bool help() {
    if (link_ == nullptr) return false;
    helps_ = true;
    return link_->help() != 0;
  }
  // Call when the rank has a task again, or when process() is over: ends the wait that help() has
  // begun.
  void end_help() {
    if (helps_) end_wait();
  }

  // Offers tasks to the waits in MPI calls of this thread. Until withdraw(), such a wait calls
  // `(of.*has)()` and, if there is a task, `(of.*run)()`.
  template <auto has, auto run, class Of>
  void offer(Of& of) {
    offer(mh_offer{[](void* it) { return (static_cast<Of*>(it)->*has)() ? 1 : 0; },
                   [](void* it) { (static_cast<Of*>(it)->*run)(); }, &of});
  }
  void withdraw();

 private:
  void offer(mh_offer tasks);
  void end_wait();

  const mh_idle_work* link_;  // nullptr: libmanyhands.so is not loaded or does not help
  mh_offer before_{};         // the offer that this one has replaced
  bool offers_ = false;
  bool helps_ = false;
};

}  // namespace mh::tasks
