// SPDX-License-Identifier: BSD-3-Clause
// The unit of sharing. Two writers never share a line; 64 bytes on every machine we support, and
// the adjacent-line prefetcher is accepted (128 would double the segment for no measured gain).
#pragma once

#include <cstddef>

namespace mh {
inline constexpr std::size_t kCacheLine = 64;
}
