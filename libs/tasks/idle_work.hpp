// SPDX-License-Identifier: BSD-3-Clause
// The link between a collection and the wait loop of libmanyhands.so (base/idle_work.h). If
// libmanyhands.so is not in the process, the link does nothing.
//
// Threads: the collection's thread. The destructor withdraws the offer, also when a task ends the
// program.
#pragma once

#include "base/idle_work.h"

namespace mh::tasks {

class IdleWork {
 public:
  IdleWork();
  IdleWork(const IdleWork&) = delete;
  IdleWork& operator=(const IdleWork&) = delete;
  ~IdleWork();

  // A step for other ranks, while this rank has no task. True: the step did something.
  bool help() {
    if (link_ == nullptr) return false;
    helps_ = true;
    return link_->help() != 0;
  }
  // Call when the rank has a task again, or is done.
  void end_help() {
    if (helps_) end_wait();
  }

  // Until withdraw(), waits of this thread call `(of.*has)()` and `(of.*run)()`.
  template <auto has, auto run, class Of>
  void offer(Of& of) {
    offer(mh_offer{[](void* it) { return (static_cast<Of*>(it)->*has)() ? 1 : 0; },
                   [](void* it) { (static_cast<Of*>(it)->*run)(); }, &of});
  }
  void withdraw();

 private:
  void offer(mh_offer tasks);
  void end_wait();

  const mh_idle_work* link_;  // nullptr: libmanyhands.so is not there or does not help
  mh_offer before_{};         // the offer that this one has replaced
  bool offers_ = false;
  bool helps_ = false;
};

}  // namespace mh::tasks
