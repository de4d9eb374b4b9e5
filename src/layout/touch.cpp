// SPDX-License-Identifier: BSD-3-Clause
#include "layout/touch.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace mh::layout {
namespace {

// Bytes from `begin` to before `end`, relative to the first byte of the shape that is asked.
struct Span {
  std::int64_t begin;
  std::int64_t end;
};

bool overlap(const Span& a, const Span& b) { return a.begin < b.end && b.begin < a.end; }

bool node_touches(const Node& node, const Span& range);

std::int64_t reach(std::uint64_t count, std::int64_t stride) {
  return static_cast<std::int64_t>(count - 1) * stride;
}

// `one` repeated.
Span repeated_bounds(const Span& one, std::uint64_t count, std::int64_t stride) {
  const std::int64_t far = reach(count, stride);
  return {one.begin + std::min<std::int64_t>(far, 0), one.end + std::max<std::int64_t>(far, 0)};
}

// Both for a positive divisor.
std::int64_t rounded_down(std::int64_t value, std::int64_t by) {
  return value / by - (value % by < 0 ? 1 : 0);
}
std::int64_t rounded_up(std::int64_t value, std::int64_t by) { return -rounded_down(-value, by); }

// Whether touched(range, relative to one) holds for one of `count` shapes at `stride`, each of
// which lies in `one`. Only those are asked that the range can touch.
template <class Touched>
bool any_of_repeated(std::uint64_t count, std::int64_t stride, const Span& one, const Span& range,
                     Touched&& touched) {
  if (count <= 1 || stride == 0) return overlap(one, range) && touched(range);
  // i * stride lies in [least, most].
  std::int64_t least = range.begin - one.end + 1;
  std::int64_t most = range.end - one.begin - 1;
  if (stride < 0) {
    std::swap(least, most);
    least = -least;
    most = -most;
  }
  const std::int64_t step = std::abs(stride);
  const std::int64_t first = std::max<std::int64_t>(rounded_up(least, step), 0);
  const std::int64_t last =
      std::min(rounded_down(most, step), static_cast<std::int64_t>(count) - 1);
  for (std::int64_t i = first; i <= last; ++i) {
    if (touched(Span{range.begin - i * stride, range.end - i * stride})) return true;
  }
  return false;
}

// The strides from the widest on: those within are then, as a rule, shorter than each of them.
bool strides_touch(std::uint64_t block, const Dim* dim, unsigned dims, const Span& range) {
  const Span one_block{0, static_cast<std::int64_t>(block)};
  if (dims == 0) return overlap(one_block, range);
  Span one = one_block;
  for (unsigned d = 1; d < dims; ++d) one = repeated_bounds(one, dim[d].count, dim[d].stride);
  return any_of_repeated(dim[0].count, dim[0].stride, one, range, [&](const Span& inner) {
    return strides_touch(block, dim + 1, dims - 1, inner);
  });
}

bool grid_touches(Grid grid, const Span& range) {
  // The set of bytes does not depend on the order of the strides.
  for (unsigned d = 1; d < grid.dims; ++d) {
    for (unsigned k = d; k > 0; --k) {
      Dim& inner = grid.dim[k];
      Dim& outer = grid.dim[k - 1];
      if (std::abs(outer.stride) < std::abs(inner.stride)) std::swap(outer, inner);
    }
  }
  return strides_touch(grid.block, grid.dim.data(), grid.dims, range);
}

Span run_of(const Runs& runs, std::uint64_t run) {
  const std::int64_t begin = runs.offset[run];
  return {begin, begin + static_cast<std::int64_t>(runs.length_of(run))};
}

bool list_touches(const Runs& runs, const Span& range) {
  if (runs.ascending) {
    const std::int64_t* behind = std::lower_bound(runs.offset, runs.offset + runs.runs, range.end);
    if (behind == runs.offset) return false;
    return overlap(run_of(runs, static_cast<std::uint64_t>(behind - runs.offset) - 1), range);
  }
  if (runs.runs > kLongestSearch) return true;
  for (std::uint64_t run = 0; run < runs.runs; ++run) {
    if (overlap(run_of(runs, run), range)) return true;
  }
  return false;
}

bool runs_touch(const Node& node, const Span& range) {
  const Runs& runs = node.runs;
  const std::int64_t far = runs.count == 0 ? 0 : reach(runs.count, runs.stride);
  const Span one{node.low - std::min<std::int64_t>(far, 0),
                 node.high - std::max<std::int64_t>(far, 0)};
  return any_of_repeated(runs.count, runs.stride, one, range,
                         [&](const Span& inner) { return list_touches(runs, inner); });
}

bool mix_touches(const Node& node, const Span& range) {
  for (std::size_t i = 0; i < node.child.size(); ++i) {
    const std::int64_t at = node.offset[i];
    if (node_touches(*node.child[i], {range.begin - at, range.end - at})) return true;
  }
  return false;
}

bool node_touches(const Node& node, const Span& range) {
  if (!overlap({node.low, node.high}, range)) return false;
  switch (node.kind) {
    case Kind::grid:
      return grid_touches(node.grid, range);
    case Kind::runs:
      return runs_touch(node, range);
    case Kind::repeat: {
      const Node& child = *node.child[0];
      return any_of_repeated(node.outer.count, node.outer.stride, {child.low, child.high}, range,
                             [&](const Span& inner) { return node_touches(child, inner); });
    }
    case Kind::mix:
      return mix_touches(node, range);
  }
  return true;
}

}  // namespace

AddressRange bounds_of(const Elements& elements) {
  const Layout& layout = *elements.layout;
  if (elements.count == 0 || layout.size() == 0) return {elements.base, elements.base};
  const Span all =
      repeated_bounds({layout.true_lower(), layout.true_upper()}, elements.count, layout.extent());
  return {moved(elements.base, all.begin), moved(elements.base, all.end)};
}

bool touches(const Elements& elements, const AddressRange& range) {
  const Layout& layout = *elements.layout;
  if (!overlap(bounds_of(elements), range)) return false;
  const Node& node = *layout.root().node;
  const Address at = moved(elements.base, layout.root().offset);
  const Span inner{static_cast<std::int64_t>(range.begin - at),
                   static_cast<std::int64_t>(range.end - at)};
  // Elements side by side are one more stride, best taken in its turn.
  Grid grid = node.grid;
  if (node.kind == Kind::grid && extend(grid, elements.count, layout.extent())) {
    return grid_touches(grid, inner);
  }
  return any_of_repeated(elements.count, layout.extent(), {node.low, node.high}, inner,
                         [&](const Span& one) { return node_touches(node, one); });
}

}  // namespace mh::layout
