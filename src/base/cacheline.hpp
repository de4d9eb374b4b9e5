// SPDX-License-Identifier: BSD-3-Clause
// The unit of sharing: two writers never share a line. Supported machines have lines of 64 bytes.
// The adjacent-line prefetcher is ignored: 128 bytes would double the segment for no measured gain.
#pragma once

#include <cstddef>

namespace mh {
inline constexpr std::size_t kCacheLine = 64;
}
