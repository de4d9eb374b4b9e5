// SPDX-License-Identifier: BSD-3-Clause
// Whether elements of a layout have a byte in a range of addresses.
//
// Takes a few steps for each stride of a grid, a binary search for a list in the order of
// addresses, and not one step for each block. Other lists are looked through; one of more than
// kLongestSearch blocks counts as touched wherever its bounds are. So the answer may be yes where
// it should be no, for such lists, and is never no where it should be yes. Any thread.
#pragma once

#include <cstdint>

#include "layout/pack.hpp"

namespace mh::layout {

inline constexpr std::uint64_t kLongestSearch = 4096;

// Bytes from `begin` to before `end`.
struct AddressRange {
  Address begin;
  Address end;
};

// Of no bytes: no.
inline bool overlap(const AddressRange& a, const AddressRange& b) {
  return a.begin < b.end && b.begin < a.end && a.begin < a.end && b.begin < b.end;
}

// The least range that holds all of them; of no bytes if there are none.
AddressRange bounds_of(const Elements& elements);

bool touches(const Elements& elements, const AddressRange& range);

}  // namespace mh::layout
