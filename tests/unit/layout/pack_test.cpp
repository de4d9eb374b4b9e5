// SPDX-License-Identifier: BSD-3-Clause
// Properties of packing over random types: the layout engine agrees with the reference (naive.hpp).
#include "layout/pack.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "layout/kernels.hpp"
#include "layout/random_type.hpp"

namespace mh::layout {
namespace {

using Bytes = std::vector<unsigned char>;

// Memory around the elements of a type, with a guard on both sides.
class Memory {
 public:
  Memory(const std::vector<std::int64_t>& places, std::uint64_t seed) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    for (const std::int64_t place : places) {
      low = std::min(low, place);
      high = std::max(high, place + 1);
    }
    // Puts offset 0 of the elements at the beginning of a cache line, so that the alignment is the
    // same whenever the test is executed.
    const std::int64_t before = (kGuard - low + kLine - 1) / kLine * kLine;
    bytes_.resize(static_cast<std::size_t>(kLine + before + high + kGuard));
    base_ = before + kLine - static_cast<std::int64_t>(address_of(bytes_.data()) % kLine);
    first_ = base_ - before;
    std::mt19937_64 random(seed);
    const auto end = static_cast<std::int64_t>(bytes_.size());
    for (std::int64_t at = first_; at < end; at += std::int64_t{sizeof(std::uint64_t)}) {
      const std::uint64_t word = random();
      std::memcpy(bytes_.data() + at, &word,
                  std::min(sizeof word, static_cast<std::size_t>(end - at)));
    }
  }
  unsigned char& at(std::int64_t place) { return bytes_[static_cast<std::size_t>(base_ + place)]; }
  [[nodiscard]] Address base() const { return address_of(bytes_.data() + base_); }
  // The bytes from the first guard on, so that an offset means the same in all memories of these
  // elements.
  [[nodiscard]] Bytes bytes() const {
    return {bytes_.begin() + first_, bytes_.end() - kLine + first_};
  }

 private:
  static constexpr std::int64_t kGuard = 24;
  static constexpr std::int64_t kLine = 64;
  std::int64_t base_ = 0;
  std::int64_t first_ = 0;
  Bytes bytes_;
};

struct Case {
  Sample type;
  std::uint64_t count;
  std::vector<std::int64_t> places;  // offset in memory of each byte of the packed stream
  CacheLevel cache_level;

  Case(RandomTypes& random)
      : type(random.next()),
        count(static_cast<std::uint64_t>(random.between(0, 4))),
        places(naive::stream(type.reference, count)),
        cache_level(random.between(0, 1) == 0 ? CacheLevel::caches : CacheLevel::memory) {}

  [[nodiscard]] Elements elements(const Memory& memory) const {
    return {type.layout.get(), count, memory.base(), cache_level};
  }
  // True if no byte of memory occurs twice in the stream, so that the stream can be unpacked.
  [[nodiscard]] bool is_target() const {
    std::vector<std::int64_t> sorted = places;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  }
  [[nodiscard]] Bytes packed(Memory& memory) const {
    Bytes stream;
    for (const std::int64_t place : places) stream.push_back(memory.at(place));
    return stream;
  }
};

StreamRange random_range(RandomTypes& random, std::size_t length) {
  auto a = static_cast<std::uint64_t>(random.between(0, static_cast<std::int64_t>(length)));
  auto b = static_cast<std::uint64_t>(random.between(0, static_cast<std::int64_t>(length)));
  return {std::min(a, b), std::max(a, b)};
}

constexpr std::uint64_t kSeeds = 1500;

template <class Check>
void for_random_types(std::uint64_t seeds, Check&& check) {
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    RandomTypes random(seed);
    Case drawn(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + std::to_string(drawn.count) + " of " +
                 drawn.type.text);
    check(random, drawn, seed);
  }
}

