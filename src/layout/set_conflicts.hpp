// SPDX-License-Identifier: BSD-3-Clause
// Rows of short blocks whose cache lines share few sets of the first cache.
//
// This file has the loops for such rows, and the test that finds them. `kPack` is the direction:
// memory to packed stream, or stream to memory. Threads: any.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/cacheline.hpp"
#include "layout/move_blocks.hpp"
#include "layout/walk.hpp"

namespace mh::layout::detail {

// How much the blocks of a row conflict. Blocks at a stride of many cache lines that is a power of
// two, or a multiple of a large power of two, share few sets of the first cache, as in arrays of
// 64^3. Intel's processors fetch lines for coming stores, and evict them unused if they are more
// than a set holds: a store takes 8 to 13 ns instead of 0.4. On Intel's processors the loops
// therefore complete 16 stores at a time, by a fence. AMD's processors have no such problem, and
// fences would only cost time.
enum class SetConflicts : std::uint8_t { none, some, severe };
constexpr std::uint64_t kBlocksStoredAtOnce = 16;
extern const bool kSetConflictsAreSlow;

// True for rows of so few blocks that the blocks of a row do not conflict with each other. A block
// may still conflict with the blocks of other rows.
inline bool are_short(const BlockRows& rows) { return rows.length < kBlocksStoredAtOnce; }

inline SetConflicts set_conflicts_of(const BlockRows& rows) {
  if (rows.block > 64) return SetConflicts::none;
  const std::int64_t stride = are_short(rows) ? rows.row_stride : rows.stride;
  if (stride == 0 || (are_short(rows) && rows.rows < kBlocksStoredAtOnce))
    return SetConflicts::none;
  if (stride % 4096 == 0) return SetConflicts::severe;
  return stride % 512 == 0 ? SetConflicts::some : SetConflicts::none;
}

inline void let_through(SetConflicts conflicts) {
  if (conflicts == SetConflicts::severe) {
    _mm_mfence();
  } else {
    _mm_lfence();
  }
}

template <class MoveRow>
void move_rows_slowly(Address at, const BlockRows& rows, std::byte* stream, SetConflicts conflicts,
                      MoveRow&& move) {
  std::uint64_t under_way = 0;
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    for (std::uint64_t done = 0; done < rows.length; done += kBlocksStoredAtOnce) {
      const std::uint64_t length = std::min(kBlocksStoredAtOnce, rows.length - done);
      move(BlockRow{address_at(at, done, rows.stride), rows.stride, length, stream, rows.block});
      stream += length * rows.block;
      under_way += are_short(rows) ? 1 : length;
      if (under_way >= kBlocksStoredAtOnce) {
        let_through(conflicts);
        under_way = 0;
      }
    }
    at = address_at(at, rows.row_stride);
  }
}

// How far ahead move_conflicting_row() prefetches into the L2 cache (kConflictAsked), and how many
// loads into the L1 cache it keeps under way (kConflictLoaded), in blocks of a row. Lines that
// share a set evict each other from the L1 cache, also lines that were prefetched there. Packing 62
// blocks of 8 bytes with lines in a cache takes 115 to 150 ns, and 165 to 185 by the loop for all
// other rows. Unpacking takes 225 to 260 ns instead of 280 to 310 by that loop. With lines in
// memory only, packing takes 290 ns instead of 430.
template <bool kPack>
constexpr std::uint64_t kConflictAsked = kPack ? 64 : 24;
template <bool kPack>
constexpr std::uint64_t kConflictLoaded = kPack ? 7 : 4;
// The shortest row, in blocks, that needs move_conflicting_row(). Shorter rows fit into their sets,
// or nearly so.
constexpr std::uint64_t kLeastConflicting = 32;

inline void ask_second_cache(Address at) { _mm_prefetch(pointer_to(at), _MM_HINT_T1); }

// Returns 0, but the processor cannot know that before it has loaded `value`. An address to which
// the result is added therefore waits for that load.
inline Address zero_after(std::uint64_t value) {
  asm volatile("and $0, %0" : "+r"(value) : : "cc");
  return value;
}

// Moves a row of at least kLeastConflicting blocks that conflict. The address of a block depends on
// the value loaded kConflictLoaded blocks before, so that no more loads are under way. Blocks to be
// overwritten are loaded for this purpose, too.
template <bool kPack, class StoredWord>
void move_conflicting_row(Address at, std::int64_t stride, std::uint64_t length,
                          std::byte* stream) {
  using Block [[gnu::may_alias, gnu::aligned(1)]] = StoredWord;
  auto* const packed = reinterpret_cast<volatile Block*>(stream);
  const std::uint64_t asked = std::min(kConflictAsked<kPack>, length);
  for (std::uint64_t k = 0; k < asked; ++k) ask_second_cache(address_at(at, k, stride));
  std::array<StoredWord, 8> loaded{};
  static_assert(kConflictLoaded<kPack> < loaded.size());
  Address zero = 0;
  for (std::uint64_t k = 0; k < length; ++k) {
    if (k + asked < length) ask_second_cache(address_at(at, k + asked, stride));
    auto* const block = reinterpret_cast<volatile Block*>(address_at(at, k, stride) + zero);
    const StoredWord there = *block;
    if constexpr (kPack) {
      packed[k] = there;
    } else {
      *block = packed[k];
    }
    loaded[k % loaded.size()] = there;
    zero = zero_after(loaded[(k + 1 - kConflictLoaded<kPack>) % loaded.size()]);
  }
}

