// SPDX-License-Identifier: BSD-3-Clause
// Rows of short blocks whose cache lines share few sets of the first cache.
//
// Owns the loops for them and the decision which rows they are. `kPack` as in move_blocks.hpp.
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

// Blocks at a stride of many cache lines that is a power of two, or a multiple of a large one, all
// lie in few sets of the first cache, as in arrays of 64^3 and the like. Intel's processors that
// have fetched more lines for stores to come than a set holds throw them out again before they get
// to them: 8 to 13 ns a store instead of 0.4. So a few stores at a time are let through there (16
// of them fit). AMD's need none of that, and then wait for what they would have fetched meanwhile.
enum class SetConflicts : std::uint8_t { none, some, severe };
constexpr std::uint64_t kBlocksStoredAtOnce = 16;
extern const bool kSetConflictsAreSlow;

// The blocks of a short row are apart from each other; row after row they conflict.
inline bool are_short(const Rows& rows) { return rows.length < kBlocksStoredAtOnce; }

inline SetConflicts set_conflicts_of(const Rows& rows) {
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
void move_rows_slowly(Address at, const Rows& rows, std::byte* stream, SetConflicts conflicts,
                      MoveRow&& move) {
  std::uint64_t under_way = 0;
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    for (std::uint64_t done = 0; done < rows.length; done += kBlocksStoredAtOnce) {
      const std::uint64_t length = std::min(kBlocksStoredAtOnce, rows.length - done);
      move(Row{moved(at, done, rows.stride), rows.stride, length, stream, rows.block});
      stream += length * rows.block;
      under_way += are_short(rows) ? 1 : length;
      if (under_way >= kBlocksStoredAtOnce) {
        let_through(conflicts);
        under_way = 0;
      }
    }
    at = moved(at, rows.row_stride);
  }
}

// Lines that share a set take each other's places in the first cache the more of them are under
// way, and so do those asked for beforehand, if they are to come there. So they are asked for in
// the second cache, all of a short row before the first is used, and a few at a time come on from
// there. 62 blocks of 8 bytes, ns, in a cache: packed in 115 to 150 instead of 165 to 185, unpacked
// in 225 to 260 instead of 280 to 310; packed from memory in 290 instead of 430.
template <bool kPack>
constexpr std::uint64_t kConflictAsked = kPack ? 64 : 24;
template <bool kPack>
constexpr std::uint64_t kConflictLoaded = kPack ? 7 : 4;
// Fewer find room, or nearly so.
constexpr std::uint64_t kLeastConflicting = 32;

inline void ask_second_cache(Address at) { _mm_prefetch(pointer(at), _MM_HINT_T1); }

// 0, which the processor knows only once it knows `value`.
inline Address zero_after(std::uint64_t value) {
  asm volatile("and $0, %0" : "+r"(value) : : "cc");
  return value;
}

// A row of kLeastConflicting blocks or more that conflict. Where a block is in memory is known only
// once the one kConflictLoaded before has been loaded; also what is about to be overwritten is.
template <bool kPack, class Word>
void move_conflicting_row(Address at, std::int64_t stride, std::uint64_t length,
                          std::byte* stream) {
  using Block [[gnu::may_alias, gnu::aligned(1)]] = Word;
  auto* const packed = reinterpret_cast<volatile Block*>(stream);
  const std::uint64_t asked = std::min(kConflictAsked<kPack>, length);
  for (std::uint64_t k = 0; k < asked; ++k) ask_second_cache(moved(at, k, stride));
  std::array<Word, 8> loaded{};
  static_assert(kConflictLoaded<kPack> < loaded.size());
  Address zero = 0;
  for (std::uint64_t k = 0; k < length; ++k) {
    if (k + asked < length) ask_second_cache(moved(at, k + asked, stride));
    auto* const block = reinterpret_cast<volatile Block*>(moved(at, k, stride) + zero);
    const Word there = *block;
    if constexpr (kPack) {
      packed[k] = there;
    } else {
      *block = packed[k];
    }
    loaded[k % loaded.size()] = there;
    zero = zero_after(loaded[(k + 1 - kConflictLoaded<kPack>) % loaded.size()]);
  }
}

template <bool kPack, class Word>
void move_conflicting_rows(Address at, const Rows& rows, std::byte* stream) {
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    move_conflicting_row<kPack, Word>(at, rows.stride, rows.length, stream);
    at = moved(at, rows.row_stride);
    stream += rows.length * sizeof(Word);
  }
}

// Whether there is a loop for such conflicts; then it has been run.
template <bool kPack>
bool moved_as_conflicting(Address at, const Rows& rows, std::byte* stream) {
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

// An access across two lines of which the first cache holds neither is repeated until it holds
// both, and where all blocks use the same two sets, lines take turns there. So such blocks are
// packed word by word: 62 of 40 bytes in 125 to 230 ns instead of 260 to 310, and in 0.65 of the
// time from memory, as their lines are asked for beforehand. Where set conflicts are slow, a few at
// a time are let through, and so they are when unpacked; elsewhere that takes up to 1.8 times as
// long.
constexpr std::uint64_t kWord = 8;
constexpr std::uint64_t kMostWords = 8;
constexpr std::uint64_t kWordsAsked = 24;  // blocks ahead
constexpr std::uint64_t kBlocksLoadedAtOnce = 24;

// Of rows with severe set conflicts. All blocks lie as the first one does.
inline bool lie_across_lines(Address at, const Rows& rows) {
  const auto strides = static_cast<Address>(rows.row_stride) | static_cast<Address>(rows.stride);
  return at % kCacheLine + rows.block > kCacheLine && rows.block <= kMostWords * kWord &&
         (at | rows.block) % kWord == 0 && strides % kCacheLine == 0;
}

template <bool kPack, std::size_t kWords>
inline void move_words(Address at, std::byte* stream) {
  using Word [[gnu::may_alias]] = std::uint64_t;
  // As if each word could change by itself, or the compiler joins them again.
  auto* const words = reinterpret_cast<volatile Word*>(pointer(at));
  for (std::size_t i = 0; i < kWords; ++i) {
    Word word;
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
void move_rows_of_words(Address at, const Rows& rows, std::byte* stream) {
  constexpr std::uint64_t kAtOnce = kPack ? kBlocksLoadedAtOnce : kBlocksStoredAtOnce;
  const bool rows_conflict = are_short(rows);
  std::uint64_t under_way = 0;
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    for (std::uint64_t k = 0; k < rows.length; ++k) {
      const Address block = moved(at, k, rows.stride);
      if (kPack && k + kWordsAsked < rows.length) {
        const Address later = moved(block, kWordsAsked, rows.stride);
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
    at = moved(at, rows.row_stride);
  }
}

template <bool kPack>
void move_across_lines(Address at, const Rows& rows, std::byte* stream) {
  with_constant<2, 3, 4, 5, 6, 7, kMostWords>(
      rows.block / kWord, [&](auto words) { move_rows_of_words<kPack, words>(at, rows, stream); });
}

}  // namespace mh::layout::detail