TEST(Random, types_have_the_bounds_of_the_standard) {
  for_random_types(kSeeds, [](RandomTypes&, const Case& drawn, std::uint64_t) {
    const Layout& layout = *drawn.type.layout;
    const naive::Type& reference = drawn.type.reference;
    ASSERT_EQ(layout.size(), static_cast<std::uint64_t>(reference.size()));
    ASSERT_EQ(layout.lower(), reference.lower());
    ASSERT_EQ(layout.extent(), reference.extent());
    ASSERT_EQ(layout.true_lower(), reference.true_lower());
    ASSERT_EQ(layout.true_upper(), reference.true_upper());
    std::vector<std::int64_t> in_order(drawn.places.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    if (layout.contiguous()) {
      ASSERT_EQ(drawn.places, in_order);
    }
  });
}

// Checks that the random types have every kind of shape; otherwise the other tests with random
// types would prove little.
TEST(Random, types_reach_every_kind_of_shape) {
  std::map<std::pair<ShapeKind, bool>, int>
      seen;  // by the kind of the root and whether it has children
  int targets = 0;
  for_random_types(kSeeds, [&](RandomTypes&, const Case& drawn, std::uint64_t) {
    const ShapeNode* node = drawn.type.layout->root().node.get();
    if (node != nullptr && drawn.count > 0) ++seen[{node->kind, node->depth > 1}];
    targets += drawn.is_target() && drawn.places.size() > 16 ? 1 : 0;
  });
  EXPECT_GT((seen[{ShapeKind::grid, false}]), 100);
  EXPECT_GT((seen[{ShapeKind::runs, false}]), 100);
  EXPECT_GT((seen[{ShapeKind::repeat, false}]), 10);
  EXPECT_GT((seen[{ShapeKind::mix, false}]), 10);
  EXPECT_GT((seen[{ShapeKind::repeat, true}]), 10);
  EXPECT_GT((seen[{ShapeKind::mix, true}]), 10);
  EXPECT_GT(targets, 200);
}

TEST(Random, any_range_is_packed_as_the_type_map_says) {
  for_random_types(kSeeds, [](RandomTypes& random, const Case& drawn, std::uint64_t seed) {
    Memory memory(drawn.places, seed);
    const Bytes stream = drawn.packed(memory);
    for (int i = 0; i < 6; ++i) {
      const StreamRange range =
          i == 0 ? StreamRange{0, stream.size()} : random_range(random, stream.size());
      Bytes packed(range.end - range.begin + 1, 0xee);
      ASSERT_EQ(pack_range(drawn.elements(memory), range, packed.data()), range.end - range.begin);
      ASSERT_EQ(packed.back(), 0xee);
      packed.pop_back();
      const auto begin = stream.begin() + static_cast<std::ptrdiff_t>(range.begin);
      ASSERT_TRUE(std::equal(packed.begin(), packed.end(), begin))
          << range.begin << " to " << range.end;
    }
  });
}

TEST(Random, unpacking_in_pieces_and_any_order_writes_the_bytes_and_no_gap) {
  for_random_types(kSeeds, [](RandomTypes& random, const Case& drawn, std::uint64_t seed) {
    if (!drawn.is_target()) return;
    Memory memory(drawn.places, seed);
    Memory expected(drawn.places, seed);
    Memory other(drawn.places, seed + 1);
    const Bytes stream = drawn.packed(other);
    for (std::size_t i = 0; i < stream.size(); ++i) expected.at(drawn.places[i]) = stream[i];
    std::vector<std::uint64_t> cuts = {0, stream.size()};
    for (int i = 0; i < 4; ++i) cuts.push_back(random_range(random, stream.size()).begin);
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t i = cuts.size() - 1; i > 0; --i) {
      unpack_range(drawn.elements(memory), {cuts[i - 1], cuts[i]}, stream.data() + cuts[i - 1]);
    }
    ASSERT_EQ(memory.bytes(), expected.bytes());
  });
}

TEST(Random, blocks_of_a_range_are_its_bytes) {
  for_random_types(kSeeds, [](RandomTypes& random, const Case& drawn, std::uint64_t seed) {
    Memory memory(drawn.places, seed);
    const Bytes stream = drawn.packed(memory);
    const StreamRange range = random_range(random, stream.size());
    Bytes seen;
    for (std::uint64_t at = range.begin; at < range.end;) {
      std::vector<iovec> room(static_cast<std::size_t>(random.between(1, 6)));
      const ListedBlocks found = list_blocks(drawn.elements(memory), {at, range.end}, room);
      ASSERT_GT(found.bytes, 0U);
      at += found.bytes;
      for (std::size_t i = 0; i < found.used; ++i) {
        const auto* bytes = static_cast<const unsigned char*>(room[i].iov_base);
        seen.insert(seen.end(), bytes, bytes + room[i].iov_len);
      }
    }
    const auto at = [&](std::uint64_t i) {
      return stream.begin() + static_cast<std::ptrdiff_t>(i);
    };
    ASSERT_EQ(seen, Bytes(at(range.begin), at(range.end)));
  });
}

