// SPDX-License-Identifier: BSD-3-Clause
// The lines of JSON that the program mh-top prints for `mh top`. docs/top.md explains the fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "top/interval.hpp"

namespace mh::top {

// Returns the line that says that an MPI job was found. It names the file descriptor by which the
// job can be watched, or the reason why it cannot.
std::string line_of_job(const SegmentView& view, const ProcessDescriptor& descriptor);
// Returns the line for an interval of a watched MPI job. `heap_bytes`: memory in the shared heaps
// of the ranks; nothing if no rank has a heap.
std::string line_of_interval(const SegmentView& view, const Interval& interval,
                             std::optional<std::uint64_t> heap_bytes);
// Returns the last line for a watched MPI job, which says why it cannot be watched, or why watching
// ends.
std::string line_of_end(const std::string& why);

}  // namespace mh::top
