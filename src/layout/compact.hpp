// SPDX-License-Identifier: BSD-3-Clause
// Where all bytes of a message lie, as plain data: what another process needs to pack or unpack
// them without asking the one whose they are.
//
// Only what is one grid (shape.hpp) has this form, and contiguous bytes: vectors, subarrays, faces
// of boxes and most else that programs send. Lists of blocks do not fit.
#pragma once

#include <cstdint>
#include <optional>

#include "layout/layout.hpp"
#include "layout/shape.hpp"

namespace mh::layout {

struct Compact {
  Grid grid;
  std::int64_t first = 0;  // of the stream, relative to the address of the buffer
  std::int64_t low = 0;    // the bytes lie in [low, high), likewise
  std::int64_t high = 0;
  std::uint64_t bytes = 0;  // of the stream

  bool operator==(const Compact&) const = default;
  [[nodiscard]] std::uint64_t reach() const { return static_cast<std::uint64_t>(high - low); }
};

// `count` elements; nothing if they are no grid.
std::optional<Compact> compact_of(const Layout& layout, std::uint64_t count);
Compact compact_of_bytes(std::uint64_t bytes);

// One element of it is the whole message.
LayoutPtr layout_of(const Compact& compact);

// The one that was asked for last is kept: the next chunk is likely of the same message. Of one
// thread.
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
