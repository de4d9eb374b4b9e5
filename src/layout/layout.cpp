// SPDX-License-Identifier: BSD-3-Clause
#include "layout/layout.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace mh::layout {
namespace {

bool multiply(std::int64_t a, std::int64_t b, std::int64_t& product) {
  const Wide wide = Wide{a} * b;
  product = static_cast<std::int64_t>(wide);
  return fits(wide);
}

// ---- bounds ----------------------------------------------------------------------------------

// `count` times, `stride` bytes apart. A count of 0 leaves nothing, not even the markers.
bool spread(Bounds& bounds, std::int64_t count, std::int64_t stride) {
  if (count == 0 || !bounds.any) {
    bounds = {};
    return true;
  }
  return layout::spread(bounds.lower, bounds.upper, static_cast<std::uint64_t>(count), stride);
}

bool shift(Bounds& bounds, std::int64_t by) {
  const Wide lower = Wide{bounds.lower} + by;
  const Wide upper = Wide{bounds.upper} + by;
  if (!bounds.any) return true;
  bounds.lower = static_cast<std::int64_t>(lower);
  bounds.upper = static_cast<std::int64_t>(upper);
  return fits(lower) && fits(upper);
}

// Where one of two has a marker, only markers count.
void unite(Bounds& all, const Bounds& more) {
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

Result<LayoutPtr> made(Placed root, const Bounds& bounds) {
  Wide extent = Wide{bounds.upper} - bounds.lower;
  const std::int64_t ragged = static_cast<std::int64_t>(extent % bounds.alignment);
  // The next multiple of the alignment, unless the end was set by hand.
  if (!bounds.upper_marked && ragged != 0) extent += bounds.alignment - ragged;
  if (!fits(extent)) return too_large();
  return LayoutPtr(
      std::make_shared<const Layout>(std::move(root), bounds, static_cast<std::int64_t>(extent)));
}

// ---- lists of blocks -------------------------------------------------------------------------

// Collects blocks of children into one sequence and its bounds.
class Sequence {
 public:
  explicit Sequence(std::size_t blocks) { pieces_.reserve(blocks); }

  // `length` children one after the other from `displacement` bytes on.
  Status add(std::int64_t length, std::int64_t displacement, const Layout& child) {
    if (length < 0) return bad_argument();
    if (length == 0) return {};
    if (&child != child_ || length != length_) {
      const Status known = prepare(length, child);
      if (!known.ok()) return known;
    }
    Bounds bounds = block_bounds_;
    if (!shift(bounds, displacement)) return too_large();
    unite(bounds_, bounds);
    const Wide at = Wide{displacement} + child.root().offset;
    if (!fits(at)) return too_large();
    if (node_) pieces_.push_back({static_cast<std::int64_t>(at), node_->size, node_});
    return {};
  }

  Result<LayoutPtr> finish() {
    Result<Placed> root = joined(std::move(pieces_));
    if (!root) return root.status();
    return made(std::move(*root), bounds_);
  }

 private:
  // Blocks of a list are mostly as long as the one before.
  Status prepare(std::int64_t length, const Layout& child) {
    Result<NodePtr> node =
        repeated(static_cast<std::uint64_t>(length), child.extent(), child.root().node);
    if (!node) return node.status();
    block_bounds_ = child.bounds();
    if (!spread(block_bounds_, length, child.extent())) return too_large();
    node_ = std::move(*node);
    child_ = &child;
    length_ = length;
    return {};
  }

  std::vector<Piece> pieces_;
  Bounds bounds_;
  const Layout* child_ = nullptr;
  std::int64_t length_ = 0;
  NodePtr node_;
  Bounds block_bounds_;
};

// hindexed and indexed: `unit` is what displacements count in.
Result<LayoutPtr> listed(Numbers lengths, Numbers displacements, std::int64_t unit,
                         const Layout& child) {
  if (lengths.size() != displacements.size()) return bad_argument();
  Sequence sequence(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::int64_t at = 0;
    if (!multiply(displacements[i], unit, at)) return too_large();
    const Status added = sequence.add(lengths[i], at, child);
    if (!added.ok()) return added;
  }
  return sequence.finish();
}

// ---- arrays ----------------------------------------------------------------------------------

// The whole array's bounds, whatever part of it is meant.
Result<LayoutPtr> part_of_array(Placed part, std::int64_t bytes, const Layout& child) {
  const Bounds bounds{.any = true,
                      .lower_marked = true,
                      .upper_marked = true,
                      .lower = 0,
                      .upper = bytes,
                      .alignment = child.bounds().alignment};
  return made(std::move(part), bounds);
}

// Dimension `i` counted from the one whose elements lie next to each other.
std::size_t from_fastest(std::size_t i, std::size_t dims, Order order) {
  return order == Order::c ? dims - 1 - i : i;
}

bool valid(const Distributed& dim) {
  if (dim.size < 1 || dim.processes < 1) return false;
  if (dim.how == Distribution::none) return dim.processes == 1;
  if (dim.argument == kDefaultArgument) return true;
  // Blocks of this length must cover the dimension.
  const bool covers =
      dim.how == Distribution::cyclic || Wide{dim.argument} * dim.processes >= dim.size;
  return dim.argument >= 1 && covers;
}

std::int64_t block_length(const Distributed& dim) {
  if (dim.how == Distribution::none) return dim.size;
  if (dim.argument != kDefaultArgument) return dim.argument;
  if (dim.how == Distribution::cyclic) return 1;
  return dim.size / dim.processes + (dim.size % dim.processes != 0 ? 1 : 0);
}

// The elements of one dimension that belong to process `coordinate`: full blocks at a stride, then
// what is left of the last one.
Result<Placed> distributed(const Distributed& dim, std::int64_t coordinate, std::int64_t stride,
                           const Placed& element) {
  const std::int64_t length = block_length(dim);
  const Wide cycle = Wide{length} * dim.processes;
  const Wide first = Wide{length} * coordinate;
  if (first >= dim.size || !element.node) return Placed{};
  const Wide left = dim.size - first;
  const std::int64_t whole = static_cast<std::int64_t>(left / cycle);
  const std::int64_t rest = static_cast<std::int64_t>(std::min<Wide>(left % cycle, length));
  const std::int64_t full = whole + (rest == length ? 1 : 0);
  const Wide cycle_bytes = cycle * stride;
  const Wide at = element.offset + first * stride;
  if (!fits(at) || (full > 0 && !fits(cycle_bytes * full))) return too_large();
  const Result<NodePtr> block = repeated(static_cast<std::uint64_t>(length), stride, element.node);
  const Result<NodePtr> last =
      repeated(static_cast<std::uint64_t>(rest == length ? 0 : rest), stride, element.node);
  if (!block) return block.status();
  if (!last) return last.status();
  // Of a single block the stride means nothing, and may be beyond all bounds.
  const Result<NodePtr> blocks =
      repeated(static_cast<std::uint64_t>(full),
               full > 1 ? static_cast<std::int64_t>(cycle_bytes) : 0, *block);
  if (!blocks) return blocks.status();
  std::vector<Piece> pieces;
  if (*blocks) pieces.push_back({static_cast<std::int64_t>(at), (*blocks)->size, *blocks});
  if (*last) {
    const Wide behind = full > 0 ? at + cycle_bytes * full : at;
    pieces.push_back({static_cast<std::int64_t>(behind), (*last)->size, *last});
  }
  return joined(std::move(pieces));
}

}  // namespace

bool Layout::contiguous() const {
  const Node* node = root_.node.get();
  return node != nullptr && node->kind == Kind::grid && node->grid.dims == 0 && root_.offset == 0 &&
         bounds_.lower == 0 && static_cast<std::uint64_t>(extent_) == node->size;
}

Result<LayoutPtr> named(std::int64_t bytes, std::int64_t alignment) {
  if (bytes < 0 || alignment < 1) return bad_argument();
  const Result<NodePtr> block = block_of(static_cast<std::uint64_t>(bytes));
  if (!block) return block.status();
  return made({0, *block}, {.any = true, .upper = bytes, .alignment = alignment});
}

Result<LayoutPtr> contiguous(std::int64_t count, const Layout& child) {
  return hvector(count, 1, child.extent(), child);
}

Result<LayoutPtr> vector(std::int64_t count, std::int64_t length, std::int64_t stride,
                         const Layout& child) {
  std::int64_t bytes = 0;
  if (!multiply(stride, child.extent(), bytes)) return too_large();
  return hvector(count, length, bytes, child);
}

Result<LayoutPtr> hvector(std::int64_t count, std::int64_t length, std::int64_t stride_bytes,
                          const Layout& child) {
  if (count < 0 || length < 0) return bad_argument();
  const Placed& root = child.root();
  const Result<NodePtr> block =
      repeated(static_cast<std::uint64_t>(length), child.extent(), root.node);
  if (!block) return block.status();
  const Result<NodePtr> all = repeated(static_cast<std::uint64_t>(count), stride_bytes, *block);
  if (!all) return all.status();
  Bounds bounds = child.bounds();
  if (!spread(bounds, length, child.extent())) return too_large();
  if (!spread(bounds, count, stride_bytes)) return too_large();
  return made({root.offset, *all}, bounds);
}

Result<LayoutPtr> indexed(Numbers lengths, Numbers displacements, const Layout& child) {
  return listed(lengths, displacements, child.extent(), child);
}

Result<LayoutPtr> hindexed(Numbers lengths, Numbers displacement_bytes, const Layout& child) {
  return listed(lengths, displacement_bytes, 1, child);
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
  const Wide upper = Wide{lower} + extent;
  if (!fits(upper) || !fits(lower)) return too_large();
  return made(child.root(), {.any = true,
                             .lower_marked = true,
                             .upper_marked = true,
                             .lower = lower,
                             .upper = static_cast<std::int64_t>(upper),
                             .alignment = child.bounds().alignment});
}

Result<LayoutPtr> subarray(Numbers sizes, Numbers subsizes, Numbers starts, Order order,
                           const Layout& child) {
  const std::size_t dims = sizes.size();
  if (dims == 0 || subsizes.size() != dims || starts.size() != dims) return bad_argument();
  Placed part = child.root();
  std::int64_t stride = child.extent();
  Wide offset = part.offset;
  for (std::size_t i = 0; i < dims; ++i) {
    const std::size_t d = from_fastest(i, dims, order);
    if (starts[d] < 0 || subsizes[d] < 0 || Wide{starts[d]} + subsizes[d] > sizes[d]) {
      return bad_argument();
    }
    Result<NodePtr> row = repeated(static_cast<std::uint64_t>(subsizes[d]), stride, part.node);
    if (!row) return row.status();
    part.node = std::move(*row);
    offset += Wide{starts[d]} * stride;
    if (!fits(offset) || !multiply(stride, sizes[d], stride)) return too_large();
  }
  part.offset = static_cast<std::int64_t>(offset);
  return part_of_array(std::move(part), stride, child);
}

Result<LayoutPtr> darray(std::int64_t rank, std::span<const Distributed> dims, Order order,
                         const Layout& child) {
  if (dims.empty() || rank < 0) return bad_argument();
  std::vector<std::int64_t> coordinate(dims.size());
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (!valid(dims[d])) return bad_argument();
    coordinate[d] = rank % dims[d].processes;
    rank /= dims[d].processes;
  }
  if (rank != 0) return bad_argument();
  Placed part = child.root();
  std::int64_t stride = child.extent();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t d = from_fastest(i, dims.size(), order);
    Result<Placed> next = distributed(dims[d], coordinate[d], stride, part);
    if (!next) return next.status();
    part = std::move(*next);
    if (!multiply(stride, dims[d].size, stride)) return too_large();
  }
  return part_of_array(std::move(part), stride, child);
}

}  // namespace mh::layout
