// SPDX-License-Identifier: BSD-3-Clause
// Puts our functions in the place of the run time's, in every loaded object that imports them.
//
// The places are the ones that the loader fills (global offset tables), so the calls of one process
// are turned around when it wants its loops shared, and no other program ever meets our OpenMP
// functions: nothing of the kind is exported. Calls that are neither ours nor permitted are noticed
// (stubs.hpp). Objects with a private copy of a run time keep it.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "openmp/real.hpp"

namespace mh::openmp::rebind {

// Whether a loaded object refers to this function.
bool imported(const char* name);

// Whether the process's run time has a function of this name.
bool is_of_run_time(const char* name);

// Fills in each binding's `real`, then rebinds. `unsupported` if no loaded object, or more than
// one, is an OpenMP run time. One thread; not undone: our functions forward what is not theirs.
Status start(std::vector<Binding> bindings);
// The objects that were loaded since, if there are any.
void again();

}  // namespace mh::openmp::rebind
