// SPDX-License-Identifier: BSD-3-Clause
// Calls of the run time that we neither answer nor permit: each is noticed, whatever its arguments
// are, and goes on to the run time unless its rule says otherwise (calls.hpp).
//
// A *stub* is an entry point that carries a number and keeps all arguments. Limit: MH_STUBS
// different functions; past() says that there were more.
#pragma once

#include <string_view>

namespace mh::openmp::stubs {

// The stub of the run time's function `real`; null if there is none left. One thread.
void* for_call(std::string_view name, void* real);
// A function had no stub: its calls are not noticed, so nothing that is not known may be shared.
bool past_the_end();

}  // namespace mh::openmp::stubs
