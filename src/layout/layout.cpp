// SPDX-License-Identifier: BSD-3-Clause
#include "layout/layout.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace mh::layout {
namespace {

bool multiply_checked(std::int64_t a, std::int64_t b, std::int64_t& product) {
  const Int128 wide = Int128{a} * b;
  product = static_cast<std::int64_t>(wide);
  return fits_offset(wide);
}

// ---- lower and upper bounds of datatypes -----------------------------------------------------

// Extends the bounds of an element to `count` elements, `stride` bytes apart. A count of 0 leaves
// no bounds, not even those that the program set explicitly (marked). False: a new bound needs more
// than 62 bits.
bool spread_bounds(LayoutBounds& bounds, std::int64_t count, std::int64_t stride) {
  if (count == 0 || !bounds.any) {
    bounds = {};
    return true;
  }
  return layout::spread_bounds(bounds.lower, bounds.upper, static_cast<std::uint64_t>(count),
                               stride);
}

bool shift_bounds(LayoutBounds& bounds, std::int64_t by) {
  const Int128 lower = Int128{bounds.lower} + by;
  const Int128 upper = Int128{bounds.upper} + by;
  if (!bounds.any) return true;
  bounds.lower = static_cast<std::int64_t>(lower);
  bounds.upper = static_cast<std::int64_t>(upper);
  return fits_offset(lower) && fits_offset(upper);
}

// Extends the bounds `all` by `more`. If a bound of either was set explicitly (marked), only marked
// ones count.
void unite_bounds(LayoutBounds& all, const LayoutBounds& more) {
  if (!more.any) return;
  if (!all.any) {
    all = more;
    return;
  }
  if (all.lower_marked == more.lower_marked) {
    all.lower = std::min(all.lower, more.lower);
  } else if (more.lower_marked) {
    all.lower = more.lower;
  }
  if (all.upper_marked == more.upper_marked) {
    all.upper = std::max(all.upper, more.upper);
  } else if (more.upper_marked) {
    all.upper = more.upper;
  }
  all.lower_marked = all.lower_marked || more.lower_marked;
  all.upper_marked = all.upper_marked || more.upper_marked;
  all.alignment = std::max(all.alignment, more.alignment);
}

Result<LayoutPtr> finish_layout(PlacedShape root, const LayoutBounds& bounds) {
  Int128 extent = Int128{bounds.upper} - bounds.lower;
  const std::int64_t ragged = static_cast<std::int64_t>(extent % bounds.alignment);
  // The extent of an element is rounded up to its alignment, unless the program set the upper bound
  // explicitly.
  if (!bounds.upper_marked && ragged != 0) extent += bounds.alignment - ragged;
  if (!fits_offset(extent)) return too_large();
  return LayoutPtr(
      std::make_shared<const Layout>(std::move(root), bounds, static_cast<std::int64_t>(extent)));
}

// ---- lists of blocks -------------------------------------------------------------------------

// Builds the layout of a list of blocks, each of adjacent elements of a child type: collects the
// shapes of the blocks and their common bounds.
class Sequence {
 public:
  explicit Sequence(std::size_t blocks) { pieces_.reserve(blocks); }

  // Appends a block of `length` adjacent elements of the type `child`, `displacement` bytes from
  // the buffer.
  Status add(std::int64_t length, std::int64_t displacement, const Layout& child) {
    if (length < 0) return bad_argument();
    if (length == 0) return {};
    if (&child != child_ || length != length_) {
      const Status known = prepare(length, child);
      if (!known.ok()) return known;
    }
    LayoutBounds bounds = block_bounds_;
    if (!shift_bounds(bounds, displacement)) return too_large();
    unite_bounds(bounds_, bounds);
    const Int128 at = Int128{displacement} + child.root().offset;
    if (!fits_offset(at)) return too_large();
    if (node_) pieces_.push_back({static_cast<std::int64_t>(at), node_->size, node_});
    return {};
  }

  Result<LayoutPtr> finish() {
    Result<PlacedShape> root = join_shapes(std::move(pieces_));
    if (!root) return root.status();
    return finish_layout(std::move(*root), bounds_);
  }

 private:
  // Computes the shape and bounds of a block of `length` elements of `child`. Later calls of add()
  // use them again: most blocks of a list are as long as the previous block, and share its shape.
  Status prepare(std::int64_t length, const Layout& child) {
    Result<ShapePtr> node =
        repeat_shape(static_cast<std::uint64_t>(length), child.extent(), child.root().node);
    if (!node) return node.status();
    block_bounds_ = child.bounds();
    if (!spread_bounds(block_bounds_, length, child.extent())) return too_large();
    node_ = std::move(*node);
    child_ = &child;
    length_ = length;
    return {};
  }

