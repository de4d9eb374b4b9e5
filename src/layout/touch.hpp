// SPDX-License-Identifier: BSD-3-Clause
// Tests whether elements of a layout have a byte in a range of addresses.
//
// The cost is a few steps per stride of a grid and a binary search for an ascending list, never a
// step per block. Other lists are searched block by block; a list of more than kLongestSearch
// blocks counts as touched within its bounds. The answer may therefore be a false yes, and is never
// a false no. Threads: any.
#pragma once

#include <cstdint>

#include "layout/pack.hpp"

namespace mh::layout {

inline constexpr std::uint64_t kLongestSearch = 4096;

// Addresses [begin, end).
struct AddressRange {
  Address begin;
  Address end;
};

// An empty range overlaps nothing.
inline bool overlap(const AddressRange& a, const AddressRange& b) {
  return a.begin < b.end && b.begin < a.end && a.begin < a.end && b.begin < b.end;
}

// The least range that contains all elements; empty if they have no bytes.
AddressRange bounds_of(const Elements& elements);

bool touches(const Elements& elements, const AddressRange& range);

}  // namespace mh::layout
