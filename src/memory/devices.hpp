// SPDX-License-Identifier: BSD-3-Clause
// Whether addresses of the program may be those of an accelerator, which only the MPI library can
// read.
#pragma once

namespace mh::memory {

// True once a run time of an accelerator is loaded. Asks the loader again only after it has loaded
// something. Any thread.
bool device_runtime_loaded();

}  // namespace mh::memory
