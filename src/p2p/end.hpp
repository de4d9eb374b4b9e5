// SPDX-License-Identifier: BSD-3-Clause
// An end of a message: the send or receive buffer in this process, and functions that copy ranges
// of the message's packed stream to and from that buffer. Any thread, several at once on disjoint
// ranges.
#pragma once

#include <cstdint>

#include "layout/pack.hpp"

namespace mh::p2p {

using End = layout::Elements;  // contiguous without a layout

inline void* place_in(const End& contiguous, std::uint64_t offset) {
  return reinterpret_cast<void*>(contiguous.base + offset);
}

inline void pack(const End& from, layout::StreamRange range, std::byte* to) {
  if (from.layout != nullptr) {
    layout::pack_range(from, range, to);
  } else {
    layout::copy_from(from.cache_level, to, place_in(from, range.begin), range.end - range.begin);
  }
}

inline void unpack(const End& to, layout::StreamRange range, const std::byte* from) {
  if (to.layout != nullptr) {
    layout::unpack_range(to, range, from);
  } else {
    layout::copy_to(to.cache_level, place_in(to, range.begin), from, range.end - range.begin);
  }
}

}  // namespace mh::p2p
