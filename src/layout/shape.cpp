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

// Shapes of at most this many blocks are put into the list around them as blocks.
constexpr std::uint64_t kFewBlocks = 16;
// No list gets longer than this by doing so.
constexpr std::uint64_t kLongList = 1U << 22U;

std::uint64_t product_of_blocks(std::uint64_t count, std::uint64_t blocks) {
  const Wide product = Wide{count} * blocks;
  return product > kLargest ? static_cast<std::uint64_t>(kLargest)
                            : static_cast<std::uint64_t>(product);
}

bool is_block(const Node& node) { return node.kind == Kind::grid && node.grid.dims == 0; }

// Size and bounds of `node` once it is repeated.
bool spread(Node& node, std::uint64_t count, std::int64_t stride) {
  const Wide size = Wide{count} * node.size;
  if (size > kLargest) return false;
  node.size = static_cast<std::uint64_t>(size);
  return layout::spread(node.low, node.high, count, stride);
}

// A block as long as its stride is a longer block. (A grid's own block never is: its strides would
// have made one of it.)
bool lengthens(const Grid& grid, std::int64_t stride) {
  return grid.dims == 0 && stride > 0 && static_cast<std::uint64_t>(stride) == grid.block;
}

Result<NodePtr> wrapped(std::uint64_t count, std::int64_t stride, const NodePtr& node) {
  if (node->depth + 1 > kMaxDepth) return too_large();
  auto made = std::make_shared<Node>();
  made->kind = Kind::repeat;
  made->depth = node->depth + 1;
  made->size = node->size;
  made->low = node->low;
  made->high = node->high;
  made->blocks = product_of_blocks(count, node->blocks);
  made->outer = {count, stride};
  made->child = {node};
  if (!spread(*made, count, stride)) return too_large();
  return NodePtr(std::move(made));
}

// The repeated shape as one leaf, if it is one.
bool extend(Node& node, std::uint64_t count, std::int64_t stride) {
  switch (node.kind) {
    case Kind::grid:
      return layout::extend(node.grid, count, stride);
    case Kind::runs:
      return layout::extend(node.runs, count, stride);
    case Kind::repeat:
      if (!follows_on(node.outer, stride)) return false;
      node.outer.count *= count;
      return true;
    case Kind::mix:
      return false;
  }
  return false;
}

// A copy of the node whose runs point to its own arrays.
std::shared_ptr<Node> copy_of(const Node& node) {
  auto made = std::make_shared<Node>(node);
  made->runs.offset = made->offset.data();
  if (made->runs.end != nullptr) made->runs.end = made->end.data();
  if (made->runs.length != nullptr) made->runs.length = made->length.data();
  return made;
}

// ---- sequences -------------------------------------------------------------------------------

NodePtr node_of(const Piece& piece, const NodePtr& like) {
  if (piece.node) return piece.node;
  if (like && is_block(*like) && like->size == piece.bytes) return like;
  return *block_of(piece.bytes);
}

void add_blocks(const Node& node, std::int64_t at, std::vector<Piece>& to);

void add_grid(const Grid& grid, unsigned dims, std::int64_t at, std::vector<Piece>& to) {
  if (dims == 0) {
    to.push_back({at, grid.block, nullptr});
    return;
  }
  const Dim& dim = grid.dim[dims - 1];
  for (std::uint64_t i = 0; i < dim.count; ++i, at += dim.stride) add_grid(grid, dims - 1, at, to);
}

void add_runs(const Runs& runs, std::int64_t at, std::vector<Piece>& to) {
  for (std::uint64_t i = 0; i < runs.count; ++i, at += runs.stride) {
    for (std::uint64_t k = 0; k < runs.runs; ++k) {
      to.push_back({at + runs.offset[k], runs.begin_of(k + 1) - runs.begin_of(k), nullptr});
    }
  }
}

// The blocks of a shape that has few.
void add_blocks(const Node& node, std::int64_t at, std::vector<Piece>& to) {
  switch (node.kind) {
    case Kind::grid:
      return add_grid(node.grid, node.grid.dims, at, to);
    case Kind::runs:
      return add_runs(node.runs, at, to);
    case Kind::repeat:
      for (std::uint64_t i = 0; i < node.outer.count; ++i, at += node.outer.stride) {
        add_blocks(*node.child[0], at, to);
      }
      return;
    case Kind::mix:
      for (std::size_t i = 0; i < node.child.size(); ++i) {
        add_blocks(*node.child[i], at + node.offset[i], to);
      }
      return;
  }
}

std::uint64_t blocks_of(const Piece& piece) { return piece.node ? piece.node->blocks : 1; }

