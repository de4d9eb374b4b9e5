// SPDX-License-Identifier: BSD-3-Clause
// The loaded objects (programs and libraries) of the process: their imports from the OpenMP run
// time, and whether they have data that each thread has for itself (a thread-local segment). Both
// decide whether a region can run by virtual threads, which call its function for all thread
// numbers in any order (virtual_threads.hpp). Thread-safe. The first call after an object was
// loaded is slow.
//
// Limits: the system's own libraries are known by name; their thread-local data do no harm. An
// object that is closed (dlclose) is noticed at the next load.
#pragma once

#include <string_view>

#include "openmp/sites.hpp"

extern "C" {
#include "base/elf.h"
}

namespace mh::openmp {

// Returns the obstacle to virtual threads in a call of the imported function `name`, which is not
// of the OpenMP run time. Obstacles are functions of the MPI library, functions that tell threads
// apart, and all functions of another object if that object calls the run time or has thread-local
// data. `thread_data_permitted`: such data, and functions that tell threads apart, are no obstacle.
Obstacle obstacle_behind_import(std::string_view name, bool thread_data_permitted);
// True if the object, a program or library, has thread-local data.
bool has_thread_data(const mh_object& object);
// A summary of the functions of the OpenMP run time that any loaded object imports. A region inside
// of a region has a team of one, so nesting is no obstacle to virtual threads.
struct alignas(4) CallsOfAll {
  bool needs_teams;  // virtual threads cannot make some of the calls
  bool meets;        // threads of a team wait for each other in some of them
  bool is_numbered;  // some of them pass the run time's number of the thread
  // True if virtual threads may make all these calls. `with_barriers`: the virtual threads have
  // stacks of their own, so they may also meet at barriers.
  [[nodiscard]] bool permit(bool with_barriers) const {
    return !needs_teams && (with_barriers ? !is_numbered : !meets);
  }
};
// Returns the summary of all objects that are loaded now. Cheap if no object was loaded since the
// last call of this function.
CallsOfAll calls_of_all();

}  // namespace mh::openmp