TEST(Random, copying_between_two_layouts_is_packing_and_unpacking) {
  for_random_types(kSeeds, [](RandomTypes& random, const Case& to, std::uint64_t seed) {
    if (!to.is_target()) return;
    Case from(random);
    Memory source(from.places, seed);
    Memory target(to.places, seed + 1);
    Memory expected(to.places, seed + 1);
    const Bytes stream = from.packed(source);
    const StreamRange range = random_range(random, std::min(stream.size(), to.places.size()));
    for (std::uint64_t i = range.begin; i < range.end; ++i) expected.at(to.places[i]) = stream[i];
    std::vector<std::byte> scratch(static_cast<std::size_t>(random.between(1, 100)));
    ASSERT_EQ(copy_range(to.elements(target), from.elements(source), range, scratch),
              range.end - range.begin);
    ASSERT_EQ(target.bytes(), expected.bytes());
  });
}

TEST(Random, short_ranges_one_after_the_other_are_the_stream) {
  for_random_types(kSeeds / 4, [](RandomTypes& random, const Case& drawn, std::uint64_t seed) {
    Memory memory(drawn.places, seed);
    const Bytes stream = drawn.packed(memory);
    const auto next = [&](std::uint64_t at) {
      return StreamRange{at, at + static_cast<std::uint64_t>(random.between(1, 50))};
    };
    Bytes packed(stream.size());
    for (std::uint64_t at = 0; at < stream.size();) {
      at += pack_range(drawn.elements(memory), next(at), packed.data() + at);
    }
    ASSERT_EQ(packed, stream);
    ASSERT_EQ(pack_range(drawn.elements(memory), next(stream.size()), packed.data()), 0U);
    if (!drawn.is_target()) return;
    Memory back(drawn.places, seed + 1);
    for (std::uint64_t at = 0; at < stream.size();) {
      at += unpack_range(drawn.elements(back), next(at), stream.data() + at);
    }
    ASSERT_EQ(drawn.packed(back), stream);
  });
}

// ---- long lists ------------------------------------------------------------------------------

// Packs and unpacks 100,000 blocks at irregular offsets. If `even`, all have the same length.
void check_long_list(bool even) {
  constexpr std::size_t kBlocks = 100'000;
  RandomTypes random(7);
  std::vector<std::int64_t> lengths(kBlocks);
  std::vector<std::int64_t> places(kBlocks);
  std::vector<std::int64_t> stream;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    lengths[i] = even ? 1 : random.between(0, 3);
    at += random.between(1, 5) * 8;
    places[i] = at;
    for (std::int64_t k = 0; k < lengths[i] * 8; ++k) stream.push_back(at + k);
    at += lengths[i] * 8;
  }
  const auto basic = named(8, 8);
  const auto layout = hindexed(lengths, places, **basic);
  ASSERT_TRUE(layout.ok());
  ASSERT_EQ((*layout)->size(), stream.size());
  Memory memory(stream, 1);
  const Elements elements{layout->get(), 1, memory.base()};
  for (int i = 0; i < 300; ++i) {
    const auto begin =
        static_cast<std::uint64_t>(random.between(0, static_cast<std::int64_t>(stream.size())));
    StreamRange range{begin, std::min<std::uint64_t>(begin + 500, stream.size())};
    if (i == 0) range = {0, stream.size()};
    Bytes packed(range.end - range.begin);
    ASSERT_EQ(pack_range(elements, range, packed.data()), packed.size());
    for (std::uint64_t k = 0; k < packed.size(); ++k) {
      ASSERT_EQ(packed[k], memory.at(stream[range.begin + k])) << range.begin << " + " << k;
    }
  }
}

TEST(LongList, of_equal_blocks) { check_long_list(true); }
TEST(LongList, of_unequal_blocks) { check_long_list(false); }