// Mixes dissolve into what they consist of, and shapes of few blocks into these.
std::vector<Piece> flattened(std::vector<Piece>&& pieces) {
  std::uint64_t small = 0;
  bool flat = true;
  for (const Piece& piece : pieces) {
    flat = flat && !piece.node;
    small += blocks_of(piece) <= kFewBlocks ? blocks_of(piece) : 0;
  }
  if (flat) return std::move(pieces);
  const std::uint64_t few = small <= kLongList ? kFewBlocks : 1;
  std::vector<Piece> made;
  for (Piece& piece : pieces) {
    if (piece.node && piece.node->blocks <= few) {
      add_blocks(*piece.node, piece.offset, made);
    } else if (piece.node && piece.node->kind == Kind::mix) {
      const Node& mix = *piece.node;
      for (std::size_t i = 0; i < mix.child.size(); ++i) {
        made.push_back({piece.offset + mix.offset[i], mix.child[i]->size, mix.child[i]});
      }
    } else {
      made.push_back(std::move(piece));
    }
  }
  return made;
}

// Blocks without a gap between them are one. Pieces without bytes are none.
void coalesce(std::vector<Piece>& pieces) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Piece& piece = pieces[i];
    if (!piece.node && piece.bytes == 0) continue;
    if (piece.node && is_block(*piece.node)) piece.node = nullptr;
    Piece* last = kept > 0 ? &pieces[kept - 1] : nullptr;
    const bool joins = last != nullptr && !last->node && !piece.node &&
                       Wide{last->offset} + last->bytes == piece.offset;
    if (joins) {
      last->bytes += piece.bytes;
    } else {
      if (kept != i) pieces[kept] = std::move(piece);
      ++kept;
    }
  }
  pieces.resize(kept);
}

bool same_piece(const Piece& a, const Piece& b) {
  if (a.bytes != b.bytes || !a.node != !b.node) return false;
  return !a.node || a.node == b.node || same(*a.node, *b.node);
}

// Every group of `group` offsets is a step of `gap` like the first.
bool grouped(std::span<const std::int64_t> at, std::size_t group, std::int64_t gap) {
  for (std::size_t i = 1; i < at.size(); ++i) {
    if (i % group != 0 && Wide{at[i]} - at[i - 1] != gap) return false;
  }
  return true;
}

// Length of the first run of equal gaps.
std::size_t first_group(std::span<const std::int64_t> at, std::int64_t gap) {
  std::size_t i = 2;
  while (i < at.size() && Wide{at[i]} - at[i - 1] == gap) ++i;
  return i;
}

// Equal shapes at offsets that are strides, or strides of strides. Empty if they are not.
std::optional<Result<NodePtr>> folded(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    if (!same_piece(piece, pieces[0])) return {};
  }
  std::vector<std::int64_t> at;
  at.reserve(pieces.size());
  for (const Piece& piece : pieces) at.push_back(piece.offset);
  NodePtr node = node_of(pieces[0], nullptr);
  while (at.size() > 1) {
    const Wide gap = Wide{at[1]} - at[0];
    if (!fits(gap)) return Result<NodePtr>(too_large());
    const std::size_t group = first_group(at, static_cast<std::int64_t>(gap));
    if (at.size() % group != 0 || !grouped(at, group, static_cast<std::int64_t>(gap))) return {};
    Result<NodePtr> inner = repeated(group, static_cast<std::int64_t>(gap), node);
    if (!inner) return inner;
    node = *inner;
    std::vector<std::int64_t> starts;
    for (std::size_t i = 0; i < at.size(); i += group) starts.push_back(at[i]);
    at = std::move(starts);
  }
  return Result<NodePtr>(node);
}

// Bounds and stream of a sequence whose first byte is the node's origin.
bool include(Node& node, const Piece& piece, std::int64_t origin) {
  const Wide offset = Wide{piece.offset} - origin;
  const Wide low = offset + (piece.node ? piece.node->low : 0);
  const Wide high = offset + (piece.node ? Wide{piece.node->high} : Wide{piece.bytes});
  const Wide size = Wide{node.size} + piece.bytes;
  if (!fits(low) || !fits(high) || !fits(offset) || size > kLargest) return false;
  node.low = std::min(node.low, static_cast<std::int64_t>(low));
  node.high = std::max(node.high, static_cast<std::int64_t>(high));
  node.size = static_cast<std::uint64_t>(size);
  node.offset.push_back(static_cast<std::int64_t>(offset));
  node.end.push_back(node.size);
  return true;
}

