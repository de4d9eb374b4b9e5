// SPDX-License-Identifier: BSD-3-Clause
// Intercepts calls of the OpenMP run time that Manyhands neither replaces nor permits in a region
// that helpers may join. A *stub* is an entry point with a number, which keeps all arguments of the
// call. It notes the call, and passes it on to the run time unless the call's rule (calls.hpp) says
// otherwise.
//
// Limit: MH_STUBS different functions; is_exhausted() tells that there were more.
#pragma once

#include <string_view>

namespace mh::openmp::stubs {

// Returns the stub that intercepts calls of the run time's function `real`, called `name`; null if
// no stub is left. One thread at a time.
void* stub_for_call(std::string_view name, void* real);
// True if more than MH_STUBS functions needed a stub, so that calls of some are not noticed. A
// region may then make unknown calls, and must not be shared with helpers.
bool is_exhausted();

}  // namespace mh::openmp::stubs