TEST(CacheLevelOf, a_message_and_its_source_exceed_the_part_of_the_last_cache_that_is_free) {
  constexpr std::uint64_t kMb = 1U << 20U;
  EXPECT_EQ(cache_level_of(4 * kMb, 8 * kMb), CacheLevel::caches);
  EXPECT_EQ(cache_level_of(4 * kMb + 1, 8 * kMb), CacheLevel::memory);
  // A cache of 480 MB is shared with others.
  EXPECT_EQ(cache_level_of(16 * kMb, 480 * kMb), CacheLevel::caches);
  EXPECT_EQ(cache_level_of(16 * kMb + 1, 480 * kMb), CacheLevel::memory);
  EXPECT_EQ(cache_level_of(1024 * kMb, 0), CacheLevel::caches) << "the cache is not known";
}

// ---- every kernel (packing loop) -------------------------------------------------------------

// Packs and unpacks the layout, and compares with `places`: the offset of each byte of its packed
// stream.
void check_against(const Layout& layout, const std::vector<std::int64_t>& places) {
  ASSERT_EQ(layout.size(), places.size());
  Memory memory(places, 1);
  Memory expected(places, 2);
  Bytes stream(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    stream[i] = memory.at(places[i]);
    expected.at(places[i]) = stream[i];
  }
  const StreamRange all{0, places.size()};
  for (const CacheLevel cache_level : {CacheLevel::caches, CacheLevel::memory}) {
    Memory target(places, 2);
    Bytes packed(places.size());
    pack_range({&layout, 1, memory.base(), cache_level}, all, packed.data());
    ASSERT_EQ(packed, stream);
    unpack_range({&layout, 1, target.base(), cache_level}, all, stream.data());
    ASSERT_EQ(target.bytes(), expected.bytes());
  }
}

// Packs and unpacks a grid: `rows` rows of `length` blocks of `bytes` bytes, whose first byte is at
// `offset`.
void check_grid(std::int64_t bytes, std::int64_t length, std::int64_t stride, std::int64_t rows,
                std::int64_t row_stride, std::int64_t offset = 0) {
  SCOPED_TRACE(std::to_string(bytes) + " x" + std::to_string(length) + " at " +
               std::to_string(stride) + " x" + std::to_string(rows) + " at " +
               std::to_string(row_stride) + " from " + std::to_string(offset));
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < length; ++j) {
      const std::int64_t block = offset + i * row_stride + j * stride;
      for (std::int64_t k = 0; k < bytes; ++k) places.push_back(block + k);
    }
  }
  const auto row = hvector(length, 1, stride, **named(bytes, 1));
  const auto rectangle = hvector(rows, 1, row_stride, **row);
  const auto grid = hindexed_block(1, std::array{offset}, **rectangle);
  ASSERT_EQ((*grid)->root().node->kind, ShapeKind::grid);
  check_against(**grid, places);
}

TEST(Kernels, rows_of_every_block_size) {
  for (std::int64_t bytes = 1; bytes <= 140; ++bytes) check_grid(bytes, 11, bytes + 5, 3, 2000);
  for (std::int64_t bytes = 141; bytes <= 1300; bytes += 61) {
    check_grid(bytes, 3, bytes + 5, 2, 5000);
  }
}

TEST(Kernels, strides_on_which_stores_conflict) {
  for (const std::int64_t stride : {512, 1536, 4096, -4096, -512}) {
    for (const std::int64_t bytes : {4, 8, 24, 33, 64}) {
      check_grid(bytes, 37, stride, 3, 128);
      check_grid(bytes, 2, 128, 41, stride);
      check_grid(bytes, 16, stride, 1, 0);
    }
  }
}

TEST(Kernels, strides_on_which_loads_conflict) {
  for (const std::int64_t stride : {4096, -8192}) {
    for (const std::int64_t bytes : {4, 8, 16}) {
      for (std::int64_t length = 29; length <= 66; ++length) {
        check_grid(bytes, length, stride, 2, 24, length % 9);
      }
    }
  }
}