Result<NodePtr> irregular(std::span<const Piece> blocks) {
  auto made = std::make_shared<Node>();
  made->kind = Kind::runs;
  made->offset.reserve(blocks.size());
  made->end.reserve(blocks.size());
  bool uniform = true;
  bool ascending = true;
  std::uint64_t longest = 0;
  for (const Piece& piece : blocks) {
    ascending = ascending && piece.offset - blocks[0].offset >= made->high;
    if (!include(*made, piece, blocks[0].offset)) return too_large();
    uniform = uniform && piece.bytes == blocks[0].bytes;
    longest = std::max(longest, piece.bytes);
  }
  made->blocks = blocks.size();
  if (uniform) {
    made->end = {};
  } else if (longest <= Runs::kShort) {
    made->length.reserve(blocks.size());
    for (const Piece& piece : blocks) {
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
  return NodePtr(std::move(made));
}

Result<NodePtr> of_blocks(std::span<const Piece> blocks) {
  if (auto regular = folded(blocks)) return *regular;
  return irregular(blocks);
}

// Lists of blocks become leaves; what is left is a sequence of shapes, none of which is a block
// next to another.
Result<std::vector<Piece>> with_lists(std::vector<Piece>&& pieces) {
  std::vector<Piece> made;
  for (std::size_t i = 0; i < pieces.size();) {
    std::size_t last = i;
    while (last < pieces.size() && !pieces[last].node) ++last;
    if (last == i) {
      made.push_back(std::move(pieces[i++]));
      continue;
    }
    const Result<NodePtr> list = of_blocks(std::span(pieces).subspan(i, last - i));
    if (!list) return list.status();
    made.push_back({pieces[i].offset, (*list)->size, *list});
    i = last;
  }
  return made;
}

Result<NodePtr> mixed(std::span<const Piece> pieces) {
  auto made = std::make_shared<Node>();
  made->kind = Kind::mix;
  made->blocks = 0;
  for (const Piece& piece : pieces) {
    if (!include(*made, piece, pieces[0].offset)) return too_large();
    made->depth = std::max(made->depth, piece.node->depth + 1);
    const Wide blocks = Wide{made->blocks} + piece.node->blocks;
    made->blocks = static_cast<std::uint64_t>(std::min(blocks, kLargest));
    made->child.push_back(piece.node);
  }
  if (made->depth > kMaxDepth) return too_large();
  return NodePtr(std::move(made));
}

}  // namespace

Status bad_argument() { return {Code::system, EINVAL}; }
Status too_large() { return {Code::system, EOVERFLOW}; }

bool spread(std::int64_t& low, std::int64_t& high, std::uint64_t count, std::int64_t stride) {
  const Wide reach = (Wide{count} - 1) * stride;
  const Wide lowest = low + std::min<Wide>(reach, 0);
  const Wide highest = high + std::max<Wide>(reach, 0);
  low = static_cast<std::int64_t>(lowest);
  high = static_cast<std::int64_t>(highest);
  return fits(lowest) && fits(highest);
}

bool extend(Grid& grid, std::uint64_t count, std::int64_t stride) {
  if (count == 1) return true;
  if (lengthens(grid, stride)) {
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

bool extend(Runs& runs, std::uint64_t count, std::int64_t stride) {
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

Result<NodePtr> block_of(std::uint64_t bytes) {
  if (bytes == 0) return NodePtr();
  if (bytes > static_cast<std::uint64_t>(kLargest)) return too_large();
  auto made = std::make_shared<Node>();
  made->size = bytes;
  made->high = static_cast<std::int64_t>(bytes);
  made->grid.block = bytes;
  return NodePtr(std::move(made));
}

Result<NodePtr> repeated(std::uint64_t count, std::int64_t stride, const NodePtr& node) {
  if (count == 0 || !node) return NodePtr();
  if (count == 1) return node;
  std::shared_ptr<Node> made = copy_of(*node);
  // Bounds first: counts and blocks that multiply are no larger than the size.
  if (!spread(*made, count, stride)) return too_large();
  if (!extend(*made, count, stride)) return wrapped(count, stride, node);
  if (!is_block(*made)) made->blocks = product_of_blocks(count, node->blocks);
  return NodePtr(std::move(made));
}

Result<Placed> joined(std::vector<Piece> pieces) {
  coalesce(pieces);
  if (pieces.empty()) return Placed{};
  if (pieces.size() > 1 || pieces[0].node == nullptr) {
    if (const auto regular = folded(pieces)) {
      if (!*regular) return regular->status();
      return Placed{pieces[0].offset, **regular};
    }
    pieces = flattened(std::move(pieces));
    coalesce(pieces);
  }
  const std::int64_t origin = pieces[0].offset;
  Result<std::vector<Piece>> parts = with_lists(std::move(pieces));
  if (!parts) return parts.status();
  if (parts->size() == 1) return Placed{origin, (*parts)[0].node};
  const Result<NodePtr> mix = mixed(*parts);
  if (!mix) return mix.status();
  return Placed{origin, *mix};
}

bool same(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.size != b.size || a.offset != b.offset || a.end != b.end) return false;
  if (a.grid != b.grid || a.outer != b.outer || a.child.size() != b.child.size()) return false;
  if (a.runs.count != b.runs.count || a.runs.stride != b.runs.stride) return false;
  for (std::size_t i = 0; i < a.child.size(); ++i) {
    if (a.child[i] != b.child[i] && !same(*a.child[i], *b.child[i])) return false;
  }
  return true;
}

}  // namespace mh::layout