  std::vector<SequencePart> pieces_;
  LayoutBounds bounds_;
  const Layout* child_ = nullptr;
  std::int64_t length_ = 0;
  ShapePtr node_;
  LayoutBounds block_bounds_;
};

// Implements hindexed() and indexed(): `lengths` elements of `child` at each displacement, which
// counts in units of `unit` bytes.
Result<LayoutPtr> layout_of_list(Numbers lengths, Numbers displacements, std::int64_t unit,
                                 const Layout& child) {
  if (lengths.size() != displacements.size()) return bad_argument();
  Sequence sequence(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::int64_t at = 0;
    if (!multiply_checked(displacements[i], unit, at)) return too_large();
    const Status added = sequence.add(lengths[i], at, child);
    if (!added.ok()) return added;
  }
  return sequence.finish();
}

// ---- subarrays and distributed arrays --------------------------------------------------------

// Makes the layout of a subarray or darray, whose bounds are those of the whole array (`bytes`
// bytes).
Result<LayoutPtr> part_of_array(PlacedShape part, std::int64_t bytes, const Layout& child) {
  const LayoutBounds bounds{.any = true,
                            .lower_marked = true,
                            .upper_marked = true,
                            .lower = 0,
                            .upper = bytes,
                            .alignment = child.bounds().alignment};
  return finish_layout(std::move(part), bounds);
}

// Returns the index, in the caller's order, of the i-th dimension, counted from the dimension whose
// elements are adjacent in memory.
std::size_t from_fastest(std::size_t i, std::size_t dims, ArrayOrder order) {
  return order == ArrayOrder::c ? dims - 1 - i : i;
}

bool is_valid(const Distributed& dim) {
  if (dim.size < 1 || dim.processes < 1) return false;
  if (dim.how == Distribution::none) return dim.processes == 1;
  if (dim.argument == kDefaultArgument) return true;
  // The standard demands that blocks of this length, one for each process, cover the dimension.
  const bool covers =
      dim.how == Distribution::cyclic || Int128{dim.argument} * dim.processes >= dim.size;
  return dim.argument >= 1 && covers;
}

std::int64_t block_length(const Distributed& dim) {
  if (dim.how == Distribution::none) return dim.size;
  if (dim.argument != kDefaultArgument) return dim.argument;
  if (dim.how == Distribution::cyclic) return 1;
  return dim.size / dim.processes + (dim.size % dim.processes != 0 ? 1 : 0);
}

// Returns the elements of a dimension that belong to the process with this coordinate: full blocks
// at a stride, then perhaps a shorter block at the end of the dimension.
Result<PlacedShape> distribute_dimension(const Distributed& dim, std::int64_t coordinate,
                                         std::int64_t stride, const PlacedShape& element) {
  const std::int64_t length = block_length(dim);
  const Int128 cycle = Int128{length} * dim.processes;
  const Int128 first = Int128{length} * coordinate;
  if (first >= dim.size || !element.node) return PlacedShape{};
  const Int128 left = dim.size - first;
  const std::int64_t whole = static_cast<std::int64_t>(left / cycle);
  const std::int64_t rest = static_cast<std::int64_t>(std::min<Int128>(left % cycle, length));
  const std::int64_t full = whole + (rest == length ? 1 : 0);
  const Int128 cycle_bytes = cycle * stride;
  const Int128 at = element.offset + first * stride;
  if (!fits_offset(at) || (full > 0 && !fits_offset(cycle_bytes * full))) return too_large();
  const Result<ShapePtr> block =
      repeat_shape(static_cast<std::uint64_t>(length), stride, element.node);
  const Result<ShapePtr> last =
      repeat_shape(static_cast<std::uint64_t>(rest == length ? 0 : rest), stride, element.node);
  if (!block) return block.status();
  if (!last) return last.status();
  // A single block is not repeated, so its stride is unused. The stride may be out of range, and is
  // set to 0.
  const Result<ShapePtr> blocks =
      repeat_shape(static_cast<std::uint64_t>(full),
                   full > 1 ? static_cast<std::int64_t>(cycle_bytes) : 0, *block);
  if (!blocks) return blocks.status();
  std::vector<SequencePart> pieces;
  if (*blocks) pieces.push_back({static_cast<std::int64_t>(at), (*blocks)->size, *blocks});
  if (*last) {
    const Int128 behind = full > 0 ? at + cycle_bytes * full : at;
    pieces.push_back({static_cast<std::int64_t>(behind), (*last)->size, *last});
  }
  return join_shapes(std::move(pieces));
}

}  // namespace

bool Layout::contiguous() const {
  const ShapeNode* node = root_.node.get();
  return node != nullptr && node->kind == ShapeKind::grid && node->grid.dims == 0 &&
         root_.offset == 0 && bounds_.lower == 0 &&
         static_cast<std::uint64_t>(extent_) == node->size;
}

Result<LayoutPtr> named(std::int64_t bytes, std::int64_t alignment) {
  if (bytes < 0 || alignment < 1) return bad_argument();
  const Result<ShapePtr> block = block_of(static_cast<std::uint64_t>(bytes));
  if (!block) return block.status();
  return finish_layout({0, *block}, {.any = true, .upper = bytes, .alignment = alignment});
}