// Unpacks into rows of 8-byte blocks at a stride of 4096. `unpack(at, rows, stream)` is the tested
// loop, which the library itself chooses only on some processors.
template <class Unpack>
void check_conflicting_rows(std::uint64_t length, std::uint64_t block, Unpack&& unpack) {
  constexpr std::int64_t kStride = 4096;
  constexpr std::uint64_t kOffset = 40;
  const std::uint64_t row_stride = 2 * kCacheLine;
  const BlockRows rows{.rows = 19,
                       .row_stride = static_cast<std::int64_t>(row_stride),
                       .length = length,
                       .stride = kStride,
                       .block = block};
  Bytes stream(rows.rows * rows.length * block);
  std::iota(stream.begin(), stream.end(), static_cast<unsigned char>(1));
  Bytes memory(length * kStride + rows.rows * row_stride + kOffset, 0xee);
  Bytes expected = memory;
  for (std::uint64_t i = 0; i < stream.size(); ++i) {
    const std::uint64_t k = i / block;
    expected.at(kOffset + k / length * row_stride + k % length * kStride + i % block) = stream[i];
  }
  unpack(address_of(memory.data() + kOffset), rows, reinterpret_cast<std::byte*>(stream.data()));
  ASSERT_EQ(memory, expected) << length << " blocks of " << block << " bytes a row";
}

TEST(Kernels, stores_let_through_a_few_at_a_time) {
  for (const std::uint64_t length : {2U, 16U, 37U}) {
    for (const detail::SetConflicts conflicts :
         {detail::SetConflicts::some, detail::SetConflicts::severe}) {
      check_conflicting_rows(length, 8, [&](Address at, const BlockRows& rows, std::byte* stream) {
        detail::move_rows_slowly(at, rows, stream, conflicts, detail::move_fixed_row<false, 8>);
      });
    }
    for (std::uint64_t block = 16; block <= 64; block += 8) {
      check_conflicting_rows(length, block, detail::move_across_lines<false>);
    }
  }
}

TEST(Kernels, blocks_across_lines_on_strides_that_crowd) {
  for (std::int64_t offset = 0; offset < 64; offset += 4) {
    for (std::int64_t bytes = 8; bytes <= 72; bytes += 8) {
      check_grid(bytes, 37, 4096, 2, 128, offset);
      check_grid(bytes, 2, 128, 19, -8192, offset);
      check_grid(bytes, 2, 137, 19, 8192, offset);
    }
    check_grid(24, 37, 12'288, 20, 24, offset);
  }
}

TEST(Kernels, few_blocks) {
  for (std::int64_t bytes = 1; bytes <= 65; ++bytes) {
    for (std::int64_t rows = 1; rows <= 9; ++rows) {
      for (std::int64_t length = 1; length <= 9; ++length) {
        check_grid(bytes, length, bytes + 3, rows, -700);
      }
    }
  }
}

// Long blocks are copied in lanes, several at a time (layout/abreast.hpp). The lanes are parts of a
// row, of a column if rows are short, or of a single block.
TEST(Kernels, long_blocks_in_rows_of_every_length) {
  for (const std::int64_t bytes : {64, 65, 127, 128, 159, 160, 500, 2048, 2049, 5000, 65'537}) {
    for (std::int64_t length = 1; length <= 9; ++length) {
      check_grid(bytes, length, bytes + 3, 2, 12 * bytes);
      check_grid(bytes, length, -bytes - 64, 1, 0);
    }
    for (std::int64_t rows = 3; rows <= 9; ++rows) check_grid(bytes, 2, bytes + 8, rows, 3 * bytes);
  }
  for (const std::int64_t bytes : {64, 100, 127}) {
    check_grid(bytes, 301, 128, 2, 51'200);
    check_grid(bytes, 301, -192, 1, 0);
    check_grid(bytes, 3, 128, 301, 512);
  }
}

TEST(Kernels, contiguous_bytes_of_every_length) {
  constexpr std::size_t kMost = 20'000;
  Bytes source(kMost + 64);
  std::iota(source.begin(), source.end(), static_cast<unsigned char>(0));
  for (const CacheLevel cache_level : {CacheLevel::caches, CacheLevel::memory}) {
    for (std::size_t bytes = 0; bytes <= kMost; bytes += bytes < 300 ? 1 : 61) {
      for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, std::size_t{48}}) {
        const auto* from = source.data() + shift;
        Bytes expected(kMost + 64, 0xee);
        std::copy_n(from, bytes, expected.data() + shift);
        Bytes packed(expected.size(), 0xee);
        Bytes target(expected.size(), 0xee);
        copy_from(cache_level, packed.data() + shift, from, bytes);
        copy_to(cache_level, target.data() + shift, from, bytes);
        ASSERT_EQ(packed, expected) << bytes << " bytes at " << shift;
        ASSERT_EQ(target, expected) << bytes << " bytes at " << shift;
      }
    }
  }
}

TEST(Kernels, bytes_of_another_core_of_every_length) {
  constexpr std::size_t kMost = 70'000;
  Bytes source(kMost + 64);
  std::iota(source.begin(), source.end(), static_cast<unsigned char>(0));
  for (std::size_t bytes = 16'000; bytes <= kMost; bytes += bytes % 32'768 < 200 ? 1 : 509) {
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, std::size_t{48}}) {
      const auto* from = source.data() + (64 - shift) / 2;
      Bytes expected(kMost + 64, 0xee);
      std::copy_n(from, bytes, expected.data() + shift);
      Bytes target(expected.size(), 0xee);
      fetch_to(CacheLevel::caches, target.data() + shift, from, bytes);
      ASSERT_EQ(target, expected) << bytes << " bytes at " << shift;
    }
  }
}

