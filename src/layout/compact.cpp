// SPDX-License-Identifier: BSD-3-Clause
#include "layout/compact.hpp"

#include <algorithm>

namespace mh::layout {

std::optional<Compact> compact_of(const Layout& layout, std::uint64_t count) {
  const Placed& root = layout.root();
  if (!root.node || root.node->kind != Kind::grid || count == 0) return std::nullopt;
  Compact compact;
  compact.grid = root.node->grid;
  compact.first = root.offset;
  if (count > 1 && !extend(compact.grid, count, layout.extent())) return std::nullopt;
  compact.low = root.offset;
  const Wide end = Wide{root.offset} + compact.grid.block;
  const Wide bytes = Wide{root.node->size} * count;
  if (!fits(end) || !fits(bytes)) return std::nullopt;
  compact.high = static_cast<std::int64_t>(end);
  for (unsigned d = 0; d < compact.grid.dims; ++d) {
    const Dim& dim = compact.grid.dim[d];
    if (!spread(compact.low, compact.high, dim.count, dim.stride)) return std::nullopt;
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
  auto node = std::make_shared<Node>();
  node->size = compact.bytes;
  node->blocks = compact.bytes / compact.grid.block;
  node->low = compact.low - compact.first;
  node->high = compact.high - compact.first;
  node->grid = compact.grid;
  return std::make_shared<const Layout>(
      Placed{compact.first, std::move(node)},
      Bounds{.any = true, .lower = compact.low, .upper = compact.high}, compact.high - compact.low);
}

}  // namespace mh::layout
