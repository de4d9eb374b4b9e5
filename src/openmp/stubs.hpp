// SPDX-License-Identifier: BSD-3-Clause
// Intercepts calls of the run time that are neither replaced nor permitted. A *stub* is an entry
// point with a number, which keeps all arguments of the call. It notes the call, and passes it on
// to the run time unless the call's rule (calls.hpp) says otherwise.
//
// Limit: MH_STUBS different functions; is_exhausted() tells that there were more.
#pragma once

#include <string_view>

namespace mh::openmp::stubs {

// Returns the stub of the run time's function `real`; null if no stub is left. One thread at a
// time.
void* stub_for_call(std::string_view name, void* real);
// True if a function had no stub. Its calls are not noticed, so a region with unknown calls must
// not be shared.
bool is_exhausted();

}  // namespace mh::openmp::stubs
