// SPDX-License-Identifier: BSD-3-Clause
#include "heap/extents.hpp"

#include <algorithm>
#include <bit>

namespace mh::heap {
namespace {

// Free extents of about the same length form a list, called bin. find() tries this many extents of
// each bin that it looks into. Extents of one bin differ in length by up to an eighth, so some of
// the first bin may be too short. Extents of later bins are long enough, unless alignment costs
// pages.
constexpr unsigned kLooks = 16;

}  // namespace

unsigned Extents::bin_of(Page pages) {
  if (pages < 8) return pages;
  const auto power = static_cast<unsigned>(std::bit_width(pages)) - 1;
  return (power - 2) * 8 + ((pages >> (power - 3)) & 7U);
}

bool Extents::is_free(Page first) const {
  return tags_[first].state == ExtentState::kept || tags_[first].state == ExtentState::empty;
}

// The first page of the extent that ends before page `first`, which is not 0.
Page Extents::before(Page first) const { return first - tags_[first - 1].pages; }

void Extents::mark(Page first, Page pages, ExtentState state) {
  BoundaryTag& last = tags_[first + pages - 1];
  last.pages = pages;
  last.state = state;
  last.first = 0;
  tags_[first].pages = pages;
  tags_[first].state = state;
  tags_[first].first = 1;
}

void Extents::link_youngest(Page first) {
  tags_[first].older = youngest_;
  tags_[first].younger = kNoPage;
  (youngest_ == kNoPage ? oldest_ : tags_[youngest_].younger) = first;
  youngest_ = first;
}

void Extents::unlink_age(Page first) {
  const BoundaryTag& tag = tags_[first];
  (tag.older == kNoPage ? oldest_ : tags_[tag.older].younger) = tag.younger;
  (tag.younger == kNoPage ? youngest_ : tags_[tag.younger].older) = tag.older;
}

void Extents::insert(Page first, Page pages, ExtentState state) {
  mark(first, pages, state);
  Bins& bins = bins_of(state);
  const unsigned bin = bin_of(pages);
  tags_[first].next = bins.heads[bin];
  tags_[first].previous = kNoPage;
  if (bins.heads[bin] != kNoPage) tags_[bins.heads[bin]].previous = first;
  bins.heads[bin] = first;
  bins.occupied[bin / 64] |= 1ULL << (bin % 64);
  if (state == ExtentState::kept) {
    link_youngest(first);
    kept_ += pages;
  }
}

void Extents::erase(Page first) {
  BoundaryTag& tag = tags_[first];
  Bins& bins = bins_of(tag.state);
  const unsigned bin = bin_of(tag.pages);
  (tag.previous == kNoPage ? bins.heads[bin] : tags_[tag.previous].next) = tag.next;
  if (tag.next != kNoPage) tags_[tag.next].previous = tag.previous;
  if (bins.heads[bin] == kNoPage) bins.occupied[bin / 64] &= ~(1ULL << (bin % 64));
  if (tag.state == ExtentState::kept) {
    unlink_age(first);
    kept_ -= tag.pages;
  }
  tag.first = 0;  // the caller marks the pages again
}

// Makes these pages a free extent, merged with its neighbours of the same state. The state is kept
// (the pages have memory) or empty (they have none).
void Extents::insert_merged(Page first, Page pages, ExtentState state) {
  const Page behind = first + pages;
  if (behind < size_ && tags_[behind].state == state) {
    pages += tags_[behind].pages;
    erase(behind);
  }
  if (first > 0 && tags_[first - 1].state == state) {
    const Page previous = before(first);
    pages += first - previous;
    tags_[first].first = 0;
    first = previous;
    erase(first);
  }
  insert(first, pages, state);
}

void Extents::add(Page pages) {
  const Page first = size_;
  size_ += pages;
  insert_merged(first, pages, ExtentState::empty);
}

// Finds room for `pages` pages in the free extent that begins at page `first`. Returns the first of
// them, whose number plus `origin` is a multiple of `alignment`; kNoPage if the extent is too
// short.
Page Extents::place(Page first, Page pages, Page alignment, Page origin) const {
  const std::uint64_t mask = alignment - 1;
  const std::uint64_t start = ((std::uint64_t{first} + origin + mask) & ~mask) - origin;
  const std::uint64_t end = std::uint64_t{first} + tags_[first].pages;
  return start + pages <= end ? static_cast<Page>(start) : kNoPage;
}

Page Extents::find_in(Page head, unsigned looks, Page pages, Page alignment, Page origin) const {
  for (Page at = head; at != kNoPage && looks > 0; at = tags_[at].next, --looks) {
    if (place(at, pages, alignment, origin) != kNoPage) return at;
  }
  return kNoPage;
}

Page Extents::find(const Bins& bins, Page pages, Page alignment, Page origin) const {
  const unsigned exact = bin_of(pages);
  const Page here = find_in(bins.heads[exact], kLooks, pages, alignment, origin);
  if (here != kNoPage) return here;
  for (unsigned word = (exact + 1) / 64; word < bins.occupied.size(); ++word) {
    std::uint64_t bits = bins.occupied[word];
    if (word == (exact + 1) / 64) bits &= ~0ULL << ((exact + 1) % 64);
    for (; bits != 0; bits &= bits - 1) {
      const unsigned bin = word * 64 + static_cast<unsigned>(std::countr_zero(bits));
      const Page found = find_in(bins.heads[bin], kLooks, pages, alignment, origin);
      if (found != kNoPage) return found;
    }
  }
  return kNoPage;
}

Taken Extents::take(Page pages, Page alignment, Page origin, From from) {
  if (pages == 0 || size_ == 0) return {};
  Page found = from == From::empty ? kNoPage : find(kept_bins_, pages, alignment, origin);
  if (found == kNoPage && from == From::kept_first) {
    const Taken joined = take_joined(pages, alignment, origin);
    if (joined) return joined;
  }
  if (found == kNoPage) found = find(empty_bins_, pages, alignment, origin);
  if (found == kNoPage) return {};
  const ExtentState state = tags_[found].state;
  const Page end = found + tags_[found].pages;
  const Page start = place(found, pages, alignment, origin);
  erase(found);
  mark(start, pages, ExtentState::used);
  // The pages of the found extent before and behind the taken ones become free extents of its old
  // state. Invariant: they have no free neighbour of this state, since the found extent had none.
  if (start > found) insert(found, start - found, state);
  if (start + pages < end) insert(start + pages, end - start - pages, state);
  const bool zero = state == ExtentState::empty;
  return {start, zero, zero ? pages : 0};
}

// Takes a kept extent (free, with memory) of more than half the wanted length, joined with the
// empty extent (free, without memory) behind it. Such a pair is left where part of a large freed
// block was returned to the system.
Taken Extents::take_joined(Page pages, Page alignment, Page origin) {
  const unsigned least = bin_of(pages / 2 + 1);
  for (unsigned bin = bin_of(pages); bin + 1 > least; --bin) {
    const Page first = kept_bins_.heads[bin];
    if (first == kNoPage) continue;
    const Page behind = first + tags_[first].pages;
    if (behind >= size_ || tags_[behind].state != ExtentState::empty) continue;
    const Page end = behind + tags_[behind].pages;
    if (end - first < pages || place(first, 1, alignment, origin) != first) continue;
    erase(first);
    erase(behind);
    mark(first, pages, ExtentState::used);
    if (first + pages < behind) insert(first + pages, behind - first - pages, ExtentState::kept);
    const Page rest = std::max(behind, first + pages);
    if (rest < end) insert(rest, end - rest, ExtentState::empty);
    return {first, false, rest - behind};
  }
  return {};
}

void Extents::give(Page first) { insert_merged(first, tags_[first].pages, ExtentState::kept); }

bool Extents::resize(Page first, Page pages) {
  const Page now = tags_[first].pages;
  if (pages < now) {
    mark(first, pages, ExtentState::used);
    insert_merged(first + pages, now - pages, ExtentState::kept);
    return true;
  }
  Page behind = first + now;
  while (behind < size_ && is_free(behind) && behind - first < pages) behind += tags_[behind].pages;
  if (behind - first < pages) return false;
  ExtentState state = ExtentState::used;  // of the last extent absorbed
  for (Page at = first + now; at < behind;) {
    const Page following = at + tags_[at].pages;
    state = tags_[at].state;
    erase(at);
    at = following;
  }
  mark(first, pages, ExtentState::used);
  if (behind - first > pages) insert_merged(first + pages, behind - first - pages, state);
  return true;
}

Run Extents::leave(Page pages) {
  if (oldest_ == kNoPage || pages == 0) return {};
  const Page first = oldest_;
  const Page all = tags_[first].pages;
  const Page going = std::min(all, pages);
  erase(first);
  if (going < all) insert(first, all - going, ExtentState::kept);
  mark(first + all - going, going, ExtentState::leaving);
  return {first + all - going, going};
}

void Extents::left(Page first) { insert_merged(first, tags_[first].pages, ExtentState::empty); }

const char* Extents::check_free(Page first) const {
  const BoundaryTag& tag = tags_[first];
  const Bins& bins = tag.state == ExtentState::kept ? kept_bins_ : empty_bins_;
  const unsigned bin = bin_of(tag.pages);
  if ((bins.occupied[bin / 64] >> (bin % 64) & 1U) == 0)
    return "a bin with extents is marked empty";
  if (tag.previous == kNoPage ? bins.heads[bin] != first : tags_[tag.previous].next != first) {
    return "a free extent is not in its bin";
  }
  const Page behind = first + tag.pages;
  if (behind < size_ && tags_[behind].state == tag.state) return "two neighbours are not merged";
  return nullptr;
}

const char* Extents::check() const {
  std::uint64_t kept = 0;
  Page page = 0;
  while (page < size_) {
    const BoundaryTag& tag = tags_[page];
    if (tag.first != 1 || tag.pages == 0) return "an extent does not begin where one ended";
    if (tag.pages > size_ - page) return "an extent reaches past the end";
    const BoundaryTag& last = tags_[page + tag.pages - 1];
    if (last.pages != tag.pages || last.state != tag.state) return "the two tags differ";
    if (is_free(page)) {
      if (const char* fault = check_free(page)) return fault;
    }
    if (tag.state == ExtentState::kept) kept += tag.pages;
    page += tag.pages;
  }
  Page aged = 0;
  for (Page at = oldest_; at != kNoPage; at = tags_[at].younger) aged += tags_[at].pages;
  if (kept != kept_ || aged != kept) return "the sum of kept pages is wrong";
  return nullptr;
}

}  // namespace mh::heap
