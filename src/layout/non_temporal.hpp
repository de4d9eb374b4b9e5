// SPDX-License-Identifier: BSD-3-Clause
// Moving blocks of which no cache holds anything, nor shall it: those of streams of more than half
// the last cache (CacheLevel::memory).
//
// Reading: one stretch of memory after the other leaves most of what a core could fetch at a time
// unused, because the hardware looks ahead only within a page. So four *lanes* are read abreast,
// and each asks for the lines of a little later to be brought into the second cache.
// Writing: whole lines go past the caches, so that they are not read before they are overwritten.
// What a block begins and ends within is stored as usual. Nothing but a fence orders such stores:
// written() before anybody is told of the bytes.
//
// What each is worth: docs/decisions.md. Reading is for processors with wide registers (kHasWide,
// move_blocks.hpp); without wide registers such blocks are read like all others.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cacheline.hpp"
#include "layout/walk.hpp"

namespace mh::layout::detail::far {

inline constexpr std::size_t kLine = kCacheLine;

// ---- Writing --------------------------------------------------------------------------------

inline void written() { _mm_sfence(); }

inline void write_line(std::byte* to, const std::byte* from) {
  auto* line = reinterpret_cast<__m128i*>(to);
  const auto* source = reinterpret_cast<const __m128i*>(from);
  const __m128i a = _mm_loadu_si128(source);
  const __m128i b = _mm_loadu_si128(source + 1);
  const __m128i c = _mm_loadu_si128(source + 2);
  const __m128i d = _mm_loadu_si128(source + 3);
  _mm_stream_si128(line, a);
  _mm_stream_si128(line + 1, b);
  _mm_stream_si128(line + 2, c);
  _mm_stream_si128(line + 3, d);
}

inline void write(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(to) % kLine;
  std::size_t at = std::min(before, bytes);
  if (at != 0) std::memcpy(to, from, at);
  for (; at + kLine <= bytes; at += kLine) write_line(to + at, from + at);
  if (at != bytes) std::memcpy(to + at, from + at, bytes - at);
}

// Shorter ones may hold no whole line, unless they are lines.
inline constexpr std::uint64_t kLeastWritten = 2 * kLine - 1;

inline bool are_lines(Address at, const Rows& rows) {
  const auto all =
      at | static_cast<Address>(rows.row_stride) | static_cast<Address>(rows.stride) | rows.block;
  return all % kLine == 0;
}

// False: nothing was done, such rows gain nothing.
inline bool write_rows(Address at, const Rows& rows, const std::byte* stream) {
  if (rows.block < kLeastWritten && !are_lines(at, rows)) return false;
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    const Address row = moved(at, i, rows.row_stride);
    for (std::uint64_t k = 0; k < rows.length; ++k) {
      write(pointer(moved(row, k, rows.stride)), stream, rows.block);
      stream += rows.block;
    }
  }
  return true;
}

// ---- Reading --------------------------------------------------------------------------------

inline constexpr std::uint64_t kLanes = 4;
// How far ahead a lane looks, in bytes of the stream.
inline constexpr std::uint64_t kAhead = 2048;
// The least that pays: half of what a lane reads was asked for.
inline constexpr std::uint64_t kLeastRead = 2 * kLanes * kAhead;

// From one lane to the next.
struct Apart {
  std::int64_t memory;
  std::uint64_t stream;
};

// From a line of a block to the one that is asked for: `within` bytes on where the block still has
// them, else `beyond`, in a later block.
struct Ahead {
  std::uint64_t within;
  std::int64_t beyond;
};

inline Ahead ahead_in(std::uint64_t block, std::int64_t stride) {
  if (block > kAhead) return {kAhead, stride - static_cast<std::int64_t>(block - kAhead)};
  return {block, static_cast<std::int64_t>(moved(0, kAhead / block, stride))};
}

inline void ask_for(Address line) {
  constexpr int kToRead = 0;
  constexpr int kSecondCache = 2;
  __builtin_prefetch(pointer(line), kToRead, kSecondCache);
}

// Half a line, in one register where there are such.
using Half [[gnu::vector_size(32)]] = unsigned char;

// One block of each lane.
[[gnu::target("avx2")]] inline void read_abreast(Address at, std::byte* stream, std::uint64_t block,
                                                 Apart apart, Ahead ahead) {
  std::uint64_t done = 0;
  for (; done + kLine <= block; done += kLine) {
    const std::int64_t on =
        done + ahead.within < block ? static_cast<std::int64_t>(ahead.within) : ahead.beyond;
    for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
      const Address line = moved(at + done, lane, apart.memory);
      std::byte* target = stream + done + lane * apart.stream;
      ask_for(moved(line, on));
      Half first;
      Half second;
      __builtin_memcpy(&first, pointer(line), sizeof first);
      __builtin_memcpy(&second, pointer(line) + sizeof first, sizeof second);
      __builtin_memcpy(target, &first, sizeof first);
      __builtin_memcpy(target + sizeof first, &second, sizeof second);
    }
  }
  if (done == block) return;
  for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
    std::memcpy(stream + done + lane * apart.stream, pointer(moved(at + done, lane, apart.memory)),
                block - done);
  }
}

// One contiguous stretch; the lanes are its quarters.
inline void read(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto at = reinterpret_cast<Address>(from);
  const std::uint64_t lane = bytes / kLanes / kLine * kLine;
  read_abreast(at, to, lane, {static_cast<std::int64_t>(lane), lane},
               {kAhead, static_cast<std::int64_t>(kAhead)});
  const std::uint64_t done = kLanes * lane;
  if (done != bytes) std::memcpy(to + done, from + done, bytes - done);
}

// The lanes are the quarters of the row.
inline void read_row(Row row, std::uint64_t block) {
  const Ahead ahead = ahead_in(block, row.stride);
  const std::uint64_t quarter = row.length / kLanes;
  const Apart apart{static_cast<std::int64_t>(quarter) * row.stride, quarter * row.stream_stride};
  for (std::uint64_t k = 0; k < quarter; ++k) {
    read_abreast(moved(row.at, k, row.stride), row.stream + k * row.stream_stride, block, apart,
                 ahead);
  }
  for (std::uint64_t k = kLanes * quarter; k < row.length; ++k) {
    read(row.stream + k * row.stream_stride, pointer(moved(row.at, k, row.stride)), block);
  }
}

// By rows, or by columns where there are too few blocks in a row for the lanes. False: nothing was
// done, such rows gain nothing.
inline bool read_rows(Address at, const Rows& rows, std::byte* stream) {
  const std::uint64_t row_bytes = rows.length * rows.block;
  if (rows.block >= kLine && row_bytes >= kLeastRead) {
    for (std::uint64_t i = 0; i < rows.rows; ++i) {
      read_row({moved(at, i, rows.row_stride), rows.stride, rows.length, stream + i * row_bytes,
                rows.block},
               rows.block);
    }
    return true;
  }
  const bool long_columns = rows.length < kLanes && rows.rows * rows.block >= kLeastRead;
  if (rows.block < kLine || !long_columns) return false;
  for (std::uint64_t k = 0; k < rows.length; ++k) {
    read_row(
        {moved(at, k, rows.stride), rows.row_stride, rows.rows, stream + k * rows.block, row_bytes},
        rows.block);
  }
  return true;
}

}  // namespace mh::layout::detail::far
