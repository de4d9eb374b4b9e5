// SPDX-License-Identifier: BSD-3-Clause
// Moves single blocks, and rows of equal blocks, between memory and the packed stream: a loop for
// each block size.
//
// `kPack` is the direction: memory to stream, or stream to memory. Exactly the blocks' bytes are
// written, never a gap. docs/decisions/layout lists slower variants. Threads: any.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "layout/walk.hpp"

namespace mh::layout::detail {

// Calls `with` for `number` as a compile-time constant, and returns true, if kNumbers contains the
// number; else returns false.
template <std::size_t... kNumbers, class With>
inline bool with_constant(std::size_t number, With&& with) {
  return ((number == kNumbers && (with(std::integral_constant<std::size_t, kNumbers>{}), true)) ||
          ...);
}

template <bool kPack, std::size_t kBytes>
inline void move_fixed(std::byte* memory, std::byte* stream) {
  if constexpr (kPack) {
    __builtin_memcpy(stream, memory, kBytes);
  } else {
    __builtin_memcpy(memory, stream, kBytes);
  }
}

// Copies a block of more than 64 bytes. Defined in pack.cpp, so that calls are not inlined.
void copy_long(std::byte* to, const std::byte* from, std::size_t bytes);

template <bool kPack>
inline void move_bytes(std::byte* memory, std::byte* stream, std::size_t bytes) {
  if constexpr (kPack) {
    copy_long(stream, memory, bytes);
  } else {
    copy_long(memory, stream, bytes);
  }
}

// Moves a block of kPart to 2 * kPart bytes as two parts of kPart bytes, its first and its last,
// which overlap in a shorter block.
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

// Moves a block; one of up to 64 bytes without a function call.
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

// Moves a row of equal blocks, four at a time; `move` moves a single block.
template <class Move>
inline void move_row_by(BlockRow row, Move&& move) {
  constexpr std::uint64_t kUnroll = 4;
  for (; row.length >= kUnroll; row.length -= kUnroll) {
    for (std::uint64_t k = 0; k < kUnroll; ++k) {
      move(pointer_to(address_at(row.at, k, row.stride)), row.stream + k * row.stream_stride);
    }
    row.at = address_at(row.at, kUnroll, row.stride);
    row.stream += kUnroll * row.stream_stride;
  }
  for (; row.length != 0; --row.length) {
    move(pointer_to(row.at), row.stream);
    row.at = address_at(row.at, row.stride);
    row.stream += row.stream_stride;
  }
}

template <bool kPack, std::size_t kBytes>
inline void move_fixed_row(const BlockRow& row) {
  move_row_by(row, move_fixed<kPack, kBytes>);
}

template <bool kPack, std::size_t kPart>
inline void move_overlapped_row(const BlockRow& row, std::size_t bytes) {
  move_row_by(row, [bytes](std::byte* memory, std::byte* stream) {
    move_overlapped<kPack, kPart>(memory, stream, bytes);
  });
}

// Ways in which registers of 32 bytes move a block. `by_32` and `by_64` move 32 or 64 bytes at a
// time from its beginning. `aligned` moves 64 at a time from the first address at which no store
// crosses a cache line.
enum class WideParts : std::uint8_t { by_32, by_64, aligned };
constexpr std::size_t kLeastAligned = 160;
// The longest block in bytes that registers of 32 bytes move faster than memcpy() of the C library.
constexpr std::size_t kWideMost = 64U << 10U;

// True if the processor has registers of 32 bytes (AVX2), "wide" registers.
extern const bool kHasWide;

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i load_wide(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
[[gnu::target("avx2"), gnu::always_inline]] inline void store_wide(std::byte* to, __m256i part) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), part);
}

// Moves a block of at least kEnd bytes, kEnd bytes (32 or 64) at a time; the last part may overlap
// the one before.
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

template <WideParts kParts>
[[gnu::target("avx2"), gnu::always_inline]] inline void copy_block(std::byte* to,
                                                                   const std::byte* from,
                                                                   std::size_t bytes) {
  if constexpr (kParts == WideParts::aligned) return copy_aligned(to, from, bytes);
  copy_wide<kParts == WideParts::by_32 ? 32 : 64>(to, from, bytes);
}

// Moves a row of blocks of `bytes` bytes by registers of 32 bytes. The arguments are single values,
// not a BlockRow, so that they stay in registers: a row of two blocks is too short to repay their
// loads from memory.
template <bool kPack, WideParts kParts>
[[gnu::target("avx2")]] void move_wide(Address at, std::int64_t stride, std::uint64_t length,
                                       std::byte* stream, std::uint64_t stream_stride,
                                       std::size_t bytes) {
  for (; length != 0; --length) {
    if constexpr (kPack) {
      copy_block<kParts>(stream, pointer_to(at), bytes);
    } else {
      copy_block<kParts>(pointer_to(at), stream, bytes);
    }
    at = address_at(at, stride);
    stream += stream_stride;
  }
}

template <bool kPack, WideParts kParts>
void move_wide_row(const BlockRow& row, std::size_t bytes) {
  move_wide<kPack, kParts>(row.at, row.stride, row.length, row.stream, row.stream_stride, bytes);
}

// Calls `with` with the fastest loop that moves a row of blocks of `bytes` bytes, so that the loop
// is chosen once for all rows.
template <bool kPack, class With>
void choose_row(std::size_t bytes, With&& with) {
  if (with_constant<1, 2, 3, 4, 8, 16, 24, 32, 40>(
          bytes, [&](auto size) { with(move_fixed_row<kPack, size>); })) {
    return;
  }
  if (bytes < 8)
    return with([=](const BlockRow& row) { move_overlapped_row<kPack, 4>(row, bytes); });
  if (bytes < 16)
    return with([=](const BlockRow& row) { move_overlapped_row<kPack, 8>(row, bytes); });
  if (bytes < 32)
    return with([=](const BlockRow& row) { move_overlapped_row<kPack, 16>(row, bytes); });
  if (kHasWide && bytes < 64) {
    return with([=](const BlockRow& row) { move_wide_row<kPack, WideParts::by_32>(row, bytes); });
  }
  if (kHasWide && bytes < kLeastAligned) {
    return with([=](const BlockRow& row) { move_wide_row<kPack, WideParts::by_64>(row, bytes); });
  }
  if (kHasWide && bytes <= kWideMost) {
    return with([=](const BlockRow& row) { move_wide_row<kPack, WideParts::aligned>(row, bytes); });
  }
  with([=](const BlockRow& row) {
    move_row_by(row, [=](std::byte* memory, std::byte* stream) {
      move_bytes<kPack>(memory, stream, bytes);
    });
  });
}

}  // namespace mh::layout::detail