Result<LayoutPtr> contiguous(std::int64_t count, const Layout& child) {
  return hvector(count, 1, child.extent(), child);
}

Result<LayoutPtr> vector(std::int64_t count, std::int64_t length, std::int64_t stride,
                         const Layout& child) {
  std::int64_t bytes = 0;
  if (!multiply_checked(stride, child.extent(), bytes)) return too_large();
  return hvector(count, length, bytes, child);
}

Result<LayoutPtr> hvector(std::int64_t count, std::int64_t length, std::int64_t stride_bytes,
                          const Layout& child) {
  if (count < 0 || length < 0) return bad_argument();
  const PlacedShape& root = child.root();
  const Result<ShapePtr> block =
      repeat_shape(static_cast<std::uint64_t>(length), child.extent(), root.node);
  if (!block) return block.status();
  const Result<ShapePtr> all =
      repeat_shape(static_cast<std::uint64_t>(count), stride_bytes, *block);
  if (!all) return all.status();
  LayoutBounds bounds = child.bounds();
  if (!spread_bounds(bounds, length, child.extent())) return too_large();
  if (!spread_bounds(bounds, count, stride_bytes)) return too_large();
  return finish_layout({root.offset, *all}, bounds);
}

Result<LayoutPtr> indexed(Numbers lengths, Numbers displacements, const Layout& child) {
  return layout_of_list(lengths, displacements, child.extent(), child);
}

Result<LayoutPtr> hindexed(Numbers lengths, Numbers displacement_bytes, const Layout& child) {
  return layout_of_list(lengths, displacement_bytes, 1, child);
}

Result<LayoutPtr> indexed_block(std::int64_t length, Numbers displacements, const Layout& child) {
  return indexed(std::vector(displacements.size(), length), displacements, child);
}

Result<LayoutPtr> hindexed_block(std::int64_t length, Numbers displacement_bytes,
                                 const Layout& child) {
  return hindexed(std::vector(displacement_bytes.size(), length), displacement_bytes, child);
}

Result<LayoutPtr> structure(Numbers lengths, Numbers displacement_bytes,
                            std::span<const LayoutPtr> children) {
  if (lengths.size() != displacement_bytes.size() || lengths.size() != children.size()) {
    return bad_argument();
  }
  Sequence sequence(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (!children[i]) return bad_argument();
    const Status added = sequence.add(lengths[i], displacement_bytes[i], *children[i]);
    if (!added.ok()) return added;
  }
  return sequence.finish();
}

Result<LayoutPtr> resized(std::int64_t lower, std::int64_t extent, const Layout& child) {
  const Int128 upper = Int128{lower} + extent;
  if (!fits_offset(upper) || !fits_offset(lower)) return too_large();
  return finish_layout(child.root(), {.any = true,
                                      .lower_marked = true,
                                      .upper_marked = true,
                                      .lower = lower,
                                      .upper = static_cast<std::int64_t>(upper),
                                      .alignment = child.bounds().alignment});
}

Result<LayoutPtr> subarray(Numbers sizes, Numbers subsizes, Numbers starts, ArrayOrder order,
                           const Layout& child) {
  const std::size_t dims = sizes.size();
  if (dims == 0 || subsizes.size() != dims || starts.size() != dims) return bad_argument();
  PlacedShape part = child.root();
  std::int64_t stride = child.extent();
  Int128 offset = part.offset;
  for (std::size_t i = 0; i < dims; ++i) {
    const std::size_t d = from_fastest(i, dims, order);
    if (starts[d] < 0 || subsizes[d] < 0 || Int128{starts[d]} + subsizes[d] > sizes[d]) {
      return bad_argument();
    }
    Result<ShapePtr> row = repeat_shape(static_cast<std::uint64_t>(subsizes[d]), stride, part.node);
    if (!row) return row.status();
    part.node = std::move(*row);
    offset += Int128{starts[d]} * stride;
    if (!fits_offset(offset) || !multiply_checked(stride, sizes[d], stride)) return too_large();
  }
  part.offset = static_cast<std::int64_t>(offset);
  return part_of_array(std::move(part), stride, child);
}

Result<LayoutPtr> darray(std::int64_t rank, std::span<const Distributed> dims, ArrayOrder order,
                         const Layout& child) {
  if (dims.empty() || rank < 0) return bad_argument();
  std::vector<std::int64_t> coordinate(dims.size());
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (!is_valid(dims[d])) return bad_argument();
    coordinate[d] = rank % dims[d].processes;
    rank /= dims[d].processes;
  }
  if (rank != 0) return bad_argument();
  PlacedShape part = child.root();
  std::int64_t stride = child.extent();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t d = from_fastest(i, dims.size(), order);
    Result<PlacedShape> next = distribute_dimension(dims[d], coordinate[d], stride, part);
    if (!next) return next.status();
    part = std::move(*next);
    if (!multiply_checked(stride, dims[d].size, stride)) return too_large();
  }
  return part_of_array(std::move(part), stride, child);
}

}  // namespace mh::layout
