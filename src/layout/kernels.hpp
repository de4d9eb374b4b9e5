// SPDX-License-Identifier: BSD-3-Clause
// The loops that move blocks between memory and the packed stream, one for each block size.
//
// `kPack` says the direction: memory to stream, or stream to memory. Exactly the bytes of the
// blocks are written, never a gap, and but for short runs nothing else is read. What was tried and
// is slower: docs/decisions.md.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "layout/non_temporal.hpp"
#include "layout/row.hpp"
#include "layout/walk.hpp"

namespace mh::layout::detail {

template <bool kPack, std::size_t kBytes>
inline void move_fixed(std::byte* memory, std::byte* stream) {
  if constexpr (kPack) {
    __builtin_memcpy(stream, memory, kBytes);
  } else {
    __builtin_memcpy(memory, stream, kBytes);
  }
}

// One block of more than 64 bytes.
#if defined(__x86_64__)
void copy_long(std::byte* to, const std::byte* from, std::size_t bytes);
#else
inline void copy_long(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
#endif

template <bool kPack>
inline void move_bytes(std::byte* memory, std::byte* stream, std::size_t bytes) {
  if constexpr (kPack) {
    copy_long(stream, memory, bytes);
  } else {
    copy_long(memory, stream, bytes);
  }
}

// kPart to 2 * kPart bytes, by two parts that may overlap.
template <bool kPack, std::size_t kPart>
inline void move_overlapped(std::byte* memory, std::byte* stream, std::size_t bytes) {
  struct Part {
    std::byte byte[kPart];
  };
  Part first;
  Part last;
  const std::size_t behind = bytes - kPart;
  __builtin_memcpy(&first, kPack ? memory : stream, kPart);
  __builtin_memcpy(&last, (kPack ? memory : stream) + behind, kPart);
  __builtin_memcpy(kPack ? stream : memory, &first, kPart);
  __builtin_memcpy((kPack ? stream : memory) + behind, &last, kPart);
}

// Up to 64 bytes without a call.
template <bool kPack>
inline void move_short(std::byte* memory, std::byte* stream, std::size_t bytes) {
  if (bytes >= 16) {
    if (bytes <= 32) return move_overlapped<kPack, 16>(memory, stream, bytes);
    if (bytes <= 48) {
      move_fixed<kPack, 16>(memory, stream);
      return move_overlapped<kPack, 16>(memory + 16, stream + 16, bytes - 16);
    }
    if (bytes <= 64) {
      move_fixed<kPack, 32>(memory, stream);
      return move_overlapped<kPack, 16>(memory + 32, stream + 32, bytes - 32);
    }
    return move_bytes<kPack>(memory, stream, bytes);
  }
  if (bytes >= 8) return move_overlapped<kPack, 8>(memory, stream, bytes);
  if (bytes >= 4) return move_overlapped<kPack, 4>(memory, stream, bytes);
  if (bytes >= 2) return move_overlapped<kPack, 2>(memory, stream, bytes);
  if (bytes == 1) *(kPack ? stream : memory) = *(kPack ? memory : stream);
}

// `move` is one block.
template <class Move>
inline void move_row_by(Row row, Move&& move) {
  constexpr std::uint64_t kUnroll = 4;
  for (; row.length >= kUnroll; row.length -= kUnroll) {
    for (std::uint64_t k = 0; k < kUnroll; ++k) {
      move(pointer(moved(row.at, k, row.stride)), row.stream + k * row.stream_stride);
    }
    row.at = moved(row.at, kUnroll, row.stride);
    row.stream += kUnroll * row.stream_stride;
  }
  for (; row.length != 0; --row.length) {
    move(pointer(row.at), row.stream);
    row.at = moved(row.at, row.stride);
    row.stream += row.stream_stride;
  }
}

template <bool kPack, std::size_t kBytes>
inline void move_fixed_row(const Row& row) {
  move_row_by(row, move_fixed<kPack, kBytes>);
}

template <bool kPack, std::size_t kPart>
inline void move_overlapped_row(const Row& row, std::size_t bytes) {
  move_row_by(row, [bytes](std::byte* memory, std::byte* stream) {
    move_overlapped<kPack, kPart>(memory, stream, bytes);
  });
}

// How wide registers move a block: 32 or 64 bytes at a time from its beginning on, or 64 at a time
// from the first place on that no store crosses a cache line.
enum class Parts : std::uint8_t { by_32, by_64, aligned };
constexpr std::size_t kLeastAligned = 160;
// The longest blocks that they move faster than the C library does.
constexpr std::size_t kWideMost = 64U << 10U;

#if defined(__x86_64__)
// Whether the processor has 32-byte registers.
extern const bool kHasWide;

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i load_wide(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
[[gnu::target("avx2"), gnu::always_inline]] inline void store_wide(std::byte* to, __m256i part) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), part);
}

