// SPDX-License-Identifier: BSD-3-Clause
// The reference for the layout engine: a datatype as the MPI standard defines it, a plain list of
// basic types and markers. For each layout of a test, plain loops build this list as well. The
// reference is slow, so the tests use it for small types only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "layout/layout.hpp"

namespace mh::layout::naive {

struct Entry {
  std::int64_t at;
  std::int64_t bytes;
  std::int64_t alignment;
};

struct Type {
  std::vector<Entry> map;
  std::vector<std::int64_t> lower_marks;
  std::vector<std::int64_t> upper_marks;

  [[nodiscard]] bool empty() const {
    return map.empty() && lower_marks.empty() && upper_marks.empty();
  }
  [[nodiscard]] std::int64_t size() const {
    std::int64_t bytes = 0;
    for (const Entry& entry : map) bytes += entry.bytes;
    return bytes;
  }
  [[nodiscard]] std::int64_t lower() const {
    if (!lower_marks.empty()) return *std::min_element(lower_marks.begin(), lower_marks.end());
    return true_lower();
  }
  [[nodiscard]] std::int64_t true_lower() const {
    std::int64_t least = map.empty() ? 0 : map[0].at;
    for (const Entry& entry : map) least = std::min(least, entry.at);
    return least;
  }
  [[nodiscard]] std::int64_t true_upper() const {
    std::int64_t most = map.empty() ? 0 : map[0].at + map[0].bytes;
    for (const Entry& entry : map) most = std::max(most, entry.at + entry.bytes);
    return most;
  }
  [[nodiscard]] std::int64_t extent() const {
    if (!upper_marks.empty()) {
      return *std::max_element(upper_marks.begin(), upper_marks.end()) - lower();
    }
    std::int64_t alignment = 1;
    for (const Entry& entry : map) alignment = std::max(alignment, entry.alignment);
    std::int64_t length = true_upper() - lower();
    while (length % alignment != 0) ++length;
    return length;
  }

  void append(const Type& child, std::int64_t at) {
    for (const Entry& e : child.map) map.push_back({e.at + at, e.bytes, e.alignment});
    for (const std::int64_t mark : child.lower_marks) lower_marks.push_back(mark + at);
    for (const std::int64_t mark : child.upper_marks) upper_marks.push_back(mark + at);
  }
  void append(const Type& child, std::int64_t at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) append(child, at + i * child.extent());
  }
};

inline Type resized(Type type, std::int64_t lower, std::int64_t extent) {
  type.lower_marks = {lower};
  type.upper_marks = {lower + extent};
  return type;
}

// Makes the type of those elements of an array for which `mine(index)` is true, in storage order.
// `order` says as in MPI which dimension runs fastest.
inline Type part_of_array(const std::vector<std::int64_t>& sizes, ArrayOrder order,
                          const Type& child,
                          const std::function<bool(const std::vector<std::int64_t>&)>& mine) {
  std::int64_t total = 1;
  for (const std::int64_t size : sizes) total *= size;
  Type made;
  std::vector<std::int64_t> index(sizes.size());
  for (std::int64_t place = 0; place < total; ++place) {
    std::int64_t rest = place;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::size_t d = order == ArrayOrder::c ? sizes.size() - 1 - i : i;
      index[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    if (mine(index)) made.append(child, place * child.extent());
  }
  return resized(made, 0, total * child.extent());
}

// The offset in memory of every byte of the packed stream of `count` elements.
inline std::vector<std::int64_t> stream(const Type& type, std::uint64_t count) {
  std::vector<std::int64_t> at;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::int64_t element = static_cast<std::int64_t>(i) * type.extent();
    for (const Entry& entry : type.map) {
      for (std::int64_t k = 0; k < entry.bytes; ++k) at.push_back(element + entry.at + k);
    }
  }
  return at;
}

}  // namespace mh::layout::naive
