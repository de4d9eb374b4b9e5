// SPDX-License-Identifier: BSD-3-Clause
// The canonical form of where bytes lie: a tree of few nodes whose leaves are regular.
//
// Words: a *shape* says where the bytes of a packed stream lie relative to its first byte, in the
// order of the stream (MPI's type map order, which need not be that of addresses). A *grid* is a
// block of contiguous bytes repeated in up to kMaxDims strides; *runs* are blocks at irregular
// offsets; both are leaves, worked on by one kernel call. Above them *repeat* is one more stride
// and *mix* a sequence of different shapes. Two equal descriptions need not get equal trees, but
// the ones that programs use do: what is adjacent merges, what is regular becomes a stride.
//
// Immutable once made, shared by pointer between the shapes that contain it. Limits: kMaxDepth
// levels above the leaves; every offset and size fits 63 bits. What does not is refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/result.hpp"

namespace mh::layout {

// Arithmetic of offsets that cannot overflow: in 128 bits, then a look whether 64 hold the result.
__extension__ using Wide = __int128;
inline constexpr Wide kLargest = std::numeric_limits<std::int64_t>::max();
// One bit less than there is, so that the difference of two offsets fits, too.
inline constexpr Wide kFurthest = kLargest / 2;
constexpr bool fits(Wide value) { return value >= -kFurthest && value <= kFurthest; }

// What lies in [low, high) is repeated. False: the bounds do not fit.
bool spread(std::int64_t& low, std::int64_t& high, std::uint64_t count, std::int64_t stride);

inline constexpr unsigned kMaxDims = 5;
inline constexpr unsigned kMaxDepth = 24;

struct Dim {
  std::uint64_t count;
  std::int64_t stride;  // bytes, of any sign

  bool operator==(const Dim&) const = default;
};

// A stride that goes on where the inner one ends: both are one longer stride.
constexpr bool follows_on(const Dim& inner, std::int64_t stride) {
  return Wide{inner.stride} * inner.count == stride;
}

struct Grid {
  std::uint64_t block = 0;          // contiguous bytes
  unsigned dims = 0;                // 0: the block alone
  std::array<Dim, kMaxDims> dim{};  // the innermost first

  bool operator==(const Grid&) const = default;
};

// One more stride outside of the grid. False if it has all its dimensions.
bool extend(Grid& grid, std::uint64_t count, std::int64_t stride);

// A list of blocks, repeated `count` times at `stride`. The arrays belong to the node.
struct Runs {
  static constexpr std::uint64_t kShort = 255;

  const std::int64_t* offset = nullptr;
  const std::uint64_t* end = nullptr;  // of the stream after each run; null where all have `block`
  // Of runs of different lengths, where none is longer than kShort: less to read than `end`.
  const std::uint8_t* length = nullptr;
  std::uint64_t runs = 0;
  std::uint64_t block = 0;
  std::uint64_t bytes = 0;    // of the list once
  std::uint64_t longest = 0;  // run
  std::int64_t high = 0;      // where the farthest run ends, as offsets count
  bool ascending = false;     // each run lies behind the one before
  std::uint64_t count = 1;
  std::int64_t stride = 0;

  // Where in the stream of one list a run begins.
  [[nodiscard]] std::uint64_t begin_of(std::uint64_t run) const {
    if (end == nullptr) return run * block;
    return run == 0 ? 0 : end[run - 1];
  }
  [[nodiscard]] std::uint64_t length_of(std::uint64_t run) const {
    return length != nullptr ? length[run] : begin_of(run + 1) - begin_of(run);
  }
};

bool extend(Runs& runs, std::uint64_t count, std::int64_t stride);

struct Node;
using NodePtr = std::shared_ptr<const Node>;

enum class Kind : std::uint8_t { grid, runs, repeat, mix };

struct Node {
  Kind kind = Kind::grid;
  unsigned depth = 0;        // levels above the leaves
  std::uint64_t size = 0;    // bytes of the stream, never 0
  std::uint64_t blocks = 1;  // contiguous blocks as the kernels see them; stops at 2^63
  std::int64_t low = 0;  // the bytes lie in [low, high), relative to the first one of the stream
  std::int64_t high = 0;

  Grid grid;  // kind grid
  Runs runs;  // kind runs

  // kind repeat: child[0], `outer` times. kind mix: child[i] at offset[i], its stream ending at
  // end[i]. kind runs: what `runs` points to.
  Dim outer{};
  std::vector<NodePtr> child;
  std::vector<std::int64_t> offset;
  std::vector<std::uint64_t> end;
  std::vector<std::uint8_t> length;
};

// A shape somewhere: its first byte lies at `offset`. A null node has no bytes.
struct Placed {
  std::int64_t offset = 0;
  NodePtr node;
};

// A part of a sequence: a shape, or, without a node, that many contiguous bytes (a list of blocks
// may be long).
struct Piece {
  std::int64_t offset = 0;
  std::uint64_t bytes = 0;
  NodePtr node;
};

Result<NodePtr> block_of(std::uint64_t bytes);
// `count` times the shape, `stride` bytes apart; null stays null, and count 0 gives null.
Result<NodePtr> repeated(std::uint64_t count, std::int64_t stride, const NodePtr& node);
// One shape after the other.
Result<Placed> joined(std::vector<Piece> pieces);

// Equal bytes in equal order, as far as the trees are equal.
bool same(const Node& a, const Node& b);

// The status of arguments that describe nothing, and of sizes beyond 63 bits or kMaxDepth.
Status bad_argument();
Status too_large();

}  // namespace mh::layout
