// SPDX-License-Identifier: BSD-3-Clause
// What headers of older C libraries lack.
#pragma once

#include <sys/mman.h>

namespace mh::heap {

#ifdef MADV_COLLAPSE
inline constexpr int kMadvCollapse = MADV_COLLAPSE;
#else
inline constexpr int kMadvCollapse = 25;             // Linux 6.1
#endif
#ifdef MAP_FIXED_NOREPLACE
inline constexpr int kMapFixedNoReplace = MAP_FIXED_NOREPLACE;
#else
inline constexpr int kMapFixedNoReplace = 0x100000;  // Linux 4.17; older kernels take it as a hint
#endif

}  // namespace mh::heap
