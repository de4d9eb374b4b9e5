// SPDX-License-Identifier: BSD-3-Clause
#include "layout/shape.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace mh::layout {
namespace {

// When shapes are joined, a shape of at most this many contiguous blocks is replaced by its blocks,
// which join the list of blocks around it.
constexpr std::uint64_t kFewBlocks = 16;
// When shapes are joined, shapes of few blocks are replaced by their blocks only if these are at
// most this many together. The limit bounds the memory of the list.
constexpr std::uint64_t kLongList = 1U << 22U;

std::uint64_t product_of_blocks(std::uint64_t count, std::uint64_t blocks) {
  const Int128 product = Int128{count} * blocks;
  return product > kLargest ? static_cast<std::uint64_t>(kLargest)
                            : static_cast<std::uint64_t>(product);
}

bool is_block(const ShapeNode& node) { return node.kind == ShapeKind::grid && node.grid.dims == 0; }

// Updates size and bounds of a node that is repeated `count` times, `stride` bytes apart. False:
// the new size or a new bound exceeds the limits of a shape (shape.hpp).
bool spread_bounds(ShapeNode& node, std::uint64_t count, std::int64_t stride) {
  const Int128 size = Int128{count} * node.size;
  if (size > kLargest) return false;
  node.size = static_cast<std::uint64_t>(size);
  return layout::spread_bounds(node.low, node.high, count, stride);
}

// True if the grid is a single block and the stride of its repetition equals its length, so that
// the repetition is a longer block. The block of a grid with strides cannot be extended by a
// further, outer stride.
bool lengthens_block(const Grid& grid, std::int64_t stride) {
  return grid.dims == 0 && stride > 0 && static_cast<std::uint64_t>(stride) == grid.block;
}

Result<ShapePtr> make_repeat(std::uint64_t count, std::int64_t stride, const ShapePtr& node) {
  if (node->depth + 1 > kMaxDepth) return too_large();
  auto made = std::make_shared<ShapeNode>();
  made->kind = ShapeKind::repeat;
  made->depth = node->depth + 1;
  made->size = node->size;
  made->low = node->low;
  made->high = node->high;
  made->blocks = product_of_blocks(count, node->blocks);
  made->outer = {count, stride};
  made->child = {node};
  if (!spread_bounds(*made, count, stride)) return too_large();
  return ShapePtr(std::move(made));
}

// Makes the node repeated `count` times, `stride` bytes apart, without a further node. Returns
// false if the repetition needs a node of its own above this node.
bool add_stride(ShapeNode& node, std::uint64_t count, std::int64_t stride) {
  switch (node.kind) {
    case ShapeKind::grid:
      return layout::add_stride(node.grid, count, stride);
    case ShapeKind::runs:
      return layout::add_stride(node.runs, count, stride);
    case ShapeKind::repeat:
      if (!follows_on(node.outer, stride)) return false;
      node.outer.count *= count;
      return true;
    case ShapeKind::mix:
      return false;
  }
  return false;
}

// Copies a node of a shape. The member `runs` of the copy points to the copy's own arrays.
std::shared_ptr<ShapeNode> copy_of(const ShapeNode& node) {
  auto made = std::make_shared<ShapeNode>(node);
  made->runs.offset = made->offset.data();
  if (made->runs.end != nullptr) made->runs.end = made->end.data();
  if (made->runs.length != nullptr) made->runs.length = made->length.data();
  return made;
}

// ---- joining sequences of shapes -------------------------------------------------------------

ShapePtr node_of(const SequencePart& piece, const ShapePtr& like) {
  if (piece.node) return piece.node;
  if (like && is_block(*like) && like->size == piece.bytes) return like;
  return *block_of(piece.bytes);
}

void add_blocks(const ShapeNode& node, std::int64_t at, std::vector<SequencePart>& to);

void add_grid(const Grid& grid, unsigned dims, std::int64_t at, std::vector<SequencePart>& to) {
  if (dims == 0) {
    to.push_back({at, grid.block, nullptr});
    return;
  }
  const Dim& dim = grid.dim[dims - 1];
  for (std::uint64_t i = 0; i < dim.count; ++i, at += dim.stride) add_grid(grid, dims - 1, at, to);
}

void add_runs(const Runs& runs, std::int64_t at, std::vector<SequencePart>& to) {
  for (std::uint64_t i = 0; i < runs.count; ++i, at += runs.stride) {
    for (std::uint64_t k = 0; k < runs.runs; ++k) {
      to.push_back({at + runs.offset[k], runs.begin_of(k + 1) - runs.begin_of(k), nullptr});
    }
  }
}

// Appends the blocks of a shape of few blocks, whose first byte is at offset `at`, to a sequence.
void add_blocks(const ShapeNode& node, std::int64_t at, std::vector<SequencePart>& to) {
  switch (node.kind) {
    case ShapeKind::grid:
      return add_grid(node.grid, node.grid.dims, at, to);
    case ShapeKind::runs:
      return add_runs(node.runs, at, to);
    case ShapeKind::repeat:
      for (std::uint64_t i = 0; i < node.outer.count; ++i, at += node.outer.stride) {
        add_blocks(*node.child[0], at, to);
      }
      return;
    case ShapeKind::mix:
      for (std::size_t i = 0; i < node.child.size(); ++i) {
        add_blocks(*node.child[i], at + node.offset[i], to);
      }
      return;
  }
}

std::uint64_t blocks_of(const SequencePart& piece) { return piece.node ? piece.node->blocks : 1; }

// Replaces each mix (sequence of shapes) by its parts, and each shape of few blocks by these
// blocks.
std::vector<SequencePart> flatten_parts(std::vector<SequencePart>&& pieces) {
  std::uint64_t small = 0;
  bool flat = true;
  for (const SequencePart& piece : pieces) {
    flat = flat && !piece.node;
    small += blocks_of(piece) <= kFewBlocks ? blocks_of(piece) : 0;
  }
  if (flat) return std::move(pieces);
  const std::uint64_t few = small <= kLongList ? kFewBlocks : 1;
  std::vector<SequencePart> made;
  for (SequencePart& piece : pieces) {
    if (piece.node && piece.node->blocks <= few) {
      add_blocks(*piece.node, piece.offset, made);
    } else if (piece.node && piece.node->kind == ShapeKind::mix) {
      const ShapeNode& mix = *piece.node;
      for (std::size_t i = 0; i < mix.child.size(); ++i) {
        made.push_back({piece.offset + mix.offset[i], mix.child[i]->size, mix.child[i]});
      }
    } else {
      made.push_back(std::move(piece));
    }
  }
  return made;
}

// Merges contiguous blocks that follow each other without a gap, and drops pieces without bytes.
void merge_adjacent(std::vector<SequencePart>& pieces) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    SequencePart& piece = pieces[i];
    if (!piece.node && piece.bytes == 0) continue;
    if (piece.node && is_block(*piece.node)) piece.node = nullptr;
    SequencePart* last = kept > 0 ? &pieces[kept - 1] : nullptr;
    const bool joins = last != nullptr && !last->node && !piece.node &&
                       Int128{last->offset} + last->bytes == piece.offset;
    if (joins) {
      last->bytes += piece.bytes;
    } else {
      if (kept != i) pieces[kept] = std::move(piece);
      ++kept;
    }
  }
  pieces.resize(kept);
}

