// SPDX-License-Identifier: BSD-3-Clause
// Moves blocks that are in no cache and will not be read from a cache: blocks of streams longer
// than half the last cache (CacheLevel::memory).
//
// Reading: the hardware prefetches only within a page, so a single sequential stream uses a
// fraction of a core's bandwidth. The loops therefore read four *lanes* abreast, and each lane
// prefetches later lines into the second cache. Writing: whole lines are stored past the caches,
// which saves the read of the overwritten line. Partial lines at the ends of a block are stored as
// usual. Only a fence orders stores past the caches: fence_stores() comes before any other thread
// learns of the bytes.
//
// docs/decisions/layout has the gains. Threads: any. Limits: reading needs wide registers
// (kHasWide, move_blocks.hpp); without them the usual loops run.
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

// ---- Writing past the caches (unpacking) ----------------------------------------------------

inline void fence_stores() { _mm_sfence(); }

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

inline void write_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(to) % kLine;
  std::size_t at = std::min(before, bytes);
  if (at != 0) std::memcpy(to, from, at);
  for (; at + kLine <= bytes; at += kLine) write_line(to + at, from + at);
  if (at != bytes) std::memcpy(to + at, from + at, bytes - at);
}

// The length in bytes from which a block contains a whole cache line wherever it begins. Stores
// past the caches write whole lines, so shorter blocks gain from them only if they consist of whole
// lines (are_lines()).
inline constexpr std::uint64_t kLeastWritten = 2 * kLine - 1;

inline bool are_lines(Address at, const BlockRows& rows) {
  const auto all =
      at | static_cast<Address>(rows.row_stride) | static_cast<Address>(rows.stride) | rows.block;
  return all % kLine == 0;
}

// Unpacks rows of blocks from the stream by stores past the caches. Returns false, and moves
// nothing, if such stores gain nothing for these rows.
inline bool write_rows(Address at, const BlockRows& rows, const std::byte* stream) {
  if (rows.block < kLeastWritten && !are_lines(at, rows)) return false;
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    const Address row = address_at(at, i, rows.row_stride);
    for (std::uint64_t k = 0; k < rows.length; ++k) {
      write_past_caches(pointer_to(address_at(row, k, rows.stride)), stream, rows.block);
      stream += rows.block;
    }
  }
  return true;
}

// ---- Reading in four lanes (packing) --------------------------------------------------------

inline constexpr std::uint64_t kLanes = 4;
// Each of the four lanes of a read prefetches this many bytes of its part of the stream ahead.
inline constexpr std::uint64_t kAhead = 2048;
// The least bytes of a row that gains from four lanes: in a shorter row, less than half of a lane's
// lines have been prefetched before they are read.
inline constexpr std::uint64_t kLeastRead = 2 * kLanes * kAhead;

// The distance in bytes from a byte of a lane to the same byte of the next lane, in memory and in
// the packed stream.
struct LaneDistance {
  std::int64_t memory;
  std::uint64_t stream;
};

// The distance in bytes from the cache line being read to the line to prefetch. `within` is for a
// line of the same block, `beyond` for a line of a later block of the lane.
struct PrefetchDistance {
  std::uint64_t within;
  std::int64_t beyond;
};

inline PrefetchDistance ahead_in(std::uint64_t block, std::int64_t stride) {
  if (block > kAhead) return {kAhead, stride - static_cast<std::int64_t>(block - kAhead)};
  return {block, static_cast<std::int64_t>(address_at(0, kAhead / block, stride))};
}

inline void ask_for(Address line) {
  constexpr int kToRead = 0;
  constexpr int kSecondCache = 2;
  __builtin_prefetch(pointer_to(line), kToRead, kSecondCache);
}

// Half a cache line. The compiler loads it by a single register where the processor has registers
// of 32 bytes.
using HalfLine [[gnu::vector_size(32)]] = unsigned char;

// Packs one block from each of the four lanes into the stream, a cache line of each lane in turn,
// and prefetches later lines.
[[gnu::target("avx2")]] inline void read_abreast(Address at, std::byte* stream, std::uint64_t block,
                                                 LaneDistance apart, PrefetchDistance ahead) {
  std::uint64_t done = 0;
  for (; done + kLine <= block; done += kLine) {
    const std::int64_t on =
        done + ahead.within < block ? static_cast<std::int64_t>(ahead.within) : ahead.beyond;
    for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
      const Address line = address_at(at + done, lane, apart.memory);
      std::byte* target = stream + done + lane * apart.stream;
      ask_for(address_at(line, on));
      HalfLine first;
      HalfLine second;
      __builtin_memcpy(&first, pointer_to(line), sizeof first);
      __builtin_memcpy(&second, pointer_to(line) + sizeof first, sizeof second);
      __builtin_memcpy(target, &first, sizeof first);
      __builtin_memcpy(target + sizeof first, &second, sizeof second);
    }
  }
  if (done == block) return;
  for (std::uint64_t lane = 0; lane < kLanes; ++lane) {
    std::memcpy(stream + done + lane * apart.stream,
                pointer_to(address_at(at + done, lane, apart.memory)), block - done);
  }
}

// Copies contiguous bytes in four lanes, which are the quarters of the bytes.
inline void read_lanes(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto at = reinterpret_cast<Address>(from);
  const std::uint64_t lane = bytes / kLanes / kLine * kLine;
  read_abreast(at, to, lane, {static_cast<std::int64_t>(lane), lane},
               {kAhead, static_cast<std::int64_t>(kAhead)});
  const std::uint64_t done = kLanes * lane;
  if (done != bytes) std::memcpy(to + done, from + done, bytes - done);
}

inline void read_row(BlockRow row, std::uint64_t block) {
  const PrefetchDistance ahead = ahead_in(block, row.stride);
  const std::uint64_t quarter = row.length / kLanes;
  const LaneDistance apart{static_cast<std::int64_t>(quarter) * row.stride,
                           quarter * row.stream_stride};
  for (std::uint64_t k = 0; k < quarter; ++k) {
    read_abreast(address_at(row.at, k, row.stride), row.stream + k * row.stream_stride, block,
                 apart, ahead);
  }
  for (std::uint64_t k = kLanes * quarter; k < row.length; ++k) {
    read_lanes(row.stream + k * row.stream_stride, pointer_to(address_at(row.at, k, row.stride)),
               block);
  }
}

// Packs rows of blocks in lanes; or columns (blocks of the same place in each row) if a row has too
// few blocks for four lanes. Returns false, and moves nothing, if lanes gain nothing for these
// rows.
inline bool read_rows(Address at, const BlockRows& rows, std::byte* stream) {
  const std::uint64_t row_bytes = rows.length * rows.block;
  if (rows.block >= kLine && row_bytes >= kLeastRead) {
    for (std::uint64_t i = 0; i < rows.rows; ++i) {
      read_row({address_at(at, i, rows.row_stride), rows.stride, rows.length,
                stream + i * row_bytes, rows.block},
               rows.block);
    }
    return true;
  }
  const bool long_columns = rows.length < kLanes && rows.rows * rows.block >= kLeastRead;
  if (rows.block < kLine || !long_columns) return false;
  for (std::uint64_t k = 0; k < rows.length; ++k) {
    read_row({address_at(at, k, rows.stride), rows.row_stride, rows.rows, stream + k * rows.block,
              row_bytes},
             rows.block);
  }
  return true;
}

}  // namespace mh::layout::detail::far