// One block, kEnd bytes (32 or 64) at a time, of which the last ones may overlap.
template <std::size_t kEnd>
[[gnu::target("avx2"), gnu::always_inline]] inline void copy_wide(std::byte* to,
                                                                  const std::byte* from,
                                                                  std::size_t bytes) {
  constexpr std::size_t kHalf = kEnd - 32;
  const std::size_t last = bytes - kEnd;
  const __m256i end = load_wide(from + last);
  const __m256i end_half = load_wide(from + last + kHalf);
  for (std::size_t at = 0; at < last; at += kEnd) {
    const __m256i part = load_wide(from + at);
    const __m256i half = load_wide(from + at + kHalf);
    store_wide(to + at, part);
    if constexpr (kHalf != 0) store_wide(to + at + kHalf, half);
  }
  store_wide(to + last, end);
  if constexpr (kHalf != 0) store_wide(to + last + kHalf, end_half);
}

[[gnu::target("avx2"), gnu::always_inline]] inline void copy_aligned(std::byte* to,
                                                                     const std::byte* from,
                                                                     std::size_t bytes) {
  const std::size_t last = bytes - 64;
  const __m256i end = load_wide(from + last);
  const __m256i end_half = load_wide(from + last + 32);
  store_wide(to, load_wide(from));
  for (std::size_t at = 32 - reinterpret_cast<std::uintptr_t>(to) % 32; at < last; at += 64) {
    const __m256i part = load_wide(from + at);
    const __m256i half = load_wide(from + at + 32);
    store_wide(to + at, part);
    store_wide(to + at + 32, half);
  }
  store_wide(to + last, end);
  store_wide(to + last + 32, end_half);
}

template <Parts kParts>
[[gnu::target("avx2"), gnu::always_inline]] inline void copy_block(std::byte* to,
                                                                   const std::byte* from,
                                                                   std::size_t bytes) {
  if constexpr (kParts == Parts::aligned) return copy_aligned(to, from, bytes);
  copy_wide<kParts == Parts::by_32 ? 32 : 64>(to, from, bytes);
}

// Arguments one by one, so that they travel in registers: a row of two blocks is over at once.
template <bool kPack, Parts kParts>
[[gnu::target("avx2")]] void move_wide(Address at, std::int64_t stride, std::uint64_t length,
                                       std::byte* stream, std::uint64_t stream_stride,
                                       std::size_t bytes) {
  for (; length != 0; --length) {
    if constexpr (kPack) {
      copy_block<kParts>(stream, pointer(at), bytes);
    } else {
      copy_block<kParts>(pointer(at), stream, bytes);
    }
    at = moved(at, stride);
    stream += stream_stride;
  }
}

template <bool kPack, Parts kParts>
void move_wide_row(const Row& row, std::size_t bytes) {
  move_wide<kPack, kParts>(row.at, row.stride, row.length, row.stream, row.stream_stride, bytes);
}
#else
constexpr bool kHasWide = false;
template <bool kPack, Parts kParts>
void move_wide_row(const Row& /*row*/, std::size_t /*bytes*/) {}
#endif

