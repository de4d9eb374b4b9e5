// SPDX-License-Identifier: BSD-3-Clause
// The loops that move blocks between memory and the packed stream, one for each block size.
//
// `kPack` says the direction: memory to stream, or stream to memory. Exactly the bytes of the
// blocks are read and written, never a gap. What was tried and is slower: docs/decisions.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "layout/walk.hpp"

namespace mh::layout::detail {

inline std::byte* pointer(Address at) { return reinterpret_cast<std::byte*>(at); }

template <bool kPack, std::size_t kBytes>
inline void move_fixed(std::byte* memory, std::byte* stream) {
  if constexpr (kPack) {
    __builtin_memcpy(stream, memory, kBytes);
  } else {
    __builtin_memcpy(memory, stream, kBytes);
  }
}

template <bool kPack>
inline void move_bytes(std::byte* memory, std::byte* stream, std::size_t bytes) {
  if constexpr (kPack) {
    std::memcpy(stream, memory, bytes);
  } else {
    std::memcpy(memory, stream, bytes);
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

// Up to 128 bytes without a call.
template <bool kPack>
inline void move_short(std::byte* memory, std::byte* stream, std::size_t bytes) {
  if (bytes >= 16) {
    if (bytes <= 32) return move_overlapped<kPack, 16>(memory, stream, bytes);
    if (bytes <= 64) return move_overlapped<kPack, 32>(memory, stream, bytes);
    if (bytes <= 128) return move_overlapped<kPack, 64>(memory, stream, bytes);
    return move_bytes<kPack>(memory, stream, bytes);
  }
  if (bytes >= 8) return move_overlapped<kPack, 8>(memory, stream, bytes);
  if (bytes >= 4) return move_overlapped<kPack, 4>(memory, stream, bytes);
  if (bytes >= 2) return move_overlapped<kPack, 2>(memory, stream, bytes);
  if (bytes == 1) *(kPack ? stream : memory) = *(kPack ? memory : stream);
}

// One row of blocks of a size known when this is compiled.
template <bool kPack, std::size_t kBytes>
inline void move_row(Address at, std::int64_t stride, std::uint64_t length, std::byte* stream) {
  constexpr std::uint64_t kUnroll = kBytes <= 16 ? 8 : 64 / kBytes;
  std::uint64_t i = 0;
  for (; i + kUnroll <= length; i += kUnroll) {
    for (std::uint64_t k = 0; k < kUnroll; ++k) {
      move_fixed<kPack, kBytes>(pointer(moved(at, k, stride)), stream + k * kBytes);
    }
    at = moved(at, kUnroll, stride);
    stream += kUnroll * kBytes;
  }
  for (; i < length; ++i) {
    move_fixed<kPack, kBytes>(pointer(at), stream);
    at = moved(at, stride);
    stream += kBytes;
  }
}

template <bool kPack, std::size_t kBytes>
void move_rows(Address at, const Rows& rows, std::byte* stream) {
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    move_row<kPack, kBytes>(at, rows.stride, rows.length, stream);
    at = moved(at, rows.row_stride);
    stream += rows.length * kBytes;
  }
}

// Blocks of any other size; `move` is the same for all of them.
template <class Move>
void move_rows_by(Address at, const Rows& rows, std::byte* stream, Move&& move) {
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    Address block = at;
    for (std::uint64_t k = 0; k < rows.length; ++k) {
      move(pointer(block), stream);
      block = moved(block, rows.stride);
      stream += rows.block;
    }
    at = moved(at, rows.row_stride);
  }
}

template <bool kPack, std::size_t kPart>
void move_rows_overlapped(Address at, const Rows& rows, std::byte* stream) {
  move_rows_by(at, rows, stream, [bytes = rows.block](std::byte* memory, std::byte* packed) {
    move_overlapped<kPack, kPart>(memory, packed, bytes);
  });
}

template <bool kPack>
void move_any_rows(Address at, const Rows& rows, std::byte* stream) {
  const std::size_t bytes = rows.block;
  switch (bytes) {
    case 1:
      return move_rows<kPack, 1>(at, rows, stream);
    case 2:
      return move_rows<kPack, 2>(at, rows, stream);
    case 4:
      return move_rows<kPack, 4>(at, rows, stream);
    case 8:
      return move_rows<kPack, 8>(at, rows, stream);
    case 16:
      return move_rows<kPack, 16>(at, rows, stream);
    case 32:
      return move_rows<kPack, 32>(at, rows, stream);
    case 64:
      return move_rows<kPack, 64>(at, rows, stream);
    default:
      break;
  }
  if (bytes < 4) return move_rows<kPack, 3>(at, rows, stream);
  if (bytes < 8) return move_rows_overlapped<kPack, 4>(at, rows, stream);
  if (bytes < 16) return move_rows_overlapped<kPack, 8>(at, rows, stream);
  if (bytes < 32) return move_rows_overlapped<kPack, 16>(at, rows, stream);
  if (bytes < 64) return move_rows_overlapped<kPack, 32>(at, rows, stream);
  if (bytes <= 128) return move_rows_overlapped<kPack, 64>(at, rows, stream);
  move_rows_by(at, rows, stream, [bytes](std::byte* memory, std::byte* packed) {
    move_bytes<kPack>(memory, packed, bytes);
  });
}

// Runs of one length, known when this is compiled.
template <bool kPack, std::size_t kBytes>
void move_list(Address at, const std::int64_t* offset, std::uint64_t runs, std::byte* stream) {
  for (std::uint64_t i = 0; i < runs; ++i) {
    move_fixed<kPack, kBytes>(pointer(moved(at, offset[i])), stream + i * kBytes);
  }
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

// Runs of different lengths.
template <bool kPack>
void move_uneven_list(Address at, const Runs& runs, std::uint64_t first, std::uint64_t last,
                      std::byte* stream) {
  std::uint64_t begin = runs.begin_of(first);
  for (std::uint64_t i = first; i < last; ++i) {
    const std::uint64_t bytes = runs.end[i] - begin;
    move_short<kPack>(pointer(moved(at, runs.offset[i])), stream, bytes);
    stream += bytes;
    begin = runs.end[i];
  }
}

// The sink that packs or unpacks.
template <bool kPack>
class Mover {
 public:
  explicit Mover(std::byte* stream) : stream_(stream) {}

  void block(Address at, std::uint64_t bytes) {
    move_bytes<kPack>(pointer(at), stream_, bytes);
    stream_ += bytes;
  }
  void rows(Address at, const Rows& rows) {
    move_any_rows<kPack>(at, rows, stream_);
    stream_ += rows.rows * rows.length * rows.block;
  }
  void list(Address at, const Runs& runs, std::uint64_t first, std::uint64_t last) {
    if (runs.end == nullptr) {
      move_even_list<kPack>(at, runs.offset + first, last - first, runs.block, stream_);
    } else {
      move_uneven_list<kPack>(at, runs, first, last, stream_);
    }
    stream_ += runs.begin_of(last) - runs.begin_of(first);
  }
  void lists(Address at, const Runs& runs, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) list(moved(at, i, runs.stride), runs, 0, runs.runs);
  }
  [[nodiscard]] static constexpr bool full() { return false; }

 private:
  std::byte* stream_;
};

}  // namespace mh::layout::detail