TEST(Kernels, a_matrix_by_columns) {
  for (const std::int64_t bytes : {1, 8, 16, 32, 40}) {
    check_grid(bytes, 19, 23 * bytes, 21, bytes);
    check_grid(bytes, 8, -23 * bytes, 9, bytes);
    check_grid(bytes, 17, 23 * bytes, 13, -bytes);
  }
}

// Packs and unpacks `count` records. A record has `runs` runs, each longer than the one before by
// `step` bytes.
void check_records(std::int64_t runs, std::int64_t step, std::int64_t count) {
  SCOPED_TRACE(std::to_string(runs) + " runs, " + std::to_string(count) + " records");
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> offsets;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < runs; ++i) {
    lengths.push_back(1 + i * step);
    offsets.push_back(at);
    at += lengths.back() + 1 + i % 3;
  }
  std::vector<std::int64_t> places;
  for (std::int64_t record = 0; record < count; ++record) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      for (std::int64_t k = 0; k < lengths[i]; ++k) places.push_back(record * at + offsets[i] + k);
    }
  }
  const auto record = resized(0, at, **hindexed(lengths, offsets, **named(1, 1)));
  const auto records = contiguous(count, **record);
  ASSERT_EQ((*records)->root().node->kind, ShapeKind::runs);
  check_against(**records, places);
}

TEST(Kernels, records_of_few_runs_and_of_many) {
  for (const std::int64_t runs : {3, 7, 16, 17, 40}) {
    for (const std::int64_t step : {0, 1, 5}) check_records(runs, step, 9);
  }
  check_records(3, 7, 2000);  // more than one batch
}

TEST(Kernels, lists_of_every_block_size) {
  for (std::int64_t bytes = 1; bytes <= 150; ++bytes) {
    const std::vector<std::int64_t> offsets = {0, 400, 170, 1000, 2000};
    std::vector<std::int64_t> places;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t k = 0; k < bytes; ++k) places.push_back(offset + k);
    }
    check_against(**hindexed_block(1, offsets, **named(bytes, 1)), places);
  }
}

// Packs and unpacks runs of 1 to `longest` bytes with gaps, at addresses in ascending, descending
// or mixed order.
void check_uneven_list(std::int64_t longest, int order) {
  SCOPED_TRACE(std::to_string(longest) + " in order " + std::to_string(order));
  constexpr std::int64_t kRuns = 300;
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < kRuns; ++i) {
    lengths.push_back(1 + i * 7 % longest);
    const std::int64_t slot = order == 0 ? i : order == 1 ? kRuns - 1 - i : i * 77 % kRuns;
    offsets.push_back(slot * (longest + 3));
  }
  std::vector<std::int64_t> places;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    for (std::int64_t k = 0; k < lengths[i]; ++k) places.push_back(offsets[i] + k);
  }
  check_against(**hindexed(lengths, offsets, **named(1, 1)), places);
}

TEST(Kernels, lists_of_unequal_blocks) {
  for (std::int64_t longest = 2; longest <= 70; ++longest) {
    for (const int order : {0, 1, 2}) check_uneven_list(longest, order);
  }
  for (const std::int64_t longest : {159, 160, 255, 256, 300, 2000}) check_uneven_list(longest, 2);
}