bool are_equal_parts(const SequencePart& a, const SequencePart& b) {
  if (a.bytes != b.bytes || !a.node != !b.node) return false;
  return !a.node || a.node == b.node || are_equal(*a.node, *b.node);
}

// True if the offsets within each group of `group` successive offsets are `gap` bytes apart.
bool is_grouped(std::span<const std::int64_t> at, std::size_t group, std::int64_t gap) {
  for (std::size_t i = 1; i < at.size(); ++i) {
    if (i % group != 0 && Int128{at[i]} - at[i - 1] != gap) return false;
  }
  return true;
}

// Returns how many offsets at the beginning are `gap` bytes apart; the first two are.
std::size_t first_group(std::span<const std::int64_t> at, std::int64_t gap) {
  std::size_t i = 2;
  while (i < at.size() && Int128{at[i]} - at[i - 1] == gap) ++i;
  return i;
}

// Makes one repeated shape of equal shapes at a stride, or at strides of strides. Returns nothing
// if the shapes differ or their offsets are irregular.
std::optional<Result<ShapePtr>> fold_strides(std::span<const SequencePart> pieces) {
  for (const SequencePart& piece : pieces) {
    if (!are_equal_parts(piece, pieces[0])) return {};
  }
  std::vector<std::int64_t> at;
  at.reserve(pieces.size());
  for (const SequencePart& piece : pieces) at.push_back(piece.offset);
  ShapePtr node = node_of(pieces[0], nullptr);
  while (at.size() > 1) {
    const Int128 gap = Int128{at[1]} - at[0];
    if (!fits_offset(gap)) return Result<ShapePtr>(too_large());
    const std::size_t group = first_group(at, static_cast<std::int64_t>(gap));
    if (at.size() % group != 0 || !is_grouped(at, group, static_cast<std::int64_t>(gap))) return {};
    Result<ShapePtr> inner = repeat_shape(group, static_cast<std::int64_t>(gap), node);
    if (!inner) return inner;
    node = *inner;
    std::vector<std::int64_t> starts;
    for (std::size_t i = 0; i < at.size(); i += group) starts.push_back(at[i]);
    at = std::move(starts);
  }
  return Result<ShapePtr>(node);
}

