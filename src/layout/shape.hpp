// SPDX-License-Identifier: BSD-3-Clause
// The canonical form of a set of bytes in memory: a tree of few nodes whose leaves are regular.
//
//   shape    offsets of a packed stream's bytes, relative to its first byte, in stream order (MPI's
//            type map order, which may differ from the order of addresses)
//   grid     leaf: a block of contiguous bytes, repeated in up to kMaxDims strides
//   runs     leaf: blocks at irregular offsets
//   repeat   a further stride above a shape
//   mix      a sequence of different shapes
//
// A call of a copy loop (kernels.hpp) moves a whole leaf. Equal datatypes may get different trees,
// but common datatypes get the same tree: adjacent blocks merge, and regular offsets become
// strides.
//
// A shape is immutable, and shared by pointer between the shapes that contain it. Limits: kMaxDepth
// levels above the leaves; every offset fits 62 bits and every size 63. Larger shapes are refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/result.hpp"

namespace mh::layout {

// Offsets are computed in 128 bits, which cannot overflow; fits_offset() then checks the result.
__extension__ using Int128 = __int128;
inline constexpr Int128 kLargest = std::numeric_limits<std::int64_t>::max();
// The largest offset: half of what 64 bits allow, so that the difference of two offsets also fits
// 64 bits.
inline constexpr Int128 kFurthest = kLargest / 2;
constexpr bool fits_offset(Int128 value) { return value >= -kFurthest && value <= kFurthest; }

// Extends the bounds [low, high) of a shape to `count` repetitions, `stride` bytes apart. False: a
// new bound exceeds kFurthest, the largest offset.
bool spread_bounds(std::int64_t& low, std::int64_t& high, std::uint64_t count, std::int64_t stride);

inline constexpr unsigned kMaxDims = 5;
inline constexpr unsigned kMaxDepth = 24;

struct Dim {
  std::uint64_t count;
  std::int64_t stride;  // bytes, of any sign

  bool operator==(const Dim&) const = default;
};

// True if a stride around a dimension continues where the dimension ends: both form one longer
// dimension.
constexpr bool follows_on(const Dim& inner, std::int64_t stride) {
  return Int128{inner.stride} * inner.count == stride;
}

struct Grid {
  std::uint64_t block = 0;          // contiguous bytes
  unsigned dims = 0;                // 0: the block alone
  std::array<Dim, kMaxDims> dim{};  // the innermost first

  bool operator==(const Grid&) const = default;
};

// Repeats the grid `count` times, `stride` bytes apart, by an outermost dimension. False: all
// kMaxDims dimensions are in use.
bool add_stride(Grid& grid, std::uint64_t count, std::int64_t stride);

// A leaf of a shape: a list of contiguous blocks (runs), repeated `count` times at `stride`. The
// node that contains this structure owns the arrays.
struct Runs {
  static constexpr std::uint64_t kShort = 255;

  const std::int64_t* offset = nullptr;
  // The offset in the packed stream at which each run ends; null: all runs have `block` bytes.
  const std::uint64_t* end = nullptr;
  // Lengths in bytes of runs of different lengths, if none is longer than kShort; else null. The
  // copy loops read less memory than in `end`.
  const std::uint8_t* length = nullptr;
  std::uint64_t runs = 0;
  std::uint64_t block = 0;
  std::uint64_t bytes = 0;    // of the list, not repeated
  std::uint64_t longest = 0;  // length of the longest run
  std::int64_t high = 0;      // end of the farthest run, on the scale of `offset`
  bool ascending = false;     // each run begins at or after the end of the run before
  std::uint64_t count = 1;
  std::int64_t stride = 0;

  // The offset at which a run begins in the packed stream of the list.
  [[nodiscard]] std::uint64_t begin_of(std::uint64_t run) const {
    if (end == nullptr) return run * block;
    return run == 0 ? 0 : end[run - 1];
  }
  [[nodiscard]] std::uint64_t length_of(std::uint64_t run) const {
    return length != nullptr ? length[run] : begin_of(run + 1) - begin_of(run);
  }
};

bool add_stride(Runs& runs, std::uint64_t count, std::int64_t stride);

struct ShapeNode;
using ShapePtr = std::shared_ptr<const ShapeNode>;

enum class ShapeKind : std::uint8_t { grid, runs, repeat, mix };

struct ShapeNode {
  ShapeKind kind = ShapeKind::grid;
  unsigned depth = 0;        // levels above the leaves
  std::uint64_t size = 0;    // bytes of the stream, never 0
  std::uint64_t blocks = 1;  // that the copy loops move, see Layout::blocks(); at most 2^63
  std::int64_t low = 0;      // the bytes lie in [low, high), relative to the stream's first byte
  std::int64_t high = 0;

  Grid grid;  // kind grid
  Runs runs;  // kind runs

  // In a repeat, `child[0]` comes `outer` times. In a mix, child[i] is at offset[i], and its bytes
  // end at end[i] of the stream. In a leaf of kind runs, `offset`, `end` and `length` are the
  // arrays to which `runs` points.
  Dim outer{};
  std::vector<ShapePtr> child;
  std::vector<std::int64_t> offset;
  std::vector<std::uint64_t> end;
  std::vector<std::uint8_t> length;
};

// A shape whose first byte is `offset` bytes from the beginning of an element. Without a node the
// shape has no bytes.
struct PlacedShape {
  std::int64_t offset = 0;
  ShapePtr node;
};

// A part of a sequence of shapes that is to be joined: a shape, or without a node a block of
// `bytes` contiguous bytes, which saves a node for each block of a long list.
struct SequencePart {
  std::int64_t offset = 0;
  std::uint64_t bytes = 0;
  ShapePtr node;
};

Result<ShapePtr> block_of(std::uint64_t bytes);
// Returns the shape repeated `count` times, `stride` bytes apart; null if the shape is null or
// `count` is 0.
Result<ShapePtr> repeat_shape(std::uint64_t count, std::int64_t stride, const ShapePtr& node);
// Joins the shapes into one shape, in the order of the packed stream.
Result<PlacedShape> join_shapes(std::vector<SequencePart> pieces);

// True if the trees are equal, which implies equal bytes in equal order.
bool are_equal(const ShapeNode& a, const ShapeNode& b);

// The results of functions that fail: for invalid arguments, and for offsets, sizes or nesting
// beyond the limits of a shape.
Status bad_argument();
Status too_large();

}  // namespace mh::layout
