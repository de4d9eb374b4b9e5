// SPDX-License-Identifier: BSD-3-Clause
// A compact layout moves the same bytes as the layout from which it was made.
#include "layout/compact.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "layout/pack.hpp"

namespace mh::layout {
namespace {

using Bytes = std::vector<unsigned char>;

LayoutPtr bytes_of(std::int64_t bytes) { return *named(bytes, 1); }

// Expects that `layout` and its compact form pack `count` elements from the middle of a buffer
// alike, and that unpacking writes no bytes outside of the elements.
void expect_same(const Layout& layout, std::uint64_t count) {
  const auto compact = compact_of(layout, count);
  ASSERT_TRUE(compact.has_value());
  const LayoutPtr whole = layout_of(*compact);
  constexpr std::size_t kMiddle = 20'000;
  Bytes buffer(2 * kMiddle);
  std::iota(buffer.begin(), buffer.end(), static_cast<unsigned char>(1));
  const Elements elements{.layout = &layout, .count = count, .base = address_of(&buffer[kMiddle])};
  const Elements same{.layout = whole.get(), .count = 1, .base = elements.base};
  ASSERT_EQ(same.bytes(), elements.bytes());
  EXPECT_EQ(compact->bytes, elements.bytes());
  Bytes expected(elements.bytes());
  Bytes packed(elements.bytes());
  pack_range(elements, {0, expected.size()}, expected.data());
  pack_range(same, {0, packed.size()}, packed.data());
  EXPECT_EQ(packed, expected);
  pack_range(same, {3, packed.size()}, packed.data());
  EXPECT_EQ(std::memcmp(packed.data(), &expected[3], packed.size() - 3), 0);
  EXPECT_EQ(whole->true_lower(), compact->low);
  EXPECT_EQ(whole->true_upper(), compact->high);

  // Unpacking leaves the bytes outside of [low, high) unchanged, and writes the first and the last
  // byte of that range.
  Bytes target(buffer.size(), 0xee);
  const Bytes ones(packed.size(), 1);
  unpack_range({.layout = whole.get(), .count = 1, .base = address_of(&target[kMiddle])},
               {0, ones.size()}, ones.data());
  const auto at = [](std::int64_t place) {
    return static_cast<std::size_t>(static_cast<std::int64_t>(kMiddle) + place);
  };
  EXPECT_EQ(target[at(compact->low)], 1);
  EXPECT_EQ(target[at(compact->low) - 1], 0xee);
  EXPECT_EQ(target[at(compact->high) - 1], 1);
  EXPECT_EQ(target[at(compact->high)], 0xee);
}

TEST(Compact, contiguous_bytes) {
  expect_same(*bytes_of(100), 1);
  expect_same(*bytes_of(8), 1000);
}

TEST(Compact, a_vector_once_and_several_times) {
  const LayoutPtr row = *vector(5, 3, 7, *bytes_of(8));
  expect_same(*row, 1);
  expect_same(*row, 4);
}

TEST(Compact, strides_against_the_addresses) {
  const LayoutPtr row = *hvector(6, 2, -40, *bytes_of(8));
  expect_same(*row, 1);
  expect_same(**resized(-208, -300, *row), 3);
}

TEST(Compact, a_face_of_a_box_that_begins_behind_its_address) {
  const std::array<std::int64_t, 3> sizes{8, 9, 10};
  const std::array<std::int64_t, 3> face{4, 1, 5};
  const std::array<std::int64_t, 3> start{2, 3, 4};
  const LayoutPtr box = *subarray(sizes, face, start, ArrayOrder::c, *bytes_of(8));
  expect_same(*box, 1);
  expect_same(*box, 2);
}

TEST(Compact, irregular_blocks_have_no_such_form) {
  const std::array<std::int64_t, 3> lengths{1, 2, 1};
  const std::array<std::int64_t, 3> places{0, 5, 11};
  EXPECT_FALSE(compact_of(**indexed(lengths, places, *bytes_of(8)), 1).has_value());
  EXPECT_FALSE(compact_of(*bytes_of(8), 0).has_value());
}

TEST(Compact, too_many_strides_have_no_such_form) {
  LayoutPtr layout = bytes_of(8);
  for (unsigned dim = 0; dim < kMaxDims; ++dim) layout = *vector(2, 1, 3, *layout);
  ASSERT_TRUE(compact_of(*layout, 1).has_value());
  EXPECT_FALSE(compact_of(**resized(0, layout->extent() + 80, *layout), 2).has_value());
}

TEST(Compact, bytes_alone) {
  const Compact compact = compact_of_bytes(77);
  EXPECT_EQ(compact, *compact_of(*bytes_of(77), 1));
  EXPECT_EQ(compact.reach(), 77U);
}

}  // namespace
}  // namespace mh::layout
