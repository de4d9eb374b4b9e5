// SPDX-License-Identifier: BSD-3-Clause
// What a collection and the wait loop of libmanyhands.so do for each other (base/idle_work.h).
// Where that library is not in the process, nothing.
//
// Threads: the collection's. Its end withdraws what it has offered, also when a task ends the
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

  // A step for others, while this rank has no task. True if something was done.
  bool help() {
    if (link_ == nullptr) return false;
    helps_ = true;
    return link_->help() != 0;
  }
  // It has one now, or is done.
  void end_help() {
    if (helps_) end_wait();
  }

  // `(of.*has)()` and `(of.*run)()` are called in waits of this thread, until withdraw().
  template <auto has, auto run, class Of>
  void offer(Of& of) {
    offer(mh_offer{[](void* it) { return (static_cast<Of*>(it)->*has)() ? 1 : 0; },
                   [](void* it) { (static_cast<Of*>(it)->*run)(); }, &of});
  }
  void withdraw();

 private:
  void offer(mh_offer tasks);
  void end_wait();

  const mh_idle_work* link_;  // null: nobody is there
  mh_offer before_{};         // what another collection has offered, one of whose tasks runs this
  bool offers_ = false;
  bool helps_ = false;
};

}  // namespace mh::tasks
