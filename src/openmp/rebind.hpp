// SPDX-License-Identifier: BSD-3-Clause
// Redirects calls of the OpenMP run time to Manyhands' functions, in every loaded object (program
// or library) that imports functions of the run time.
//
// Only the slots that the loader fills (global offset tables) are changed, and only in a process
// that shares its loops. Nothing is exported, so no other program ever sees these functions. Calls
// that Manyhands neither replaces nor permits go through a stub (stubs.hpp). Limit: objects with a
// private copy of a run time keep it.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "openmp/real.hpp"

extern "C" {
#include "base/elf.h"
}

namespace mh::openmp::rebind {

// True if a loaded program or library imports the function `name`.
bool is_imported(const char* name);

// Returns a function of the process's OpenMP run time, or of the first run time if several are
// loaded. Null if the function is not found. Searches all loaded objects.
void* in_run_time(const char* name);

// True if the process's OpenMP run time has a function of this name.
bool is_of_run_time(const char* name);

// True if the object, a loaded library, is the process's OpenMP run time.
bool is_run_time(const mh_object& object);
// Returns the number of loads and unloads of objects by the loader so far.
unsigned long long changes_so_far();

// Looks up the run time's own function of each binding (Binding::real), then redirects the calls of
// all loaded objects. Returns `unsupported` if no loaded object, or more than one, is an OpenMP run
// time. Called by one thread. Never undone: Manyhands' functions forward the calls that they do not
// handle.
Status rebind_all(std::vector<Binding> bindings);
// Redirects the calls of programs and libraries that were loaded since the last call of this
// function or of rebind_all(). Forgets the regions of code that was at the same addresses before
// (Sites::forget()).
void rebind_new_objects();

}  // namespace mh::openmp::rebind
