// SPDX-License-Identifier: BSD-3-Clause
// Walks a range of the packed stream of a layout, and passes its blocks leaf by leaf to an object
// of the caller, the sink.
//
// The start costs a division for each stride and a binary search for each list; after that the walk
// only steps. The walk allocates nothing and is not recursive. The *sink* is the caller's object
// that uses the blocks, such as PackSink (kernels.hpp). The sink gets whole rectangles and lists if
// possible, so that its loops are the innermost loops. Threads: any. A sink has
//
//   void block(Address, bytes)                       contiguous bytes
//   void rows(Address, const BlockRows&)             two strides of whole blocks
//   void list(Address, const Runs&, first, last)     whole runs of a list
//   void lists(Address, const Runs&, count)          a whole list, `count` times at its stride
//   bool full()                                      true: the sink takes no more
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "layout/layout.hpp"

namespace mh::layout {

// An address as a number and no pointer: the base of elements may be MPI_BOTTOM, or belong to
// another process.
using Address = std::uint64_t;

inline Address address_at(Address at, std::int64_t by) { return at + static_cast<Address>(by); }
inline Address address_at(Address at, std::uint64_t count, std::int64_t stride) {
  return at + count * static_cast<Address>(stride);
}

// Bytes [begin, end) of the packed stream.
struct StreamRange {
  std::uint64_t begin;
  std::uint64_t end;
};

// `rows` rows, `row_stride` bytes apart, of `length` blocks each, `stride` bytes apart. A block has
// `block` contiguous bytes.
struct BlockRows {
  std::uint64_t rows;
  std::int64_t row_stride;
  std::uint64_t length;
  std::int64_t stride;
  std::uint64_t block;
};

namespace detail {

inline std::byte* pointer_to(Address at) { return reinterpret_cast<std::byte*>(at); }

// A row of equal blocks, in the form that the copy loops take: `stride` is the distance from block
// to block in memory, `stream_stride` that in the packed stream. In the stream the distance is the
// size of a block if the blocks are adjacent there. It is the size of a record (a short list of
// runs, repeated at a stride) if each block is a run of a record.
struct BlockRow {
  Address at;
  std::int64_t stride;
  std::uint64_t length;
  std::byte* stream;
  std::uint64_t stream_stride;
};

// A position among the blocks of a grid, which advances in stream order.
class GridPlace {
 public:
  GridPlace(const Grid& grid, Address at, std::uint64_t block) : grid_(grid), address_(at) {
    if (block == 0) {  // the beginning needs no divisions
      index_.fill(0);
      return;
    }
    for (unsigned d = 0; d + 1 < grid.dims; ++d) {
      index_[d] = block % grid.dim[d].count;
      block /= grid.dim[d].count;
      address_ = address_at(address_, index_[d], grid.dim[d].stride);
    }
    index_[grid.dims - 1] = block;
    address_ = address_at(address_, block, grid.dim[grid.dims - 1].stride);
  }
  [[nodiscard]] Address address() const { return address_; }

  // Returns the largest rectangle (whole rows, or a part of a row) of at most `blocks` blocks that
  // begins at this position.
  [[nodiscard]] BlockRows rectangle(std::uint64_t blocks) const {
    const Dim& row = grid_.dim[0];
    if (grid_.dims == 1 || index_[0] != 0 || blocks < row.count) {
      return {1, 0, std::min(row.count - index_[0], blocks), row.stride, grid_.block};
    }
    const std::uint64_t rows = grid_.dim[1].count - index_[1];
    const bool all = blocks >= rows * row.count;
    return {all ? rows : blocks / row.count, grid_.dim[1].stride, row.count, row.stride,
            grid_.block};
  }

  // Advances behind the rectangle: by its rows, or by the blocks of a single row.
  void pass(const BlockRows& rectangle) {
    if (rectangle.rows == 1) {
      step(0, rectangle.length);
    } else {
      step(1, rectangle.rows);
    }
  }
  void pass_block() { step(0, 1); }

 private:
  void step(unsigned d, std::uint64_t by) {
    index_[d] += by;
    address_ = address_at(address_, by, grid_.dim[d].stride);
    while (index_[d] == grid_.dim[d].count && d + 1 < grid_.dims) {
      address_ -= index_[d] * static_cast<Address>(grid_.dim[d].stride);
      index_[d] = 0;
      ++d;
      ++index_[d];
      address_ = address_at(address_, grid_.dim[d].stride);
    }
  }

