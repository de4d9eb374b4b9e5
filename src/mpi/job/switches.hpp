// SPDX-License-Identifier: BSD-3-Clause
// The facts about a process that change while it runs, such as whether Manyhands is active.
//
// Each member names its writers. All but `switched_on` change only while no other thread of the
// program is in an intercepted call, so they are plain words.
#pragma once

#include <atomic>
#include <mutex>

namespace mh::mpi {

struct Switches {
  // True while the ranks of the node share a segment. While false, every wrapper forwards its call
  // unchanged. Written by build_node() and stop_helping() (lifecycle/).
  bool active = false;
  bool started = false;  // true between start_helping() and stop_helping(), which write it
  // True if an intercepted call may begin before another has ended: the MPI library has granted
  // MPI_THREAD_MULTIPLE, or light tasks run while another task waits in MPI, or helpers call MPI in
  // turns. Written by start_helping(), lifecycle/cores.cpp and calls/in_loop.cpp.
  bool threads = false;
  // True if calls that fail do not return, because no communicator has had an error handler but
  // MPI_ERRORS_ARE_FATAL. Written by start_helping() and note_error_handler() (calls/handles.cpp).
  bool errors_are_fatal = false;
  // True unless the program has switched Manyhands off by MPI_Pcontrol(0). Written by MPI_Pcontrol.
  // relaxed: other threads see the change soon.
  std::atomic<bool> switched_on{true};
};

// Hidden, as are all objects that the shortest calls read. Compilers reach a declaration of default
// visibility through a table of addresses, and -fvisibility affects definitions only.
[[gnu::visibility("hidden")]] extern Switches switches;

// A lock that is taken only while `switches.threads` is true.
class ThreadLock : public std::unique_lock<std::mutex> {
 public:
  explicit ThreadLock(std::mutex& mutex) : unique_lock(mutex, std::defer_lock) {
    if (switches.threads) lock();
  }
};

}  // namespace mh::mpi