// Adds a piece to the size, bounds and offsets of the node of a sequence; `origin` is the offset of
// the sequence's first byte. False: an offset or the size exceeds the limits of a shape
// (shape.hpp).
bool include_part(ShapeNode& node, const SequencePart& piece, std::int64_t origin) {
  const Int128 offset = Int128{piece.offset} - origin;
  const Int128 low = offset + (piece.node ? piece.node->low : 0);
  const Int128 high = offset + (piece.node ? Int128{piece.node->high} : Int128{piece.bytes});
  const Int128 size = Int128{node.size} + piece.bytes;
  if (!fits_offset(low) || !fits_offset(high) || !fits_offset(offset) || size > kLargest)
    return false;
  node.low = std::min(node.low, static_cast<std::int64_t>(low));
  node.high = std::max(node.high, static_cast<std::int64_t>(high));
  node.size = static_cast<std::uint64_t>(size);
  node.offset.push_back(static_cast<std::int64_t>(offset));
  node.end.push_back(node.size);
  return true;
}

Result<ShapePtr> make_runs(std::span<const SequencePart> blocks) {
  auto made = std::make_shared<ShapeNode>();
  made->kind = ShapeKind::runs;
  made->offset.reserve(blocks.size());
  made->end.reserve(blocks.size());
  bool uniform = true;
  bool ascending = true;
  std::uint64_t longest = 0;
  for (const SequencePart& piece : blocks) {
    ascending = ascending && piece.offset - blocks[0].offset >= made->high;
    if (!include_part(*made, piece, blocks[0].offset)) return too_large();
    uniform = uniform && piece.bytes == blocks[0].bytes;
    longest = std::max(longest, piece.bytes);
  }
  made->blocks = blocks.size();
  if (uniform) {
    made->end = {};
  } else if (longest <= Runs::kShort) {
    made->length.reserve(blocks.size());
    for (const SequencePart& piece : blocks) {
      made->length.push_back(static_cast<std::uint8_t>(piece.bytes));
    }
  }
  made->runs = {.offset = made->offset.data(),
                .end = uniform ? nullptr : made->end.data(),
                .length = made->length.empty() ? nullptr : made->length.data(),
                .runs = blocks.size(),
                .block = uniform ? blocks[0].bytes : 0,
                .bytes = made->size,
                .longest = longest,
                .high = made->high,
                .ascending = ascending};
  return ShapePtr(std::move(made));
}

Result<ShapePtr> of_blocks(std::span<const SequencePart> blocks) {
  if (auto regular = fold_strides(blocks)) return *regular;
  return make_runs(blocks);
}

// Turns each list of successive blocks into a leaf: a grid if it is regular, else runs. The result
// is a sequence of shapes in which no two adjacent ones are single blocks.
Result<std::vector<SequencePart>> with_lists(std::vector<SequencePart>&& pieces) {
  std::vector<SequencePart> made;
  for (std::size_t i = 0; i < pieces.size();) {
    std::size_t last = i;
    while (last < pieces.size() && !pieces[last].node) ++last;
    if (last == i) {
      made.push_back(std::move(pieces[i++]));
      continue;
    }
    const Result<ShapePtr> list = of_blocks(std::span(pieces).subspan(i, last - i));
    if (!list) return list.status();
    made.push_back({pieces[i].offset, (*list)->size, *list});
    i = last;
  }
  return made;
}

