// SPDX-License-Identifier: BSD-3-Clause
// The forms of the layouts that flattening makes of types that programs use, and the arguments that
// its constructors refuse.
#include "layout/layout.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <limits>

namespace mh::layout {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

LayoutPtr basic(std::int64_t bytes = 8) { return *named(bytes, bytes); }

// Writes a shape as text: "8 x10+80 x3+1000" is a block of 8 bytes, 10 times 80 bytes apart, in 3
// rows 1000 bytes apart. The texts "runs" and "mix" are followed by their parts.
std::string words(const ShapeNode& node);

std::string words(const Grid& grid) {
  std::string text = fmt::format("{}", grid.block);
  for (unsigned d = 0; d < grid.dims; ++d) {
    text += fmt::format(" x{}{:+}", grid.dim[d].count, grid.dim[d].stride);
  }
  return text;
}

std::string words(const Runs& runs) {
  std::string text = "runs";
  for (std::uint64_t i = 0; i < runs.runs; ++i) {
    text += fmt::format(" {}@{}", runs.begin_of(i + 1) - runs.begin_of(i), runs.offset[i]);
  }
  return runs.count == 1 ? text : fmt::format("{} x{}{:+}", text, runs.count, runs.stride);
}

std::string words(const ShapeNode& node) {
  if (node.kind == ShapeKind::grid) return words(node.grid);
  if (node.kind == ShapeKind::runs) return words(node.runs);
  if (node.kind == ShapeKind::repeat) {
    return fmt::format("({}) x{}{:+}", words(*node.child[0]), node.outer.count, node.outer.stride);
  }
  std::string text = "mix";
  for (std::size_t i = 0; i < node.child.size(); ++i) {
    text += fmt::format(" ({})@{}", words(*node.child[i]), node.offset[i]);
  }
  return text;
}

std::string words(const Result<LayoutPtr>& layout) {
  if (!layout) return "failed";
  const PlacedShape& root = (*layout)->root();
  if (!root.node) return "nothing";
  return root.offset == 0 ? words(*root.node)
                          : fmt::format("{}: {}", root.offset, words(*root.node));
}

using List = std::vector<std::int64_t>;

TEST(Canonical, what_is_adjacent_is_one_block) {
  EXPECT_EQ(words(contiguous(5, *basic())), "40");
  EXPECT_EQ(words(vector(5, 2, 2, *basic())), "80");
  EXPECT_EQ(words(vector(1, 3, 100, *basic())), "24");
  EXPECT_EQ(words(hindexed(List{1, 2, 1}, List{16, 24, 40}, *basic())), "16: 32");
  EXPECT_EQ(words(hindexed(List{1, 0, 1}, List{0, 999, 8}, *basic())), "16");
  const std::vector<LayoutPtr> members = {basic(8), basic(4), basic(4)};
  EXPECT_EQ(words(structure(List{1, 1, 1}, List{0, 8, 12}, members)), "16");
  EXPECT_EQ(words(subarray(List{4, 5}, List{4, 5}, List{0, 0}, ArrayOrder::c, *basic())), "160");
  EXPECT_EQ(words(resized(-8, 24, *basic())), "8");
  EXPECT_EQ(words(contiguous(0, *basic())), "nothing");
  EXPECT_EQ(words(vector(3, 0, 7, *basic())), "nothing");
}

TEST(Canonical, what_is_regular_is_a_stride) {
  EXPECT_EQ(words(vector(5, 1, 10, *basic())), "8 x5+80");
  EXPECT_EQ(words(vector(5, 1, -10, *basic())), "8 x5-80");
  EXPECT_EQ(words(indexed_block(2, List{0, 10, 20, 30}, *basic())), "16 x4+80");
  EXPECT_EQ(words(hindexed_block(1, List{5, 25, 105, 125}, *basic())), "5: 8 x2+20 x2+100");
  const auto column = resized(0, 8, **vector(5, 1, 10, *basic()));
  EXPECT_EQ(words(contiguous(3, **column)), "8 x5+80 x3+8");
  EXPECT_EQ(words(contiguous(3, **resized(0, 400, **column))), "8 x15+80");
  EXPECT_EQ(words(contiguous(4, **resized(0, 24, *basic()))), "8 x4+24");
}

TEST(Canonical, faces_of_a_box_are_grids) {
  const List box = {10, 20, 30};
  EXPECT_EQ(words(subarray(box, List{1, 20, 30}, List{3, 0, 0}, ArrayOrder::c, *basic())),
            "14400: 4800");
  EXPECT_EQ(words(subarray(box, List{10, 1, 30}, List{0, 3, 0}, ArrayOrder::c, *basic())),
            "720: 240 x10+4800");
  EXPECT_EQ(words(subarray(box, List{10, 20, 1}, List{0, 0, 3}, ArrayOrder::c, *basic())),
            "24: 8 x200+240");
  EXPECT_EQ(words(subarray(box, List{8, 18, 1}, List{1, 1, 3}, ArrayOrder::c, *basic())),
            "5064: 8 x18+240 x8+4800");
  EXPECT_EQ(words(subarray(List{30, 20, 10}, List{1, 18, 8}, List{3, 1, 1}, ArrayOrder::fortran,
                           *basic())),
            "5064: 8 x18+240 x8+4800");
}

TEST(Canonical, variables_at_a_constant_distance_are_one_more_stride) {
  const auto face =
      subarray(List{10, 10, 10}, List{8, 8, 1}, List{1, 1, 1}, ArrayOrder::c, *basic());
  const std::vector<LayoutPtr> five(5, *face);
  EXPECT_EQ(words(structure(List(5, 1), List{0, 8000, 16000, 24000, 32000}, five)),
            "888: 8 x8+80 x8+800 x5+8000");
  EXPECT_EQ(words(structure(List(5, 1), List{0, 8000, 16000, 24000, 33000}, five)),
            "888: mix (8 x8+80 x8+800)@0 (8 x8+80 x8+800)@8000 (8 x8+80 x8+800)@16000 "
            "(8 x8+80 x8+800)@24000 (8 x8+80 x8+800)@33000");
}

TEST(Canonical, structs_with_gaps_are_lists) {
  const std::vector<LayoutPtr> members = {basic(8), basic(4), basic(8)};
  const auto record = structure(List{1, 1, 3}, List{0, 8, 16}, members);
  EXPECT_EQ(words(record), "runs 12@0 24@16");
  EXPECT_EQ(words(contiguous(100, **record)), "runs 12@0 24@16 x100+40");
  EXPECT_EQ(words(hindexed_block(1, List{0, 100, 240}, **record)),
            "runs 12@0 24@16 12@100 24@116 12@240 24@256");
  EXPECT_EQ(words(hindexed(List{1, 9}, List{0, 100}, **record)),
            "mix (runs 12@0 24@16)@0 (runs 12@0 24@16 x9+40)@100");
}

TEST(Canonical, order_of_the_type_map_is_kept) {
  EXPECT_EQ(words(hindexed(List{1, 1, 1}, List{8, 0, 24}, *basic())), "8: runs 8@0 8@-8 8@16");
  EXPECT_EQ(words(hindexed(List{1, 1}, List{8, 0}, *basic())), "8: 8 x2-8");
  EXPECT_FALSE((*hindexed(List{1, 1}, List{8, 0}, *basic()))->contiguous());
}

TEST(Canonical, more_dimensions_than_a_grid_has) {
  LayoutPtr layout = basic();
  std::int64_t stride = 16;
  std::string expected = "8";
  for (unsigned d = 0; d < kMaxDims; ++d) {
    layout = *hvector(2, 1, stride, *layout);
    expected += fmt::format(" x2+{}", stride);
    stride *= 10;
  }
  EXPECT_EQ(words(Result<LayoutPtr>(layout)), expected);
  EXPECT_EQ(words(hvector(2, 1, stride, *layout)), fmt::format("({}) x2+{}", expected, stride));
  EXPECT_EQ(words(hvector(6, 1, stride, **hvector(2, 1, 3 * stride, *layout))),
            fmt::format("(({}) x2+{}) x6+{}", expected, 3 * stride, stride));
}

TEST(Dense, says_that_elements_tile_memory_from_the_buffer_on) {
  EXPECT_TRUE(basic()->contiguous());
  EXPECT_TRUE((*contiguous(3, *basic()))->contiguous());
  EXPECT_FALSE((*contiguous(0, *basic()))->contiguous());
  EXPECT_FALSE((*vector(3, 1, 2, *basic()))->contiguous());
  EXPECT_FALSE((*resized(0, 16, *basic()))->contiguous());
  EXPECT_FALSE((*resized(-8, 8, *basic()))->contiguous());
  EXPECT_FALSE((*hindexed_block(1, List{8}, *basic()))->contiguous());
}

void expect_refused(const Result<LayoutPtr>& layout, int why) {
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.status().sys_errno, why);
}

