// SPDX-License-Identifier: BSD-3-Clause
// The lines of JSON that mh-top prints. docs/top.md explains the fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "top/interval.hpp"

namespace mh::top {

// Says that a job was found, and by which descriptor it can be watched.
std::string line_of_job(const SegmentView& view, const ProcessDescriptor& descriptor);
// `heap_bytes`: memory in the shared heaps of the ranks; nothing if no rank has a heap.
std::string line_of_interval(const SegmentView& view, const Interval& interval,
                             std::optional<std::uint64_t> heap_bytes);
// Says that the job cannot be watched, or no longer, and why.
std::string line_of_end(const std::string& why);

}  // namespace mh::top