// Calls `with` for the loop over blocks of this size; the choice is made once, not for each row.
template <bool kPack, class With>
void choose_row(std::size_t bytes, With&& with) {
  switch (bytes) {
    case 1:
      return with(move_fixed_row<kPack, 1>);
    case 2:
      return with(move_fixed_row<kPack, 2>);
    case 4:
      return with(move_fixed_row<kPack, 4>);
    case 8:
      return with(move_fixed_row<kPack, 8>);
    case 16:
      return with(move_fixed_row<kPack, 16>);
    case 24:
      return with(move_fixed_row<kPack, 24>);
    case 32:
      return with(move_fixed_row<kPack, 32>);
    case 40:
      return with(move_fixed_row<kPack, 40>);
    default:
      break;
  }
  if (bytes == 3) return with(move_fixed_row<kPack, 3>);
  if (bytes < 8) return with([=](const Row& row) { move_overlapped_row<kPack, 4>(row, bytes); });
  if (bytes < 16) return with([=](const Row& row) { move_overlapped_row<kPack, 8>(row, bytes); });
  if (bytes < 32) return with([=](const Row& row) { move_overlapped_row<kPack, 16>(row, bytes); });
  if (kHasWide && bytes < 64) {
    return with([=](const Row& row) { move_wide_row<kPack, Parts::by_32>(row, bytes); });
  }
  if (kHasWide && bytes < kLeastAligned) {
    return with([=](const Row& row) { move_wide_row<kPack, Parts::by_64>(row, bytes); });
  }
  if (kHasWide && bytes <= kWideMost) {
    return with([=](const Row& row) { move_wide_row<kPack, Parts::aligned>(row, bytes); });
  }
  with([=](const Row& row) {
    move_row_by(row, [=](std::byte* memory, std::byte* stream) {
      move_bytes<kPack>(memory, stream, bytes);
    });
  });
}

// Rows closer to each other than the blocks of a row share cache lines (a matrix by columns): a
// few blocks of each row at a time, so that a line is used up while it is at hand.
constexpr std::uint64_t kTile = 8;
inline std::uint64_t tile_of(const Rows& rows) {
  const auto away = [](std::int64_t stride) { return stride < 0 ? -stride : stride; };
  const bool across =
      rows.rows > 1 && away(rows.row_stride) < away(rows.stride) && rows.block <= 32;
  return across ? kTile : rows.length;
}

// Blocks at a stride of many cache lines that is a power of two, or a multiple of a large one, all
// lie in few sets of the first cache, as in arrays of 64^3 and the like. Intel's processors that
// have fetched more lines for stores to come than a set holds throw them out again before they get
// to them: 8 to 13 ns a store instead of 0.4. So a few stores at a time are let through there (16
// of them fit). AMD's need none of that, and then wait for what they would have fetched meanwhile.
enum class Crowding : std::uint8_t { none, some, severe };
constexpr std::uint64_t kBlocksStoredAtOnce = 16;
#if defined(__x86_64__)
extern const bool kCrowdsAreSlow;
#else
constexpr bool kCrowdsAreSlow = false;
#endif

// The blocks of a short row are apart from each other; row after row they crowd.
inline bool are_short(const Rows& rows) { return rows.length < kBlocksStoredAtOnce; }

inline Crowding crowding_of(const Rows& rows) {
  if (rows.block > 64) return Crowding::none;
  const std::int64_t stride = are_short(rows) ? rows.row_stride : rows.stride;
  if (stride == 0 || (are_short(rows) && rows.rows < kBlocksStoredAtOnce)) return Crowding::none;
  if (stride % 4096 == 0) return Crowding::severe;
  return stride % 512 == 0 ? Crowding::some : Crowding::none;
}

inline void let_through([[maybe_unused]] Crowding crowding) {
#if defined(__x86_64__)
  if (crowding == Crowding::severe) {
    _mm_mfence();
  } else {
    _mm_lfence();
  }
#endif
}

