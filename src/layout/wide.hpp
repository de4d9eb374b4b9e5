// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic of offsets that cannot overflow: in 128 bits, then a look whether 64 hold the result.
#pragma once

#include <cstdint>
#include <limits>

namespace mh::layout {

__extension__ using Wide = __int128;

inline constexpr Wide kLargest = std::numeric_limits<std::int64_t>::max();
// One bit less than there is, so that the difference of two offsets fits, too.
inline constexpr Wide kFurthest = kLargest / 2;

constexpr bool fits(Wide value) { return value >= -kFurthest && value <= kFurthest; }

}  // namespace mh::layout