template <bool kPack, class StoredWord>
void move_conflicting_rows(Address at, const BlockRows& rows, std::byte* stream) {
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    move_conflicting_row<kPack, StoredWord>(at, rows.stride, rows.length, stream);
    at = address_at(at, rows.row_stride);
    stream += rows.length * sizeof(StoredWord);
  }
}

// Moves the rows, whose blocks share the sets of the cache, if move_conflicting_row() serves blocks
// of this size and rows of this length; else returns false.
template <bool kPack>
bool move_as_conflicting(Address at, const BlockRows& rows, std::byte* stream) {
  if (are_short(rows) || rows.length < kLeastConflicting) return false;
  if (rows.block == 4) {
    move_conflicting_rows<kPack, std::uint32_t>(at, rows, stream);
  } else if (rows.block == 8) {
    move_conflicting_rows<kPack, std::uint64_t>(at, rows, stream);
  } else {
    return false;
  }
  return true;
}

// The loops for blocks that each lie across two cache lines. An access across two lines is repeated
// until the first cache holds both. If all blocks use the same two sets, lines evict each other
// meanwhile. Such blocks are therefore packed word by word: 62 blocks of 40 bytes take 125 to 230
// ns instead of 260 to 310, and from memory 0.65 of the time, because their lines are prefetched.
// On Intel's processors the loop unpacks word by word, too, and completes a few blocks at a time by
// a fence. On other processors unpacking by words takes up to 1.8 times as long, and is not done.
constexpr std::uint64_t kWord = 8;
constexpr std::uint64_t kMostWords = 8;
constexpr std::uint64_t kWordsAsked = 24;  // the distance of a prefetch, in blocks
constexpr std::uint64_t kBlocksLoadedAtOnce = 24;

// True if every block lies across two cache lines, and can be moved by words of 8 bytes. For rows
// with severe set conflicts, whose strides are whole lines: every block lies as the first block
// does.
inline bool lie_across_lines(Address at, const BlockRows& rows) {
  const auto strides = static_cast<Address>(rows.row_stride) | static_cast<Address>(rows.stride);
  return at % kCacheLine + rows.block > kCacheLine && rows.block <= kMostWords * kWord &&
         (at | rows.block) % kWord == 0 && strides % kCacheLine == 0;
}

template <bool kPack, std::size_t kWords>
inline void move_words(Address at, std::byte* stream) {
  using StoredWord [[gnu::may_alias]] = std::uint64_t;
  // volatile: otherwise the compiler joins the words into longer accesses, which cross the line.
  auto* const words = reinterpret_cast<volatile StoredWord*>(pointer_to(at));
  for (std::size_t i = 0; i < kWords; ++i) {
    StoredWord word;
    if constexpr (kPack) {
      word = words[i];
      __builtin_memcpy(stream + i * kWord, &word, kWord);
    } else {
      __builtin_memcpy(&word, stream + i * kWord, kWord);
      words[i] = word;
    }
  }
}

template <bool kPack, std::size_t kWords>
void move_rows_of_words(Address at, const BlockRows& rows, std::byte* stream) {
  constexpr std::uint64_t kAtOnce = kPack ? kBlocksLoadedAtOnce : kBlocksStoredAtOnce;
  const bool rows_conflict = are_short(rows);
  std::uint64_t under_way = 0;
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    for (std::uint64_t k = 0; k < rows.length; ++k) {
      const Address block = address_at(at, k, rows.stride);
      if (kPack && k + kWordsAsked < rows.length) {
        const Address later = address_at(block, kWordsAsked, rows.stride);
        ask_second_cache(later);
        ask_second_cache(later + kWords * kWord - 1);
      }
      move_words<kPack, kWords>(block, stream);
      stream += kWords * kWord;
      if (!kSetConflictsAreSlow || (rows_conflict && k != 0)) continue;
      if (++under_way == kAtOnce) {
        let_through(kPack ? SetConflicts::some : SetConflicts::severe);
        under_way = 0;
      }
    }
    at = address_at(at, rows.row_stride);
  }
}

template <bool kPack>
void move_across_lines(Address at, const BlockRows& rows, std::byte* stream) {
  with_constant<2, 3, 4, 5, 6, 7, kMostWords>(
      rows.block / kWord, [&](auto words) { move_rows_of_words<kPack, words>(at, rows, stream); });
}

}  // namespace mh::layout::detail
