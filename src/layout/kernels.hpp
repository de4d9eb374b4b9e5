// SPDX-License-Identifier: BSD-3-Clause
// The loops that move rows of equal blocks, and lists of blocks at irregular offsets, between
// memory and the packed stream.
//
// `kPack` is the direction: memory to stream, or stream to memory. Exactly the blocks' bytes are
// written, never a gap. Bytes outside of the blocks are read only between short runs.
// docs/decisions/layout lists slower variants. Threads: any.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "layout/move_blocks.hpp"
#include "layout/non_temporal.hpp"
#include "layout/set_conflicts.hpp"
#include "layout/walk.hpp"

namespace mh::layout::detail {

// The number of blocks of a row that move_rows_tiled() moves before it goes on to the next row.
// Rows that are closer together than the blocks of a row share cache lines (a matrix by columns),
// and the loop so uses up a line while it is in the cache.
constexpr std::uint64_t kTile = 8;
inline std::uint64_t tile_of(const BlockRows& rows) {
  const auto away = [](std::int64_t stride) { return stride < 0 ? -stride : stride; };
  const bool across =
      rows.rows > 1 && away(rows.row_stride) < away(rows.stride) && rows.block <= 32;
  return across ? kTile : rows.length;
}

template <class MoveRow>
void move_rows_tiled(Address at, const BlockRows& rows, std::byte* stream, MoveRow&& move) {
  const std::uint64_t tile = tile_of(rows);
  for (std::uint64_t done = 0; done < rows.length; done += tile) {
    BlockRow row{address_at(at, done, rows.stride), rows.stride, std::min(tile, rows.length - done),
                 stream + done * rows.block, rows.block};
    for (std::uint64_t i = 0; i < rows.rows; ++i) {
      move(row);
      row.at = address_at(row.at, rows.row_stride);
      row.stream += rows.length * rows.block;
    }
  }
}

// True for blocks so few and short that choosing a faster loop than move_simply() does not pay.
inline bool are_few(const BlockRows& rows) {
  return rows.block <= 64 && rows.rows * rows.length <= 8;
}

template <bool kPack>
void move_simply(Address at, const BlockRows& rows, std::byte* stream) {
  const auto each = [&](auto&& move) {
    for (std::uint64_t i = 0; i < rows.rows; ++i) {
      for (std::uint64_t k = 0; k < rows.length; ++k) {
        move(pointer_to(address_at(at, k, rows.stride)), stream);
        stream += rows.block;
      }
      at = address_at(at, rows.row_stride);
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
void move_rows(Address at, const BlockRows& rows, std::byte* stream) {
  if (are_few(rows)) return move_simply<kPack>(at, rows, stream);
  const bool tiles = tile_of(rows) < rows.length;
  const SetConflicts conflicts = tiles ? SetConflicts::none : set_conflicts_of(rows);
  if (conflicts == SetConflicts::severe) {
    if (lie_across_lines(at, rows)) {
      if (kPack || kSetConflictsAreSlow) return move_across_lines<kPack>(at, rows, stream);
    } else if (move_as_conflicting<kPack>(at, rows, stream)) {
      return;
    }
    // Rows whose blocks share sets of the cache are packed one block at a time. Four blocks at a
    // time, as the other loops do, would take 195 ns instead of 166 for 62 blocks of 8 bytes.
    if (kPack) return move_simply<kPack>(at, rows, stream);
  }
  choose_row<kPack>(rows.block, [&](auto&& move) {
    if (!kPack && kSetConflictsAreSlow && conflicts != SetConflicts::none) {
      move_rows_slowly(at, rows, stream, conflicts, move);
    } else {
      move_rows_tiled(at, rows, stream, move);
    }
  });
}

// Moves the runs (blocks) of a list that all have kBytes bytes, a number known at compile time.
template <bool kPack, std::size_t kBytes>
void move_list(Address at, const std::int64_t* offset, std::uint64_t runs, std::byte* stream) {
  constexpr std::uint64_t kUnroll = 4;
  const auto move = [&](std::uint64_t i) {
    move_fixed<kPack, kBytes>(pointer_to(address_at(at, offset[i])), stream + i * kBytes);
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
  if (with_constant<4, 8, 16, 32, 64>(
          block, [&](auto size) { move_list<kPack, size>(at, offset, runs, stream); })) {
    return;
  }
  for (std::uint64_t i = 0; i < runs; ++i) {
    move_short<kPack>(pointer_to(address_at(at, offset[i])), stream + i * block, block);
  }
}

// True if these bytes lie in a single page of 4 KB, so that all are mapped if one is. With larger
// pages the answer may be false without need.
inline bool in_one_page(const std::byte* from, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  return reinterpret_cast<std::uintptr_t>(from) % kPage <= kPage - bytes;
}

// Packs runs of at most kMost bytes without a branch on their lengths: each run copies kMost bytes,
// and the next run overwrites the excess in the stream. Stops at the first run whose excess would
// exceed the stream's end, returns that run's number, and advances `stream`. The caller packs the
// rest.
//
// The excess is read only if it lies in the same page of 4 KB as the run, and before the end of the
// list's farthest run, so that its memory is mapped. Other runs are copied without an excess.
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
    std::byte* const from = pointer_to(address_at(at, offset));
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
    move_short<kPack>(pointer_to(address_at(at, runs.offset[first])), stream, bytes);
    stream += bytes;
  }
}

// The most runs of a record, and the bytes of records that are moved at a time. A record is a list
// of few runs that is repeated at a stride. The loop moves the first run of as many records as the
// first cache holds, then the second run, and so on. A loop over blocks of a single size is several
// times as fast as a loop over different sizes.
constexpr std::uint64_t kRecordRuns = 16;
constexpr std::uint64_t kRecordBytes = 8U << 10U;

template <bool kPack>
void move_records(Address at, const Runs& runs, std::uint64_t count, std::byte* stream) {
  const std::uint64_t most = 1 + kRecordBytes / runs.bytes;
  while (count != 0) {
    const std::uint64_t records = std::min(count, most);
    for (std::uint64_t i = 0; i < runs.runs; ++i) {
      const std::uint64_t begin = runs.begin_of(i);
      const BlockRow column{address_at(at, runs.offset[i]), runs.stride, records, stream + begin,
                            runs.bytes};
      choose_row<kPack>(runs.begin_of(i + 1) - begin, [&](auto&& move) { move(column); });
    }
    at = address_at(at, records, runs.stride);
    stream += records * runs.bytes;
    count -= records;
  }
}

// The object to which walk_range() passes the blocks of a range: packs them from memory into the
// stream, or unpacks them from the stream.
template <bool kPack>
class PackSink {
 public:
  PackSink(std::byte* stream, CacheLevel cache_level)
      : stream_(stream), cache_level_(cache_level) {}

  void block(Address at, std::uint64_t bytes) {
    if (is_far(bytes)) [[unlikely]] {
      move_far(at, bytes);
    } else {
      move_short<kPack>(pointer_to(at), stream_, bytes);
    }
    stream_ += bytes;
  }
  void rows(Address at, const BlockRows& rows) {
    if (cache_level_ == CacheLevel::caches || !moved_far(at, rows))
      move_rows<kPack>(at, rows, stream_);
    stream_ += rows.rows * rows.length * rows.block;
  }
  void list(Address at, const Runs& runs, std::uint64_t first, std::uint64_t last) {
    if (are_far(runs)) {
      for (std::uint64_t i = first; i < last; ++i) {
        block(address_at(at, runs.offset[i]), runs.length_of(i));
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
    for (std::uint64_t i = 0; i < count; ++i)
      list(address_at(at, i, runs.stride), runs, 0, runs.runs);
  }
  [[nodiscard]] static constexpr bool full() { return false; }

 private:
  // True if the loops of non_temporal.hpp, which are for data in no cache, pay for a block of this
  // length. Packing needs wide registers and a block long enough for four lanes. Unpacking, by
  // stores past the caches, needs only a block that contains a whole cache line.
  [[nodiscard]] bool is_far(std::uint64_t block) const {
    if (cache_level_ == CacheLevel::caches) return false;
    return kPack ? kHasWide && block >= far::kLeastRead : block >= far::kLeastWritten;
  }
  // True if the loops of non_temporal.hpp, which are for data in no cache, pay for a block of the
  // list's mean length.
  [[nodiscard]] bool are_far(const Runs& runs) const {
    return cache_level_ == CacheLevel::memory && is_far(runs.bytes / runs.runs);
  }
  // Not inlined into block(), which would otherwise save more registers for each short block.
  [[gnu::noinline]] void move_far(Address at, std::uint64_t bytes) const {
    if constexpr (kPack) {
      far::read_lanes(stream_, pointer_to(at), bytes);
    } else {
      far::write_past_caches(pointer_to(at), stream_, bytes);
    }
  }
  [[gnu::noinline]] bool moved_far(Address at, const BlockRows& rows) const {
    if constexpr (kPack) {
      return kHasWide && far::read_rows(at, rows, stream_);
    } else {
      return far::write_rows(at, rows, stream_);
    }
  }

  std::byte* stream_;
  CacheLevel cache_level_;
};

}  // namespace mh::layout::detail