template <class MoveRow>
void move_rows_slowly(Address at, const Rows& rows, std::byte* stream, Crowding crowding,
                      MoveRow&& move) {
  std::uint64_t crowd = 0;
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    for (std::uint64_t done = 0; done < rows.length; done += kBlocksStoredAtOnce) {
      const std::uint64_t length = std::min(kBlocksStoredAtOnce, rows.length - done);
      move(Row{moved(at, done, rows.stride), rows.stride, length, stream, rows.block});
      stream += length * rows.block;
      crowd += are_short(rows) ? 1 : length;
      if (crowd >= kBlocksStoredAtOnce) {
        let_through(crowding);
        crowd = 0;
      }
    }
    at = moved(at, rows.row_stride);
  }
}

// Lines that crowd take each other's places in the first cache the more of them are under way, and
// so do those asked for beforehand, if they are to come there. So they are asked for in the second
// cache, all of a short row before the first is used, and a few at a time come on from there. 62
// blocks of 8 bytes, ns, in a cache: packed in 115 to 150 instead of 165 to 185, unpacked in 225 to
// 260 instead of 280 to 310; packed from memory in 290 instead of 430.
template <bool kPack>
constexpr std::uint64_t kCrowdAsked = kPack ? 64 : 24;
template <bool kPack>
constexpr std::uint64_t kCrowdLoaded = kPack ? 7 : 4;
// Fewer find room, or nearly so.
constexpr std::uint64_t kLeastCrowd = 32;

inline void ask_second_cache(Address at) {
#if defined(__x86_64__)
  _mm_prefetch(pointer(at), _MM_HINT_T1);
#endif
}

// 0, which the processor knows only once it knows `value`.
inline Address zero_after(std::uint64_t value) {
#if defined(__x86_64__)
  asm volatile("and $0, %0" : "+r"(value) : : "cc");
#else
  value = 0;
#endif
  return value;
}

// A row of kLeastCrowd blocks or more that crowd. Where a block is in memory is known only once the
// one kCrowdLoaded before has been loaded; also what is about to be overwritten is.
template <bool kPack, class Word>
void move_crowd(Address at, std::int64_t stride, std::uint64_t length, std::byte* stream) {
  using Block [[gnu::may_alias, gnu::aligned(1)]] = Word;
  auto* const packed = reinterpret_cast<volatile Block*>(stream);
  const std::uint64_t asked = std::min(kCrowdAsked<kPack>, length);
  for (std::uint64_t k = 0; k < asked; ++k) ask_second_cache(moved(at, k, stride));
  std::array<Word, 8> loaded{};
  static_assert(kCrowdLoaded<kPack> < loaded.size());
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
    zero = zero_after(loaded[(k + 1 - kCrowdLoaded<kPack>) % loaded.size()]);
  }
}

template <bool kPack, class Word>
void move_crowded_rows(Address at, const Rows& rows, std::byte* stream) {
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    move_crowd<kPack, Word>(at, rows.stride, rows.length, stream);
    at = moved(at, rows.row_stride);
    stream += rows.length * sizeof(Word);
  }
}

// Whether there is a loop for such crowds; then it has been run.
template <bool kPack>
bool moved_as_crowd(Address at, const Rows& rows, std::byte* stream) {
  if (are_short(rows) || rows.length < kLeastCrowd) return false;
  if (rows.block == 4) {
    move_crowded_rows<kPack, std::uint32_t>(at, rows, stream);
  } else if (rows.block == 8) {
    move_crowded_rows<kPack, std::uint64_t>(at, rows, stream);
  } else {
    return false;
  }
  return true;
}

// An access across two lines of which the first cache holds neither is repeated until it holds
// both, and where all blocks use the same two sets, lines take turns there. So such blocks are
// packed word by word: 62 of 40 bytes in 125 to 230 ns instead of 260 to 310, and in 0.65 of the
// time from memory, as their lines are asked for beforehand. Where crowds are slow, a few at a time
// are let through, and so they are when unpacked; elsewhere that takes up to 1.8 times as long.
constexpr std::uint64_t kWord = 8;
constexpr std::uint64_t kMostWords = 8;
constexpr std::uint64_t kWordsAsked = 24;  // blocks ahead
constexpr std::uint64_t kBlocksLoadedAtOnce = 24;

