// SPDX-License-Identifier: BSD-3-Clause
// The offsets of the fields of a TaskRecord for a debugger (tasks_gdb.py). The offsets are plain
// numbers under a C name, so the debugger needs no debug information.
#include <cstddef>
#include <cstdint>

#include "ult/types.hpp"

extern "C" {

// Offsets in a TaskRecord, in bytes, which tasks_gdb.py reads. A change of their meaning needs a
// new `version`.
struct mh_ult_debug_layout_t {
  std::uint32_t version, state, borrows, context, stack, name;
};
extern MH_ULT_API const mh_ult_debug_layout_t mh_ult_debug_layout;
const mh_ult_debug_layout_t mh_ult_debug_layout = {1,
                                                   offsetof(mh::ult::detail::TaskRecord, state),
                                                   offsetof(mh::ult::detail::TaskRecord, borrows),
                                                   offsetof(mh::ult::detail::TaskRecord, context),
                                                   offsetof(mh::ult::detail::TaskRecord, stack),
                                                   offsetof(mh::ult::detail::TaskRecord, name)};

}  // extern "C"
