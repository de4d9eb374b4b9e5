// SPDX-License-Identifier: BSD-3-Clause
#include "layout/pack.hpp"

#include <algorithm>
#include <array>

#include "base/emulated.hpp"
#include "layout/abreast.hpp"
#include "layout/kernels.hpp"

namespace mh::layout {

namespace detail {
// Constants of the processor, read by any thread. Before the constructors of this file have run,
// both are false: no registers of 32 bytes are used, and no fence is issued for set conflicts.
const bool kHasWide = [] {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0;
}();
const bool kSetConflictsAreSlow = [] {
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") != 0;
}();

[[gnu::target("avx2")]] static void copy_long_wide(std::byte* to, const std::byte* from,
                                                   std::size_t bytes) {
  if (bytes < kLeastAligned) return copy_block<WideParts::by_64>(to, from, bytes);
  copy_block<WideParts::aligned>(to, from, bytes);
}

void copy_long(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (kHasWide && bytes <= kWideMost) return copy_long_wide(to, from, bytes);
  std::memcpy(to, from, bytes);
}
}  // namespace detail

namespace {

StreamRange clip_to_stream(const Elements& elements, StreamRange range) {
  range.end = std::min(range.end, elements.bytes());
  range.begin = std::min(range.begin, range.end);
  return range;
}

// The object to which walk_range() passes the blocks of a range: lists addresses and lengths of the
// blocks in `room`.
class BlockLister {
 public:
  explicit BlockLister(std::span<iovec> room) : room_(room) {}
  [[nodiscard]] const ListedBlocks& listed() const { return listed_; }
  // True once a block was refused. A list whose room is used up is not yet full, because the next
  // block may extend the last listed one.
  [[nodiscard]] bool full() const { return refused_; }

  void block(Address at, std::uint64_t bytes) {
    if (refused_) return;
    iovec* last = listed_.used > 0 ? &room_[listed_.used - 1] : nullptr;
    if (last != nullptr && address_of(last->iov_base) + last->iov_len == at) {
      last->iov_len += bytes;
    } else if (listed_.used < room_.size()) {
      room_[listed_.used++] = {detail::pointer_to(at), bytes};
    } else {
      refused_ = true;
      return;
    }
    listed_.bytes += bytes;
  }
  void rows(Address at, const BlockRows& rows) {
    for (std::uint64_t i = 0; i < rows.rows && !refused_; ++i) {
      for (std::uint64_t k = 0; k < rows.length && !refused_; ++k) {
        block(address_at(address_at(at, i, rows.row_stride), k, rows.stride), rows.block);
      }
    }
  }
  void list(Address at, const Runs& runs, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i < last && !refused_; ++i) {
      block(address_at(at, runs.offset[i]), runs.begin_of(i + 1) - runs.begin_of(i));
    }
  }
  void lists(Address at, const Runs& runs, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count && !refused_; ++i) {
      list(address_at(at, i, runs.stride), runs, 0, runs.runs);
    }
  }

 private:
  std::span<iovec> room_;
  ListedBlocks listed_{0, 0};
  bool refused_ = false;
};

template <bool kPack>
std::uint64_t move_range(const Elements& elements, StreamRange range, std::byte* stream) {
  range = clip_to_stream(elements, range);
  const emulated::Leaf leaf(emulated::Way::blocks, emulated::kOwnPlace, emulated::kOwnPlace,
                            range.end - range.begin);
  detail::PackSink<kPack> mover(stream, elements.cache_level);
  walk_range(*elements.layout, elements.count, elements.base, range, mover);
  if (!kPack && elements.cache_level == CacheLevel::memory) detail::far::fence_stores();
  return range.end - range.begin;
}

// Returns the address of the packed stream if the elements are one contiguous block, whose bytes in
// memory are the stream; else null.
const std::byte* stream_in_memory(const Elements& elements) {
  const Layout& layout = *elements.layout;
  const ShapeNode* node = layout.root().node.get();
  const bool one_block = node != nullptr && node->kind == ShapeKind::grid && node->grid.dims == 0;
  if (!one_block) return nullptr;
  const bool tiles =
      elements.count == 1 || static_cast<std::uint64_t>(layout.extent()) == node->size;
  return tiles ? detail::pointer_to(address_at(elements.base, layout.root().offset)) : nullptr;
}