// Of rows that crowd severely. All blocks lie as the first one does.
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
  const bool rows_crowd = are_short(rows);
  std::uint64_t crowd = 0;
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
      if (!kCrowdsAreSlow || (rows_crowd && k != 0)) continue;
      if (++crowd == kAtOnce) {
        let_through(kPack ? Crowding::some : Crowding::severe);
        crowd = 0;
      }
    }
    at = moved(at, rows.row_stride);
  }
}

template <bool kPack>
void move_across_lines(Address at, const Rows& rows, std::byte* stream) {
  switch (rows.block / kWord) {
    case 2:
      return move_rows_of_words<kPack, 2>(at, rows, stream);
    case 3:
      return move_rows_of_words<kPack, 3>(at, rows, stream);
    case 4:
      return move_rows_of_words<kPack, 4>(at, rows, stream);
    case 5:
      return move_rows_of_words<kPack, 5>(at, rows, stream);
    case 6:
      return move_rows_of_words<kPack, 6>(at, rows, stream);
    case 7:
      return move_rows_of_words<kPack, 7>(at, rows, stream);
    default:
      return move_rows_of_words<kPack, kMostWords>(at, rows, stream);
  }
}

template <class MoveRow>
void move_rows_tiled(Address at, const Rows& rows, std::byte* stream, MoveRow&& move) {
  const std::uint64_t tile = tile_of(rows);
  for (std::uint64_t done = 0; done < rows.length; done += tile) {
    Row row{moved(at, done, rows.stride), rows.stride, std::min(tile, rows.length - done),
            stream + done * rows.block, rows.block};
    for (std::uint64_t i = 0; i < rows.rows; ++i) {
      move(row);
      row.at = moved(row.at, rows.row_stride);
      row.stream += rows.length * rows.block;
    }
  }
}

// So few and short that nothing but a loop is worth its beginning.
inline bool are_few(const Rows& rows) { return rows.block <= 64 && rows.rows * rows.length <= 8; }

// Block after block.
template <bool kPack>
void move_simply(Address at, const Rows& rows, std::byte* stream) {
  const auto each = [&](auto&& move) {
    for (std::uint64_t i = 0; i < rows.rows; ++i) {
      for (std::uint64_t k = 0; k < rows.length; ++k) {
        move(pointer(moved(at, k, rows.stride)), stream);
        stream += rows.block;
      }
      at = moved(at, rows.row_stride);
    }
  };
  switch (rows.block) {
    case 4:
      return each(move_fixed<kPack, 4>);
    case 8:
      return each(move_fixed<kPack, 8>);
    case 16:
      return each(move_fixed<kPack, 16>);
    default:
      return each([&](std::byte* memory, std::byte* packed) {
        move_short<kPack>(memory, packed, rows.block);
      });
  }
}

template <bool kPack>
void move_rows(Address at, const Rows& rows, std::byte* stream) {
  if (are_few(rows)) return move_simply<kPack>(at, rows, stream);
  const bool tiles = tile_of(rows) < rows.length;
  const Crowding crowding = tiles ? Crowding::none : crowding_of(rows);
  if (crowding == Crowding::severe) {
    if (lie_across_lines(at, rows)) {
      if (kPack || kCrowdsAreSlow) return move_across_lines<kPack>(at, rows, stream);
    } else if (moved_as_crowd<kPack>(at, rows, stream)) {
      return;
    }
    // Four to a turn, as other rows, 62 blocks of 8 bytes would take 195 ns in place of 166.
    if (kPack) return move_simply<kPack>(at, rows, stream);
  }
  choose_row<kPack>(rows.block, [&](auto&& move) {
    if (!kPack && kCrowdsAreSlow && crowding != Crowding::none) {
      move_rows_slowly(at, rows, stream, crowding, move);
    } else {
      move_rows_tiled(at, rows, stream, move);
    }
  });
}