Result<ShapePtr> make_mix(std::span<const SequencePart> pieces) {
  auto made = std::make_shared<ShapeNode>();
  made->kind = ShapeKind::mix;
  made->blocks = 0;
  for (const SequencePart& piece : pieces) {
    if (!include_part(*made, piece, pieces[0].offset)) return too_large();
    made->depth = std::max(made->depth, piece.node->depth + 1);
    const Int128 blocks = Int128{made->blocks} + piece.node->blocks;
    made->blocks = static_cast<std::uint64_t>(std::min(blocks, kLargest));
    made->child.push_back(piece.node);
  }
  if (made->depth > kMaxDepth) return too_large();
  return ShapePtr(std::move(made));
}

}  // namespace

Status bad_argument() { return {Code::system, EINVAL}; }
Status too_large() { return {Code::system, EOVERFLOW}; }

bool spread_bounds(std::int64_t& low, std::int64_t& high, std::uint64_t count,
                   std::int64_t stride) {
  const Int128 reach = (Int128{count} - 1) * stride;
  const Int128 lowest = low + std::min<Int128>(reach, 0);
  const Int128 highest = high + std::max<Int128>(reach, 0);
  low = static_cast<std::int64_t>(lowest);
  high = static_cast<std::int64_t>(highest);
  return fits_offset(lowest) && fits_offset(highest);
}

bool add_stride(Grid& grid, std::uint64_t count, std::int64_t stride) {
  if (count == 1) return true;
  if (lengthens_block(grid, stride)) {
    grid.block *= count;
    return true;
  }
  if (grid.dims > 0 && follows_on(grid.dim[grid.dims - 1], stride)) {
    grid.dim[grid.dims - 1].count *= count;
    return true;
  }
  if (grid.dims == kMaxDims) return false;
  grid.dim[grid.dims++] = {count, stride};
  return true;
}

bool add_stride(Runs& runs, std::uint64_t count, std::int64_t stride) {
  if (count == 1) return true;
  if (runs.count == 1) {
    runs.count = count;
    runs.stride = stride;
    return true;
  }
  if (!follows_on({runs.count, runs.stride}, stride)) return false;
  runs.count *= count;
  return true;
}

Result<ShapePtr> block_of(std::uint64_t bytes) {
  if (bytes == 0) return ShapePtr();
  if (bytes > static_cast<std::uint64_t>(kLargest)) return too_large();
  auto made = std::make_shared<ShapeNode>();
  made->size = bytes;
  made->high = static_cast<std::int64_t>(bytes);
  made->grid.block = bytes;
  return ShapePtr(std::move(made));
}

Result<ShapePtr> repeat_shape(std::uint64_t count, std::int64_t stride, const ShapePtr& node) {
  if (count == 0 || !node) return ShapePtr();
  if (count == 1) return node;
  std::shared_ptr<ShapeNode> made = copy_of(*node);
  // Size and bounds are checked before add_stride() multiplies counts and blocks: these products
  // are no larger than the size, so they do not overflow.
  if (!spread_bounds(*made, count, stride)) return too_large();
  if (!add_stride(*made, count, stride)) return make_repeat(count, stride, node);
  if (!is_block(*made)) made->blocks = product_of_blocks(count, node->blocks);
  return ShapePtr(std::move(made));
}

Result<PlacedShape> join_shapes(std::vector<SequencePart> pieces) {
  merge_adjacent(pieces);
  if (pieces.empty()) return PlacedShape{};
  if (pieces.size() > 1 || pieces[0].node == nullptr) {
    if (const auto regular = fold_strides(pieces)) {
      if (!*regular) return regular->status();
      return PlacedShape{pieces[0].offset, **regular};
    }
    pieces = flatten_parts(std::move(pieces));
    merge_adjacent(pieces);
  }
  const std::int64_t origin = pieces[0].offset;
  Result<std::vector<SequencePart>> parts = with_lists(std::move(pieces));
  if (!parts) return parts.status();
  if (parts->size() == 1) return PlacedShape{origin, (*parts)[0].node};
  const Result<ShapePtr> mix = make_mix(*parts);
  if (!mix) return mix.status();
  return PlacedShape{origin, *mix};
}

bool are_equal(const ShapeNode& a, const ShapeNode& b) {
  if (a.kind != b.kind || a.size != b.size || a.offset != b.offset || a.end != b.end) return false;
  if (a.grid != b.grid || a.outer != b.outer || a.child.size() != b.child.size()) return false;
  if (a.runs.count != b.runs.count || a.runs.stride != b.runs.stride) return false;
  for (std::size_t i = 0; i < a.child.size(); ++i) {
    if (a.child[i] != b.child[i] && !are_equal(*a.child[i], *b.child[i])) return false;
  }
  return true;
}

}  // namespace mh::layout
