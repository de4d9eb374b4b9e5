// SPDX-License-Identifier: BSD-3-Clause
// The offsets of all bytes of a message as plain data, so that another process can pack or unpack
// the bytes.
//
// Contiguous bytes and single grids (shape.hpp) have this form: vectors, subarrays, faces of boxes
// and most other data that programs send. Limit: lists of blocks do not have this form.
#pragma once

#include <cstdint>
#include <optional>

#include "layout/layout.hpp"
#include "layout/shape.hpp"

namespace mh::layout {

struct Compact {
  Grid grid;
  std::int64_t first = 0;  // first byte of the stream, relative to the buffer's address
  std::int64_t low = 0;    // the bytes lie in [low, high), relative to the buffer's address
  std::int64_t high = 0;
  std::uint64_t bytes = 0;  // of the stream

  bool operator==(const Compact&) const = default;
  [[nodiscard]] std::uint64_t reach() const { return static_cast<std::uint64_t>(high - low); }
};

// Returns the compact form of `count` elements; nothing if they are not a single grid.
std::optional<Compact> compact_of(const Layout& layout, std::uint64_t count);
Compact compact_of_bytes(std::uint64_t bytes);

// Returns a layout of which a single element is the whole message.
LayoutPtr layout_of(const Compact& compact);

// Caches the last layout: the next chunk probably belongs to the same message. For a single thread.
class LastLayout {
 public:
  const Layout& of(const Compact& compact) {
    if (!layout_ || compact_ != compact) {
      compact_ = compact;
      layout_ = layout_of(compact);
    }
    return *layout_;
  }

 private:
  Compact compact_;
  LayoutPtr layout_;
};

}  // namespace mh::layout