// Runs of one length, known when this is compiled.
template <bool kPack, std::size_t kBytes>
void move_list(Address at, const std::int64_t* offset, std::uint64_t runs, std::byte* stream) {
  constexpr std::uint64_t kUnroll = 4;
  const auto move = [&](std::uint64_t i) {
    move_fixed<kPack, kBytes>(pointer(moved(at, offset[i])), stream + i * kBytes);
  };
  std::uint64_t i = 0;
  for (; i + kUnroll <= runs; i += kUnroll) {
    for (std::uint64_t k = 0; k < kUnroll; ++k) move(i + k);
  }
  for (; i < runs; ++i) move(i);
}

template <bool kPack>
void move_even_list(Address at, const std::int64_t* offset, std::uint64_t runs, std::uint64_t block,
                    std::byte* stream) {
  switch (block) {
    case 4:
      return move_list<kPack, 4>(at, offset, runs, stream);
    case 8:
      return move_list<kPack, 8>(at, offset, runs, stream);
    case 16:
      return move_list<kPack, 16>(at, offset, runs, stream);
    case 32:
      return move_list<kPack, 32>(at, offset, runs, stream);
    case 64:
      return move_list<kPack, 64>(at, offset, runs, stream);
    default:
      break;
  }
  for (std::uint64_t i = 0; i < runs; ++i) {
    move_short<kPack>(pointer(moved(at, offset[i])), stream + i * block, block);
  }
}

// Whether so many bytes lie in one page, as far as pages are small.
inline bool in_one_page(const std::byte* from, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  return reinterpret_cast<std::uintptr_t>(from) % kPage <= kPage - bytes;
}

#if defined(__x86_64__)
// Runs of at most kMost bytes, none of which is looked at for its length: kMost bytes are copied of
// each, and what was too much of one is overwritten by the next. Returns the first run that this
// cannot be done with, because the stream given to it is about to end there; `stream` goes along.
//
// What is read beyond a run lies between the list's runs and in the same page, so that it is there.
template <std::size_t kMost>
[[gnu::target("avx2")]] std::uint64_t pack_short_runs(Address at, const Runs& runs,
                                                      std::uint64_t first, std::uint64_t last,
                                                      std::byte*& stream) {
  constexpr auto kReach = static_cast<std::int64_t>(kMost);
  const std::byte* const end = stream + (runs.end[last - 1] - runs.begin_of(first));
  const std::int64_t furthest = runs.high - kReach;
  std::byte* to = stream;
  std::uint64_t i = first;
  for (; end - to >= kReach; ++i) {
    const std::int64_t offset = runs.offset[i];
    const std::uint64_t length = runs.length[i];
    std::byte* const from = pointer(moved(at, offset));
    if (offset > furthest || !in_one_page(from, kMost)) [[unlikely]] {
      move_short<true>(from, to, length);
    } else if constexpr (kMost == 32) {
      store_wide(to, load_wide(from));
    } else {
      move_fixed<true, kMost>(from, to);
    }
    to += length;
  }
  stream = to;
  return i;
}
#else
template <std::size_t kMost>
std::uint64_t pack_short_runs(Address /*at*/, const Runs& /*runs*/, std::uint64_t first,
                              std::uint64_t /*last*/, std::byte*& /*stream*/) {
  return first;
}
#endif

// Runs of different lengths.
template <bool kPack>
void move_uneven_list(Address at, const Runs& runs, std::uint64_t first, std::uint64_t last,
                      std::byte* stream) {
  if constexpr (kPack) {
    if (kHasWide && runs.longest <= 16) {
      first = pack_short_runs<16>(at, runs, first, last, stream);
    } else if (kHasWide && runs.longest <= 32) {
      first = pack_short_runs<32>(at, runs, first, last, stream);
    }
  }
  for (; first < last; ++first) {
    const std::uint64_t bytes = runs.length_of(first);
    move_short<kPack>(pointer(moved(at, runs.offset[first])), stream, bytes);
    stream += bytes;
  }
}

