// SPDX-License-Identifier: BSD-3-Clause
// The layout of a whole message as plain data of fixed size, which a rank can publish, so that
// another process can pack or unpack the message.
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

// Returns the compact form of `count` elements of a datatype; nothing if they are neither one
// contiguous block nor one grid (a block repeated at strides).
std::optional<Compact> compact_of(const Layout& layout, std::uint64_t count);
Compact compact_of_bytes(std::uint64_t bytes);

// Returns a layout of which a single element has all bytes that the compact form describes.
LayoutPtr layout_of(const Compact& compact);

// Caches the layout that was made last from a compact form, because the next chunk to copy probably
// belongs to the same message. For a single thread.
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