  const Grid& grid_;
  Address address_;
  std::array<std::uint64_t, kMaxDims> index_;  // only the first `dims` are in use
};

template <class Sink>
void walk_grid(const Grid& grid, Address at, StreamRange range, Sink& sink) {
  if (grid.dims == 0) return sink.block(address_at(at, range.begin, 1), range.end - range.begin);
  const std::uint64_t first = range.begin == 0 ? 0 : range.begin / grid.block;
  const std::uint64_t within = range.begin - first * grid.block;
  GridPlace place(grid, at, first);
  if (within != 0) {
    const std::uint64_t bytes = std::min(grid.block - within, range.end - range.begin);
    sink.block(place.address() + within, bytes);
    range.begin += bytes;
    place.pass_block();
  }
  std::uint64_t blocks = (range.end - range.begin) / grid.block;
  const std::uint64_t tail = range.end - range.begin - blocks * grid.block;
  while (blocks != 0 && !sink.full()) {
    const BlockRows rectangle = place.rectangle(blocks);
    sink.rows(place.address(), rectangle);
    place.pass(rectangle);
    blocks -= rectangle.rows * rectangle.length;
  }
  if (tail != 0 && !sink.full()) sink.block(place.address(), tail);
}

// Returns the number of the run that contains byte `at` of the packed stream of a list of runs.
inline std::uint64_t run_at(const Runs& runs, std::uint64_t at) {
  if (runs.end == nullptr) return at / runs.block;
  return static_cast<std::uint64_t>(std::upper_bound(runs.end, runs.end + runs.runs, at) -
                                    runs.end);
}

// Passes the blocks of a range of a list's packed stream to the sink: a cut first run, whole runs,
// a cut last run.
template <class Sink>
void walk_list(const Runs& runs, Address at, StreamRange range, Sink& sink) {
  std::uint64_t run = run_at(runs, range.begin);
  const std::uint64_t within = range.begin - runs.begin_of(run);
  if (within != 0) {
    const std::uint64_t end = std::min(runs.begin_of(run + 1), range.end);
    sink.block(address_at(at, runs.offset[run]) + within, end - range.begin);
    range.begin = end;
    ++run;
  }
  if (range.begin == range.end || sink.full()) return;
  const std::uint64_t last = run_at(runs, range.end);  // contains the rest after the whole runs
  if (last > run) sink.list(at, runs, run, last);
  const std::uint64_t tail = range.end - runs.begin_of(last);
  if (tail != 0 && !sink.full()) sink.block(address_at(at, runs.offset[last]), tail);
}

template <class Sink>
void walk_runs(const Runs& runs, Address at, StreamRange range, Sink& sink) {
  const std::uint64_t first = range.begin / runs.bytes;
  const std::uint64_t before = first * runs.bytes;
  at = address_at(at, first, runs.stride);
  range = {range.begin - before, range.end - before};
  if (range.begin != 0 || range.end < runs.bytes) {
    const std::uint64_t end = std::min(range.end, runs.bytes);
    walk_list(runs, at, {range.begin, end}, sink);
    if (end == range.end || sink.full()) return;
    at = address_at(at, runs.stride);
    range = {0, range.end - end};
  }
  const std::uint64_t whole = range.end / runs.bytes;
  if (whole != 0) sink.lists(at, runs, whole);
  const std::uint64_t tail = range.end - whole * runs.bytes;
  if (tail != 0 && !sink.full()) {
    walk_list(runs, address_at(at, whole, runs.stride), {0, tail}, sink);
  }
}

template <class Sink>
void walk_leaf(const ShapeNode& leaf, Address at, StreamRange range, Sink& sink) {
  if (leaf.kind == ShapeKind::grid) {
    walk_grid(leaf.grid, at, range, sink);
  } else {
    walk_runs(leaf.runs, at, range, sink);
  }
}

// A position in the tree of shapes of `count` elements, which advances from leaf to leaf. An array
// holds the levels of the tree above the leaf.
class TreePlace {
 public:
  // The position of byte `within` of the packed stream of `count` elements, `extent` bytes apart.
  TreePlace(const ShapeNode& element, std::uint64_t count, std::int64_t extent, Address at,
            std::uint64_t within) {
    levels_[0] = {nullptr, &element, at, extent, within / element.size, count};
    levels_used_ = 1;
    descend(within % element.size);
  }
  [[nodiscard]] const ShapeNode& leaf() const { return *leaf_; }
  [[nodiscard]] Address address() const { return address_; }
  [[nodiscard]] std::uint64_t within() const { return within_; }

