// SPDX-License-Identifier: BSD-3-Clause
#include "layout/compact.hpp"

#include <algorithm>

namespace mh::layout {

std::optional<Compact> compact_of(const Layout& layout, std::uint64_t count) {
  const PlacedShape& root = layout.root();
  if (!root.node || root.node->kind != ShapeKind::grid || count == 0) return std::nullopt;
  Compact compact;
  compact.grid = root.node->grid;
  compact.first = root.offset;
  if (count > 1 && !add_stride(compact.grid, count, layout.extent())) return std::nullopt;
  compact.low = root.offset;
  const Int128 end = Int128{root.offset} + compact.grid.block;
  const Int128 bytes = Int128{root.node->size} * count;
  if (!fits_offset(end) || !fits_offset(bytes)) return std::nullopt;
  compact.high = static_cast<std::int64_t>(end);
  for (unsigned d = 0; d < compact.grid.dims; ++d) {
    const Dim& dim = compact.grid.dim[d];
    if (!spread_bounds(compact.low, compact.high, dim.count, dim.stride)) return std::nullopt;
  }
  compact.bytes = static_cast<std::uint64_t>(bytes);
  return compact;
}

Compact compact_of_bytes(std::uint64_t bytes) {
  Compact compact;
  compact.grid.block = bytes;
  compact.high = static_cast<std::int64_t>(bytes);
  compact.bytes = bytes;
  return compact;
}

LayoutPtr layout_of(const Compact& compact) {
  auto node = std::make_shared<ShapeNode>();
  node->size = compact.bytes;
  node->blocks = compact.bytes / compact.grid.block;
  node->low = compact.low - compact.first;
  node->high = compact.high - compact.first;
  node->grid = compact.grid;
  return std::make_shared<const Layout>(
      PlacedShape{compact.first, std::move(node)},
      LayoutBounds{.any = true, .lower = compact.low, .upper = compact.high},
      compact.high - compact.low);
}

}  // namespace mh::layout