TEST(Refused, counts_that_mean_nothing) {
  expect_refused(named(-1, 1), EINVAL);
  expect_refused(named(8, 0), EINVAL);
  expect_refused(contiguous(-1, *basic()), EINVAL);
  expect_refused(vector(2, -1, 3, *basic()), EINVAL);
  expect_refused(indexed(List{1, -1}, List{0, 2}, *basic()), EINVAL);
  expect_refused(indexed(List{1}, List{0, 2}, *basic()), EINVAL);
  expect_refused(structure(List{1}, List{0}, std::vector<LayoutPtr>{nullptr}), EINVAL);
  expect_refused(subarray(List{4}, List{3}, List{2}, ArrayOrder::c, *basic()), EINVAL);
  expect_refused(subarray(List{}, List{}, List{}, ArrayOrder::c, *basic()), EINVAL);
  const std::vector<Distributed> two = {{9, Distribution::block, kDefaultArgument, 2}};
  expect_refused(darray(2, two, ArrayOrder::c, *basic()), EINVAL);
  const std::vector<Distributed> uncovered = {{9, Distribution::block, 4, 2}};
  expect_refused(darray(0, uncovered, ArrayOrder::c, *basic()), EINVAL);
}

TEST(Refused, sizes_and_places_beyond_62_bits) {
  expect_refused(contiguous(kHuge, *basic()), EOVERFLOW);
  expect_refused(vector(3, 1, kHuge, *basic()), EOVERFLOW);
  expect_refused(hvector(3, 1, kHuge / 2, *basic()), EOVERFLOW);
  expect_refused(hindexed_block(1, List{0, kHuge - 1}, *basic()), EOVERFLOW);
  expect_refused(hindexed_block(1, List{-kHuge, kHuge}, *basic()), EOVERFLOW);
  expect_refused(resized(kHuge, kHuge, *basic()), EOVERFLOW);
  expect_refused(subarray(List{kHuge, kHuge}, List{1, 1}, List{0, 0}, ArrayOrder::c, *basic()),
                 EOVERFLOW);
}

TEST(Refused, nesting_beyond_the_depth_of_the_walk) {
  LayoutPtr layout = basic(1);
  std::int64_t stride = 2;
  for (unsigned d = 0; d < kMaxDims + kMaxDepth; ++d) {
    layout = *hvector(2, 1, stride, *layout);
    stride = stride * 2 + 1;
  }
  expect_refused(hvector(2, 1, stride, *layout), EOVERFLOW);
}

TEST(Large, counts_of_more_than_32_bits) {
  const std::int64_t count = 1LL << 40;
  const auto layout = vector(count, 1, 2, *basic());
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ((*layout)->size(), 8ULL << 40U);
  EXPECT_EQ((*layout)->extent(), (2 * count - 1) * 8);
  EXPECT_EQ((*layout)->blocks(), 1ULL << 40U);
}

}  // namespace
}  // namespace mh::layout
