// SPDX-License-Identifier: BSD-3-Clause
// The length of a cache line in bytes. Words that different threads write lie in different lines.
// Supported machines have lines of 64 bytes. The adjacent-line prefetcher is ignored: 128 bytes
// would double the node segment for no measured gain.
#pragma once

#include <cstddef>

namespace mh {
inline constexpr std::size_t kCacheLine = 64;
}
