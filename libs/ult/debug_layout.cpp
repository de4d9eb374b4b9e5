// SPDX-License-Identifier: BSD-3-Clause
// Where a debugger (tasks_gdb.py) finds the parts of a record: plain numbers under a plain name, so
// that it needs no debug information and works on a core file of an optimized build.
#include <cstddef>
#include <cstdint>

#include "ult/types.hpp"

extern "C" {

// Offsets in a Record. A change of meaning gets a new version.
struct mh_ult_debug_layout_t {
  std::uint32_t version, state, borrows, context, stack, name;
};
extern MH_ULT_API const mh_ult_debug_layout_t mh_ult_debug_layout;
const mh_ult_debug_layout_t mh_ult_debug_layout = {1,
                                                   offsetof(mh::ult::detail::Record, state),
                                                   offsetof(mh::ult::detail::Record, borrows),
                                                   offsetof(mh::ult::detail::Record, context),
                                                   offsetof(mh::ult::detail::Record, stack),
                                                   offsetof(mh::ult::detail::Record, name)};

}  // extern "C"
