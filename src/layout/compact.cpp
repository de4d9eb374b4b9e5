// SPDX-License-Identifier: BSD-3-Clause
#include "layout/compact.hpp"

#include <algorithm>

#include "layout/wide.hpp"

namespace mh::layout {

std::optional<Compact> compact_of(const Layout& layout, std::uint64_t count) {
  const Placed& root = layout.root();
  if (!root.node || root.node->kind != Kind::grid || count == 0) return std::nullopt;
  Compact compact;
  compact.grid = root.node->grid;
  compact.first = root.offset;
  if (count > 1 && !extend(compact.grid, count, layout.extent())) return std::nullopt;
  Wide low = root.offset;
  Wide high = low + static_cast<Wide>(compact.grid.block);
  for (unsigned d = 0; d < compact.grid.dims; ++d) {
    const Dim& dim = compact.grid.dim[d];
    const Wide last = (static_cast<Wide>(dim.count) - 1) * dim.stride;
    low += std::min<Wide>(last, 0);
    high += std::max<Wide>(last, 0);
  }
  const Wide bytes = static_cast<Wide>(root.node->size) * count;
  if (!fits(low) || !fits(high) || !fits(bytes)) return std::nullopt;
  compact.low = static_cast<std::int64_t>(low);
  compact.high = static_cast<std::int64_t>(high);
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
  Bounds bounds;
  bounds.any = true;
  bounds.lower = compact.low;
  bounds.upper = compact.high;
  return std::make_shared<const Layout>(Placed{compact.first, std::move(node)}, bounds,
                                        compact.high - compact.low);
}

}  // namespace mh::layout