// Records with gaps: few runs, repeated. Run by run over as many records as stay in the first
// cache, because a loop over blocks of one size is several times as fast as one over different
// ones.
constexpr std::uint64_t kRecordRuns = 16;
constexpr std::uint64_t kRecordBytes = 8U << 10U;

template <bool kPack>
void move_records(Address at, const Runs& runs, std::uint64_t count, std::byte* stream) {
  const std::uint64_t most = 1 + kRecordBytes / runs.bytes;
  while (count != 0) {
    const std::uint64_t records = std::min(count, most);
    for (std::uint64_t i = 0; i < runs.runs; ++i) {
      const std::uint64_t begin = runs.begin_of(i);
      const Row column{moved(at, runs.offset[i]), runs.stride, records, stream + begin, runs.bytes};
      choose_row<kPack>(runs.begin_of(i + 1) - begin, [&](auto&& move) { move(column); });
    }
    at = moved(at, records, runs.stride);
    stream += records * runs.bytes;
    count -= records;
  }
}

// The sink that packs or unpacks.
template <bool kPack>
class Mover {
 public:
  Mover(std::byte* stream, CacheLevel cache_level) : stream_(stream), home_(cache_level) {}

  void block(Address at, std::uint64_t bytes) {
    if (is_far(bytes)) [[unlikely]] {
      move_far(at, bytes);
    } else {
      move_short<kPack>(pointer(at), stream_, bytes);
    }
    stream_ += bytes;
  }
  void rows(Address at, const Rows& rows) {
    if (home_ == CacheLevel::caches || !moved_far(at, rows)) move_rows<kPack>(at, rows, stream_);
    stream_ += rows.rows * rows.length * rows.block;
  }
  void list(Address at, const Runs& runs, std::uint64_t first, std::uint64_t last) {
    if (are_far(runs)) {
      for (std::uint64_t i = first; i < last; ++i) {
        block(moved(at, runs.offset[i]), runs.length_of(i));
      }
      return;
    }
    if (runs.end == nullptr) {
      move_even_list<kPack>(at, runs.offset + first, last - first, runs.block, stream_);
    } else {
      move_uneven_list<kPack>(at, runs, first, last, stream_);
    }
    stream_ += runs.begin_of(last) - runs.begin_of(first);
  }
  void lists(Address at, const Runs& runs, std::uint64_t count) {
    if (runs.runs <= kRecordRuns && count > 1 && !are_far(runs)) {
      move_records<kPack>(at, runs, count, stream_);
      stream_ += count * runs.bytes;
      return;
    }
    for (std::uint64_t i = 0; i < count; ++i) list(moved(at, i, runs.stride), runs, 0, runs.runs);
  }
  [[nodiscard]] static constexpr bool full() { return false; }

 private:
  // Lanes need wide registers, and a long way; what is written past the caches needs neither.
  [[nodiscard]] bool is_far(std::uint64_t block) const {
    if (home_ == CacheLevel::caches) return false;
    return kPack ? kHasWide && block >= far::kLeastRead : block >= far::kLeastWritten;
  }
  // On average.
  [[nodiscard]] bool are_far(const Runs& runs) const {
    return home_ == CacheLevel::memory && is_far(runs.bytes / runs.runs);
  }
  // Apart, so that little has to be kept for what is short.
  [[gnu::noinline]] void move_far(Address at, std::uint64_t bytes) const {
    if constexpr (kPack) {
      far::read(stream_, pointer(at), bytes);
    } else {
      far::write(pointer(at), stream_, bytes);
    }
  }
  [[gnu::noinline]] bool moved_far(Address at, const Rows& rows) const {
    if constexpr (kPack) {
      return kHasWide && far::read_rows(at, rows, stream_);
    } else {
      return far::write_rows(at, rows, stream_);
    }
  }

  std::byte* stream_;
  CacheLevel home_;
};

}  // namespace mh::layout::detail
