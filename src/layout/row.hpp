// SPDX-License-Identifier: BSD-3-Clause
// What the loops over blocks (kernels.hpp, non_temporal.hpp) are given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layout/walk.hpp"

namespace mh::layout::detail {

inline std::byte* pointer(Address at) { return reinterpret_cast<std::byte*>(at); }

// Blocks at one stride in memory and another one in the stream. In a row of a grid that is the size
// of a block, in a column of records that of a record.
struct Row {
  Address at;
  std::int64_t stride;
  std::uint64_t length;
  std::byte* stream;
  std::uint64_t stream_stride;
};

}  // namespace mh::layout::detail
