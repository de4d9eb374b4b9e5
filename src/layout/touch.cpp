// SPDX-License-Identifier: BSD-3-Clause
#include "layout/touch.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace mh::layout {
namespace {

// Bytes [begin, end), relative to the first byte of a shape.
struct ByteSpan {
  std::int64_t begin;
  std::int64_t end;
};

bool overlap(const ByteSpan& a, const ByteSpan& b) { return a.begin < b.end && b.begin < a.end; }

bool node_touches(const ShapeNode& node, const ByteSpan& range);

std::int64_t reach_of_strides(std::uint64_t count, std::int64_t stride) {
  return static_cast<std::int64_t>(count - 1) * stride;
}

// The bounds of `one`, repeated.
ByteSpan repeated_bounds(const ByteSpan& one, std::uint64_t count, std::int64_t stride) {
  const std::int64_t far = reach_of_strides(count, stride);
  return {one.begin + std::min<std::int64_t>(far, 0), one.end + std::max<std::int64_t>(far, 0)};
}

// For a positive divisor.
std::int64_t rounded_down(std::int64_t value, std::int64_t by) {
  return value / by - (value % by < 0 ? 1 : 0);
}
std::int64_t rounded_up(std::int64_t value, std::int64_t by) { return -rounded_down(-value, by); }

// True if touched(range relative to a repetition) holds for a repetition. Each repetition lies in
// `one` at its offset, so only the repetitions near the range are tested.
template <class Touched>
bool any_of_repeated(std::uint64_t count, std::int64_t stride, const ByteSpan& one,
                     const ByteSpan& range, Touched&& touched) {
  if (count <= 1 || stride == 0) return overlap(one, range) && touched(range);
  // The condition is: i * stride lies in [least, most].
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
    if (touched(ByteSpan{range.begin - i * stride, range.end - i * stride})) return true;
  }
  return false;
}

// Tests the strides from the widest inwards: the inner dimensions are usually shorter than a step
// of the outer.
bool strides_touch(std::uint64_t block, const Dim* dim, unsigned dims, const ByteSpan& range) {
  const ByteSpan one_block{0, static_cast<std::int64_t>(block)};
  if (dims == 0) return overlap(one_block, range);
  ByteSpan one = one_block;
  for (unsigned d = 1; d < dims; ++d) one = repeated_bounds(one, dim[d].count, dim[d].stride);
  return any_of_repeated(dim[0].count, dim[0].stride, one, range, [&](const ByteSpan& inner) {
    return strides_touch(block, dim + 1, dims - 1, inner);
  });
}

bool grid_touches(Grid grid, const ByteSpan& range) {
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

ByteSpan run_of(const Runs& runs, std::uint64_t run) {
  const std::int64_t begin = runs.offset[run];
  return {begin, begin + static_cast<std::int64_t>(runs.length_of(run))};
}

bool list_touches(const Runs& runs, const ByteSpan& range) {
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

bool runs_touch(const ShapeNode& node, const ByteSpan& range) {
  const Runs& runs = node.runs;
  const std::int64_t far = runs.count == 0 ? 0 : reach_of_strides(runs.count, runs.stride);
  const ByteSpan one{node.low - std::min<std::int64_t>(far, 0),
                     node.high - std::max<std::int64_t>(far, 0)};
  return any_of_repeated(runs.count, runs.stride, one, range,
                         [&](const ByteSpan& inner) { return list_touches(runs, inner); });
}

bool mix_touches(const ShapeNode& node, const ByteSpan& range) {
  for (std::size_t i = 0; i < node.child.size(); ++i) {
    const std::int64_t at = node.offset[i];
    if (node_touches(*node.child[i], {range.begin - at, range.end - at})) return true;
  }
  return false;
}

bool node_touches(const ShapeNode& node, const ByteSpan& range) {
  if (!overlap({node.low, node.high}, range)) return false;
  switch (node.kind) {
    case ShapeKind::grid:
      return grid_touches(node.grid, range);
    case ShapeKind::runs:
      return runs_touch(node, range);
    case ShapeKind::repeat: {
      const ShapeNode& child = *node.child[0];
      return any_of_repeated(node.outer.count, node.outer.stride, {child.low, child.high}, range,
                             [&](const ByteSpan& inner) { return node_touches(child, inner); });
    }
    case ShapeKind::mix:
      return mix_touches(node, range);
  }
  return true;
}

}  // namespace

AddressRange bounds_of(const Elements& elements) {
  const Layout& layout = *elements.layout;
  if (elements.count == 0 || layout.size() == 0) return {elements.base, elements.base};
  const ByteSpan all =
      repeated_bounds({layout.true_lower(), layout.true_upper()}, elements.count, layout.extent());
  return {address_at(elements.base, all.begin), address_at(elements.base, all.end)};
}

bool touches(const Elements& elements, const AddressRange& range) {
  const Layout& layout = *elements.layout;
  if (!overlap(bounds_of(elements), range)) return false;
  const ShapeNode& node = *layout.root().node;
  const Address at = address_at(elements.base, layout.root().offset);
  const ByteSpan inner{static_cast<std::int64_t>(range.begin - at),
                       static_cast<std::int64_t>(range.end - at)};
  // Adjacent elements are a further stride, which is sorted in with the others.
  Grid grid = node.grid;
  if (node.kind == ShapeKind::grid && add_stride(grid, elements.count, layout.extent())) {
    return grid_touches(grid, inner);
  }
  return any_of_repeated(elements.count, layout.extent(), {node.low, node.high}, inner,
                         [&](const ByteSpan& one) { return node_touches(node, one); });
}

}  // namespace mh::layout