// The mean length in bytes of the source's blocks from which copy_range() unpacks each block
// directly into the target. For longer blocks, a copy through scratch costs more than a search for
// the target of each block.
constexpr std::uint64_t kLongBlock = 2048;

bool has_long_blocks(const Layout& layout) { return layout.size() / kLongBlock >= layout.blocks(); }

// Copies the blocks of the source one by one, without scratch. Each block is a piece of the packed
// stream that lies in memory, so it is unpacked directly into the target.
std::uint64_t copy_blocks(const Elements& to, const Elements& from, StreamRange range) {
  std::array<iovec, 16> room;
  for (std::uint64_t at = range.begin; at < range.end;) {
    const ListedBlocks found = list_blocks(from, {at, range.end}, room);
    for (std::size_t i = 0; i < found.used; ++i) {
      at += unpack_range(to, {at, at + room[i].iov_len}, room[i].iov_base);
    }
  }
  return range.end - range.begin;
}

// Copies piece by piece: packs into the scratch buffer and unpacks from there. For
// CacheLevel::memory this is the fastest way even if an end is contiguous: reading in lanes and
// writing whole lines each serve a single side of a copy.
std::uint64_t copy_by_scratch(const Elements& to, const Elements& from, StreamRange range,
                              std::span<std::byte> scratch) {
  const std::size_t step = std::min(scratch.size(), kScratch);
  if (step == 0) return 0;
  for (std::uint64_t at = range.begin; at < range.end; at += step) {
    const StreamRange part{at, std::min<std::uint64_t>(at + step, range.end)};
    pack_range(from, part, scratch.data());
    unpack_range(to, part, scratch.data());
  }
  return range.end - range.begin;
}

}  // namespace

std::uint64_t pack_range(const Elements& from, StreamRange range, void* packed) {
  return move_range<true>(from, range, static_cast<std::byte*>(packed));
}

std::uint64_t unpack_range(const Elements& to, StreamRange range, const void* packed) {
  // const_cast: move_range() takes a writable stream for both directions; unpacking only reads it.
  return move_range<false>(to, range, static_cast<std::byte*>(const_cast<void*>(packed)));
}

void copy_from(CacheLevel cache_level, void* packed, const void* from, std::size_t bytes) {
  detail::PackSink<true>(static_cast<std::byte*>(packed), cache_level)
      .block(address_of(from), bytes);
}

void copy_to(CacheLevel cache_level, void* to, const void* packed, std::size_t bytes) {
  // const_cast: PackSink takes a writable stream for both directions; unpacking only reads it.
  auto* stream = static_cast<std::byte*>(const_cast<void*>(packed));
  detail::PackSink<false>(stream, cache_level).block(address_of(to), bytes);
  if (cache_level == CacheLevel::memory) detail::far::fence_stores();
}

void fetch_to(CacheLevel cache_level, void* to, const void* from, std::size_t bytes) {
  if (cache_level == CacheLevel::memory || !detail::is_abreast(bytes))
    return copy_to(cache_level, to, from, bytes);
  detail::copy_abreast(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

std::uint64_t copy_range(const Elements& to, const Elements& from, StreamRange range,
                         std::span<std::byte> scratch) {
  range = clip_to_stream(to, clip_to_stream(from, range));
  const bool far = to.cache_level == CacheLevel::memory && from.cache_level == CacheLevel::memory &&
                   !scratch.empty();
  if (far) return copy_by_scratch(to, from, range, scratch);
  if (const std::byte* source = stream_in_memory(from)) {
    return unpack_range(to, range, source + range.begin);
  }
  if (const std::byte* target = stream_in_memory(to)) {
    return pack_range(from, range, const_cast<std::byte*>(target) + range.begin);
  }
  if (range.begin < range.end && has_long_blocks(*from.layout)) return copy_blocks(to, from, range);
  return copy_by_scratch(to, from, range, scratch);
}

ListedBlocks list_blocks(const Elements& of, StreamRange range, std::span<iovec> room) {
  BlockLister lister(room);
  walk_range(*of.layout, of.count, of.base, clip_to_stream(of, range), lister);
  return lister.listed();
}

}  // namespace mh::layout
