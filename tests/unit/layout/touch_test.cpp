// SPDX-License-Identifier: BSD-3-Clause
// The test whether elements touch a range of addresses, compared with the list of all their bytes.
#include "layout/touch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "layout/random_type.hpp"

namespace mh::layout {
namespace {

constexpr Address kBase = 1U << 20U;

TEST(Touches, exactly_the_ranges_in_which_a_byte_lies) {
  for (std::uint64_t seed = 1; seed <= 1500 && !testing::Test::HasFailure(); ++seed) {
    RandomTypes random(seed);
    const Sample type = random.next();
    const auto count = static_cast<std::uint64_t>(random.between(0, 4));
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + std::to_string(count) + " of " +
                 type.text);
    std::vector<std::int64_t> places = naive::stream(type.reference, count);
    std::sort(places.begin(), places.end());
    const Elements elements{type.layout.get(), count, kBase};
    const AddressRange bounds = bounds_of(elements);
    if (!places.empty()) {
      EXPECT_EQ(bounds.begin, address_at(kBase, places.front()));
      EXPECT_EQ(bounds.end, address_at(kBase, places.back() + 1));
    }
    for (int i = 0; i < 60; ++i) {
      const std::int64_t low = places.empty() ? 0 : places.front();
      const std::int64_t high = places.empty() ? 0 : places.back();
      const std::int64_t begin = random.between(low - 20, high + 20);
      const std::int64_t end = begin + random.between(0, i % 3 == 0 ? 100 : 9);
      const auto first = std::lower_bound(places.begin(), places.end(), begin);
      const bool expected = first != places.end() && *first < end;
      EXPECT_EQ(touches(elements, {address_at(kBase, begin), address_at(kBase, end)}), expected)
          << begin << " to " << end;
    }
  }
}

// Halos have more blocks than a test could visit one by one.
TEST(Touches, large_layouts_in_few_steps) {
  const LayoutPtr eight = *named(8, 8);
  constexpr std::int64_t kSide = 4096;
  const LayoutPtr column = *vector(kSide, 1, kSide, *eight);
  const LayoutPtr columns = *resized(0, 8, *column);
  const Elements left{columns.get(), 2, kBase};  // the first two elements of each row
  for (std::int64_t row = 0; row < kSide; row += 97) {
    const Address begin = address_at(kBase, row * kSide * 8);
    EXPECT_TRUE(touches(left, {begin + 8, begin + 9}));
    EXPECT_FALSE(touches(left, {begin + 16, begin + kSide * 8}));
  }
}

TEST(Touches, lists_in_any_order) {
  constexpr std::int64_t kBlocks = 3000;
  std::vector<std::int64_t> up;
  for (std::int64_t i = 0; i < kBlocks; ++i) up.push_back(i * 7 + i * i % 5);
  std::vector<std::int64_t> down(up.rbegin(), up.rend());
  const LayoutPtr byte = *named(1, 1);
  for (const auto& list : {up, down}) {
    const LayoutPtr listed = *indexed_block(1, list, *byte);
    const Elements elements{listed.get(), 1, kBase};
    for (std::int64_t at = 0; at < kBlocks * 7; at += 11) {
      const bool expected = std::binary_search(up.begin(), up.end(), at);
      EXPECT_EQ(touches(elements, {address_at(kBase, at), address_at(kBase, at + 1)}), expected)
          << at;
    }
  }
}

}  // namespace
}  // namespace mh::layout