  // Advances to the next leaf, which must exist.
  void pass_leaf() {
    while (++levels_[levels_used_ - 1].index == levels_[levels_used_ - 1].count) --levels_used_;
    descend(0);
  }

 private:
  struct Level {
    const ShapeNode* mix;  // null for a stride
    const ShapeNode* child;
    Address at;
    std::int64_t stride;
    std::uint64_t index;
    std::uint64_t count;
  };

  // Descends from the current child of the deepest level to the leaf that holds byte `within` of
  // that child.
  void descend(std::uint64_t within) {
    for (;;) {
      const Level& level = levels_[levels_used_ - 1];
      const ShapeNode* node =
          level.mix != nullptr ? level.mix->child[level.index].get() : level.child;
      const Address at = level.mix != nullptr ? address_at(level.at, level.mix->offset[level.index])
                                              : address_at(level.at, level.index, level.stride);
      if (node->kind == ShapeKind::repeat) {
        const ShapeNode* child = node->child[0].get();
        const std::uint64_t index = within / child->size;
        within -= index * child->size;
        levels_[levels_used_++] = {nullptr,          child, at, node->outer.stride, index,
                                   node->outer.count};
      } else if (node->kind == ShapeKind::mix) {
        const auto part = std::upper_bound(node->end.begin(), node->end.end(), within);
        const auto index = static_cast<std::uint64_t>(part - node->end.begin());
        if (index != 0) within -= node->end[index - 1];
        levels_[levels_used_++] = {node, nullptr, at, 0, index, node->child.size()};
      } else {
        leaf_ = node;
        address_ = at;
        within_ = within;
        return;
      }
    }
  }

  std::array<Level, kMaxDepth + 1> levels_;  // only the first levels_used_ are in use
  unsigned levels_used_ = 0;
  const ShapeNode* leaf_ = nullptr;
  Address address_ = 0;
  std::uint64_t within_ = 0;
};

template <class Sink>
void walk_tree(const ShapeNode& element, std::uint64_t count, std::int64_t extent, Address at,
               StreamRange range, Sink& sink) {
  TreePlace place(element, count, extent, at, range.begin);
  for (std::uint64_t left = range.end - range.begin;;) {
    const std::uint64_t bytes = std::min(left, place.leaf().size - place.within());
    walk_leaf(place.leaf(), place.address(), {place.within(), place.within() + bytes}, sink);
    left -= bytes;
    if (left == 0 || sink.full()) return;
    place.pass_leaf();
  }
}

// Passes a whole row or rectangle to the sink, without a search for the beginning of a range.
template <class Sink>
void walk_rectangle(const Grid& grid, Address at, Sink& sink) {
  const Dim& row = grid.dim[0];
  const Dim column = grid.dims == 2 ? grid.dim[1] : Dim{1, 0};
  sink.rows(at, {column.count, column.stride, row.count, row.stride, grid.block});
}

// Passes the blocks of any range of any layout to the sink. Not inlined: the large stack frame of
// this function would slow down the paths of walk_range() for contiguous data and for a single
// grid.
template <class Sink>
[[gnu::noinline]] void walk_any(const Layout& layout, std::uint64_t count, Address at,
                                StreamRange range, Sink& sink) {
  const ShapeNode& root = *layout.root().node;
  const std::int64_t extent = layout.extent();
  if (root.kind == ShapeKind::grid) {
    if (count == 1) return walk_grid(root.grid, at, range, sink);
    Grid grid = root.grid;
    if (add_stride(grid, count, extent)) return walk_grid(grid, at, range, sink);
  } else if (root.kind == ShapeKind::runs) {
    Runs runs = root.runs;
    if (add_stride(runs, count, extent)) return walk_runs(runs, at, range, sink);
  }
  walk_tree(root, count, extent, at, range, sink);
}

}  // namespace detail

// Passes the blocks of `range` to the sink. The range must lie within the packed stream of the
// `count` elements at address `base`.
template <class Sink>
void walk_range(const Layout& layout, std::uint64_t count, Address base, StreamRange range,
                Sink& sink) {
  if (range.begin >= range.end) return;
  const ShapeNode& root = *layout.root().node;
  const Address at = address_at(base, layout.root().offset);
  const bool whole = count == 1 && range.begin == 0 && range.end == root.size;
  if (whole && root.kind == ShapeKind::grid && root.grid.dims <= 2) {
    if (root.grid.dims == 0) return sink.block(at, root.size);
    return detail::walk_rectangle(root.grid, at, sink);
  }
  detail::walk_any(layout, count, at, range, sink);
}

}  // namespace mh::layout
