// SPDX-License-Identifier: BSD-3-Clause
// Tracks which pages of the heap are in use: runs of pages, their neighbours, and the free runs by
// length.
//
// An Extents object knows pages by their numbers, and their boundary tags (tag_table.hpp), but no
// addresses, so tests need no heap.
//
//   page    the unit of allocation; pages are numbered from 0.
//   extent  a run of pages that belong together. An extent is *used*, *kept* (free; its pages may
//           hold memory and old contents), *empty* (free; its pages hold no memory and read as
//           zero) or *leaving* (free, but its memory is being given back to the system).
//   bin     a list of the kept or of the empty extents of about the same length.
//
// Invariants: extents cover pages [0, size()) without gap or overlap; no two neighbours are both
// kept or both empty. Each kept or empty extent is in exactly one bin, each kept extent also in the
// list by age. kept() is the sum of kept extents. check() verifies all invariants.
//
// Boundary tags lie in a table beside the heap, so a write past the end of a block cannot damage
// them. All operations but check() take constant time. Not thread-safe: the caller has a lock.
// Limit: 2^30 pages (4 TiB).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "heap/tag_table.hpp"

namespace mh::heap {

struct Taken {
  Page first = kNoPage;
  bool zero = false;  // every byte reads as zero
  Page fresh = 0;     // pages that held no memory
  explicit operator bool() const { return first != kNoPage; }
};

struct Run {
  Page first = kNoPage;
  Page pages = 0;
  explicit operator bool() const { return pages != 0; }
};

class Extents {
 public:
  // Makes room for the boundary tags of pages [0, pages). False if memory is short.
  bool reach(std::size_t pages) { return tags_.reach(pages); }
  // Appends `pages` pages, which are free and hold no memory. A call of reach() has made room for
  // their boundary tags.
  void add(Page pages);
  [[nodiscard]] Page size() const { return size_; }

  // Makes free pages a used extent of `pages` pages, such that its first page plus `origin` is a
  // multiple of `alignment` (a power of two). From::kept_first prefers kept pages, which hold
  // memory, to empty ones, which do not; From::empty takes empty pages only.
  enum class From : std::uint8_t { kept_first, empty };
  Taken take(Page pages, Page alignment, Page origin = 0, From from = From::kept_first);
  // Frees the extent that begins at page `first`, which is used or leaving (see leave()). Its pages
  // keep their memory, so the extent becomes kept (free, with memory).
  void give(Page first);
  // True if a used extent begins at this page, for whose boundary tag reach() has made room. The
  // thread that owns the extent may call this function, pages_of() and note() without the heap's
  // lock.
  [[nodiscard]] bool begins_used(Page first) const {
    return tags_[first].first != 0 && tags_[first].state == ExtentState::used;
  }
  [[nodiscard]] Page pages_of(Page first) const { return tags_[first].pages; }
  // Stores a number with a used extent, for as long as the extent is used. The heap stores the
  // bytes that the program has requested.
  void note(Page first, std::uint64_t number) {
    tags_[first].next = static_cast<Page>(number);
    tags_[first].previous = static_cast<Page>(number >> 32U);
  }
  [[nodiscard]] std::uint64_t noted(Page first) const {
    return tags_[first].next | std::uint64_t{tags_[first].previous} << 32U;
  }

  // Links used extents into a list of the caller's: `to` follows `first`. The heap links the
  // extents whose release is deferred.
  void chain(Page first, Page to) { tags_[first].older = to; }
  [[nodiscard]] Page chained(Page first) const { return tags_[first].older; }

  // Makes a used extent `pages` pages long, in place. If the extent shrinks, its end becomes kept
  // (free, with memory). False, without a change, if the extent should grow and the pages behind it
  // are not free.
  bool resize(Page first, Page pages);

  // Takes up to `pages` pages from the end of the extent that has been kept (free, with memory)
  // longest, so that the caller can return their memory to the system. The state of these pages is
  // `leaving` until the caller calls left(), or give() if they still hold memory.
  Run leave(Page pages);
  // Makes a used or leaving extent (see leave()) empty: free pages that hold no memory and read as
  // zero.
  void left(Page first);

  [[nodiscard]] std::uint64_t kept() const { return kept_; }
  // Checks all invariants, for tests. Returns a text about the first one that is broken, or
  // nullptr.
  [[nodiscard]] const char* check() const;

 private:
  // Free extents are in bins by their length in pages, eight bins for each power of two.
  static constexpr unsigned kBins = 240;
  struct Bins {
    std::array<std::uint64_t, (kBins + 63) / 64> occupied{};
    std::array<Page, kBins> heads = filled();
    static constexpr std::array<Page, kBins> filled() {
      std::array<Page, kBins> heads{};
      for (Page& head : heads) head = kNoPage;
      return heads;
    }
  };

  static unsigned bin_of(Page pages);
  Bins& bins_of(ExtentState state) { return state == ExtentState::kept ? kept_bins_ : empty_bins_; }
  [[nodiscard]] bool is_free(Page first) const;
  [[nodiscard]] Page before(Page first) const;

  void mark(Page first, Page pages, ExtentState state);
  void erase(Page first);
  void insert(Page first, Page pages, ExtentState state);
  void insert_merged(Page first, Page pages, ExtentState state);
  void link_youngest(Page first);
  void unlink_age(Page first);

  Taken take_joined(Page pages, Page alignment, Page origin);
  Page find(const Bins& bins, Page pages, Page alignment, Page origin) const;
  [[nodiscard]] Page find_in(Page head, unsigned looks, Page pages, Page alignment,
                             Page origin) const;
  [[nodiscard]] Page place(Page first, Page pages, Page alignment, Page origin) const;
  [[nodiscard]] const char* check_free(Page first) const;

  TagTable tags_;
  Page size_ = 0;
  Page oldest_ = kNoPage;
  Page youngest_ = kNoPage;
  std::uint64_t kept_ = 0;
  Bins kept_bins_;
  Bins empty_bins_;
};

}  // namespace mh::heap