// Two mapped pages, with nothing mapped before, between and behind them: an access outside of the
// pages crashes.
class Islands {
 public:
  Islands() {
    map_ = ::mmap(nullptr, 5 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (const std::size_t page : {std::size_t{1}, std::size_t{3}}) {
      ::mprotect(at(page * kPage), kPage, PROT_READ | PROT_WRITE);
      for (std::size_t k = 0; k < kPage; ++k) {
        at(page * kPage)[k] = static_cast<unsigned char>(page * 91 + k);
      }
    }
  }
  ~Islands() { ::munmap(map_, 5 * kPage); }
  Islands(const Islands&) = delete;
  Islands& operator=(const Islands&) = delete;
  [[nodiscard]] unsigned char* at(std::size_t offset) const {
    return static_cast<unsigned char*>(map_) + offset;
  }
  static constexpr std::size_t kPage = 4096;

 private:
  void* map_;
};

TEST(Kernels, read_nothing_of_a_gap_that_is_not_there) {
  const Islands islands;
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> offsets;
  constexpr auto page = static_cast<std::int64_t>(Islands::kPage);
  // The blocks alternate between the end of the first page and the beginning of the second page.
  for (std::int64_t i = 0; i < 40; ++i) {
    const std::int64_t length = 1 + i % 31;
    const std::int64_t slot = i / 2 * 32;
    lengths.push_back(length);
    offsets.push_back(i % 2 == 0 ? 2 * page - slot - length : 3 * page + slot);
  }
  const auto layout = hindexed(lengths, offsets, **named(1, 1));
  Bytes expected;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const unsigned char* from = islands.at(static_cast<std::size_t>(offsets[i]));
    expected.insert(expected.end(), from, from + lengths[i]);
  }
  Bytes packed(expected.size());
  pack_range({layout->get(), 1, address_of(islands.at(0))}, {0, packed.size()}, packed.data());
  EXPECT_EQ(packed, expected);
}

TEST(Pack, moves_what_there_is_of_a_range_beyond_the_end) {
  const auto block = named(4, 4);
  const auto layout = vector(3, 1, 2, **block);
  const std::vector<std::uint32_t> memory = {1, 2, 3, 4, 5, 6};
  std::vector<std::uint32_t> packed(8, 9);
  const Elements elements{layout->get(), 1, address_of(memory.data())};
  EXPECT_EQ(pack_range(elements, {4, 100}, packed.data()), 8U);
  EXPECT_EQ(packed, (std::vector<std::uint32_t>{3, 5, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(pack_range(elements, {50, 100}, packed.data()), 0U);
  EXPECT_EQ(pack_range({layout->get(), 0, 0}, {0, 100}, packed.data()), 0U);
}

TEST(Pack, long_blocks_are_copied_without_a_scratch) {
  const auto block = named(3000, 1);
  const auto from = hvector(20, 1, 3500, **block);
  const auto to = hvector(30, 1, 2500, **named(2000, 1));
  RandomTypes random(3);
  std::vector<unsigned char> source(80'000);
  for (unsigned char& byte : source) byte = static_cast<unsigned char>(random.between(0, 255));
  std::vector<unsigned char> target(80'000, 1);
  std::vector<unsigned char> expected = target;
  constexpr StreamRange kRange{1234, 58'000};
  for (std::size_t i = kRange.begin; i < kRange.end; ++i) {
    expected[i / 2000 * 2500 + i % 2000] = source[i / 3000 * 3500 + i % 3000];
  }
  EXPECT_EQ(copy_range({to->get(), 1, address_of(target.data())},
                       {from->get(), 1, address_of(source.data())}, kRange, {}),
            kRange.end - kRange.begin);
  EXPECT_EQ(target, expected);
}

TEST(Pack, the_base_may_be_the_bottom_of_memory) {
  const auto block = named(8, 8);
  const std::vector<std::uint64_t> memory = {1, 2, 3, 4};
  const std::vector<std::int64_t> places = {static_cast<std::int64_t>(address_of(&memory[3])),
                                            static_cast<std::int64_t>(address_of(&memory[1]))};
  const auto layout = hindexed_block(1, places, **block);
  std::vector<std::uint64_t> packed(2);
  EXPECT_EQ(pack_range({layout->get(), 1, 0}, {0, 16}, packed.data()), 16U);
  EXPECT_EQ(packed, (std::vector<std::uint64_t>{4, 2}));
}

}  // namespace
}  // namespace mh::layout
