// SPDX-License-Identifier: BSD-3-Clause
// The matching table: where a receive meets its message, whichever comes first.
//
// It has one operation, access(): if the other side is there, under the same key, it is taken out
// and returned; else the caller's own side is left there. No wildcards, so a key names one bucket
// (dissertation, section 5.2.3).
//
//   bucket   one cache line: lock, next line, three entries; one miss finds all of it
//   line     a bucket, or what is chained to one that is full
//   entry    a key and the nodes that wait under it: all of one side, since two sides never meet
//            without one of them going. First in, first out.
//
// Nodes are inside whatever waits (a packet, a posted receive), so nothing is allocated but lines
// of overfull buckets, and of these there is a limit: beyond it the caller is told to try again.
//
// Thread-safety: all calls from any thread. The lock of a bucket guards its lines and the `next` of
// every node in it; no other locks but those of the spare lines are taken under it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "base/cacheline.hpp"
#include "lci/packet_pool.hpp"
#include "manyhands/ult/sync.hpp"

namespace mh::lci {

// What waits in the table derives from it.
struct alignas(8) MatchNode {
  MatchNode* next_match = nullptr;
};

enum class Side : std::uintptr_t { receive = 0, message = 1 };

class MatchingTable {
 public:
  struct Match {
    MatchNode* partner;  // nullptr: none was there
    bool full = false;   // and there was no place for the caller's node either
  };

  // Room for about `expected` waiting keys without chains; at most `spare_lines` chained lines.
  MatchingTable(std::size_t expected, std::size_t spare_lines)
      : shift_(64U - log2_of(expected)),
        buckets_(std::size_t{1} << log2_of(expected)),
        spare_(spare_lines) {}

  // The key's first node of the other side, taken out; else `node` is left under `key`.
  Match access(std::uint64_t key, MatchNode* node, Side side) {
    Line& bucket = buckets_[index_of(key)];
    const std::lock_guard guard(bucket.lock);
    // The usual case, which needs nothing but this line.
    Entry* free = nullptr;
    for (Entry& entry : bucket.entries) {
      if (entry.word == 0) {
        free = &entry;
      } else if (entry.key == key) {
        if (entry.word == word_of(node_of(entry.word), other(side))) {
          MatchNode* partner = node_of(entry.word);
          entry.word = 0;
          return {partner};
        }
        return {meet(bucket, {nullptr, &bucket, &entry, true}, node, side)};
      }
    }
    if (bucket.next != nullptr || free == nullptr) [[unlikely]] {
      return access_chain(bucket, key, node, side);
    }
    *free = {key, word_of(node, side)};
    return {nullptr};
  }

  // Takes out a node that has not met anybody. False: it has, or it is being met.
  bool remove(std::uint64_t key, MatchNode* node) {
    Line& bucket = buckets_[index_of(key)];
    const std::lock_guard guard(bucket.lock);
    const Place place = find(bucket, key);
    return place.found && unlink(bucket, place, node);
  }

  // Takes out every node of one side whose key `wanted` accepts, and gives it to `use`, outside of
  // any lock. For rare events: it goes through the whole table.
  template <class Wanted, class Use>
  void take_all(Side side, Wanted wanted, Use use) {
    for (Line& bucket : buckets_) {
      MatchNode* taken = take_from(bucket, side, wanted);
      while (taken != nullptr) {
        MatchNode* next = taken->next_match;
        use(taken);
        taken = next;
      }
    }
  }

  // Exact while nobody else is at it; for tests.
  [[nodiscard]] std::size_t lines_in_use() const { return spare_.in_use(); }
  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }

 private:
  struct Entry {
    std::uint64_t key;
    std::uintptr_t word;  // 0: free; else the last node, its side, and whether there are several
  };
  struct alignas(kCacheLine) Line {
    ult::SpinLock lock;  // of a bucket; chained lines leave theirs alone
    Line* next = nullptr;
    Entry entries[3] = {};
  };
  static_assert(sizeof(Line) == kCacheLine);

  struct Place {
    Line* before;  // the line before `line`
    Line* line;    // of the entry; if there is none, the last
    Entry* entry;  // with the key, or the first that is free, or nullptr
    bool found;
  };

  // Chained lines that no bucket uses. Slabs are never given back before the end of the table.
  class Spare {
   public:
    explicit Spare(std::size_t limit) : limit_(limit), free_(limit, kLanes) {}
    ~Spare() {
      for (Line* slab : slabs_) delete[] slab;
    }
    Spare(const Spare&) = delete;
    Spare& operator=(const Spare&) = delete;

    Line* take() {
      Line* line = free_.take();
      if (line == nullptr) line = grow();
      if (line != nullptr) line->next = nullptr;
      return line;
    }
    void give(Line* line) { free_.give(line); }
    [[nodiscard]] std::size_t in_use() const { return made_ - free_.count(); }

   private:
    static constexpr std::size_t kSlab = 64;
    static constexpr unsigned kLanes = 16;

    Line* grow() {
      const std::lock_guard guard(lock_);
      const std::size_t count = std::min(kSlab, limit_ - made_);
      Line* slab = count == 0 ? nullptr : new (std::nothrow) Line[count];
      if (slab == nullptr) return free_.take();  // somebody may have given one
      slabs_.push_back(slab);
      made_ += count;
      for (std::size_t i = 1; i < count; ++i) free_.give(slab + i);
      return slab;
    }

    const std::size_t limit_;
    PacketPool<Line> free_;
    alignas(kCacheLine) ult::SpinLock lock_;  // of the two below
    std::size_t made_ = 0;
    std::vector<Line*> slabs_;
  };

  static constexpr std::uintptr_t kSideBit = 1;
  static constexpr std::uintptr_t kSeveral = 2;  // the nodes are a ring; else `next` says nothing
  static constexpr std::uintptr_t kBits = 7;

  // A third to two thirds full when all expected keys are there.
  static unsigned log2_of(std::size_t expected) {
    return static_cast<unsigned>(std::bit_width((expected | 2U) / 2));
  }
  // Fibonacci hashing after the upper half has been mixed into the lower one: consecutive tags and
  // consecutive ranks go to different buckets.
  [[nodiscard]] std::size_t index_of(std::uint64_t key) const {
    return ((key ^ key >> 32U) * 0x9E3779B97F4A7C15U) >> shift_;
  }
  static std::uintptr_t word_of(MatchNode* node, Side side) {
    return reinterpret_cast<std::uintptr_t>(node) | static_cast<std::uintptr_t>(side);
  }
  static MatchNode* node_of(std::uintptr_t word) {
    return reinterpret_cast<MatchNode*>(word & ~kBits);
  }
  static constexpr Side other(Side side) {
    return side == Side::receive ? Side::message : Side::receive;
  }
  static Side side_of(std::uintptr_t word) { return Side{word & kSideBit}; }

  [[gnu::noinline]] Match access_chain(Line& bucket, std::uint64_t key, MatchNode* node,
                                       Side side) {
    const Place place = find(bucket, key);
    if (place.found) return {meet(bucket, place, node, side)};
    Entry* entry = place.entry;
    if (entry == nullptr) {
      Line* more = spare_.take();
      if (more == nullptr) return {nullptr, true};
      place.line->next = more;
      entry = more->entries;
    }
    *entry = {key, word_of(node, side)};
    return {nullptr};
  }

  static Place find(Line& bucket, std::uint64_t key) {
    Place place{nullptr, &bucket, nullptr, false};
    for (Line *before = nullptr, *line = &bucket; line != nullptr;
         before = line, line = line->next) {
      for (Entry& entry : line->entries) {
        if (entry.word == 0) {
          if (place.entry == nullptr) place.entry = &entry;
        } else if (entry.key == key) {
          return {before, line, &entry, true};
        }
      }
      place.line = line;
    }
    return place;
  }

  MatchNode* meet(Line& bucket, const Place& place, MatchNode* node, Side side) {
    Entry& entry = *place.entry;
    MatchNode* last = node_of(entry.word);
    if (side_of(entry.word) == side) {
      if ((entry.word & kSeveral) == 0) last->next_match = last;
      node->next_match = last->next_match;
      last->next_match = node;
      entry.word = word_of(node, side) | kSeveral;
      return nullptr;
    }
    MatchNode* first = (entry.word & kSeveral) == 0 ? last : last->next_match;
    if (first == last) {
      clear(bucket, place);
    } else {
      last->next_match = first->next_match;
    }
    return first;
  }

  bool unlink(Line& bucket, const Place& place, MatchNode* node) {
    Entry& entry = *place.entry;
    MatchNode* last = node_of(entry.word);
    if ((entry.word & kSeveral) == 0 || last->next_match == last) {
      if (last != node) return false;
      clear(bucket, place);
      return true;
    }
    MatchNode* before = last;
    while (before->next_match != node) {
      before = before->next_match;
      if (before == last) return false;
    }
    before->next_match = node->next_match;
    if (node == last) entry.word = word_of(before, side_of(entry.word)) | kSeveral;
    return true;
  }

  // The entry becomes free; a chained line without entries goes back to the spare ones.
  void clear(Line& bucket, const Place& place) {
    place.entry->word = 0;
    if (place.line == &bucket) return;
    for (const Entry& entry : place.line->entries) {
      if (entry.word != 0) return;
    }
    place.before->next = place.line->next;
    spare_.give(place.line);
  }

  template <class Wanted>
  MatchNode* take_from(Line& bucket, Side side, Wanted wanted) {
    const std::lock_guard guard(bucket.lock);
    MatchNode* taken = nullptr;
    MatchNode** end = &taken;
    for (Line *before = nullptr, *line = &bucket; line != nullptr;) {
      Line* const next = line->next;
      bool given_back = false;
      for (Entry& entry : line->entries) {
        if (entry.word == 0 || side_of(entry.word) != side || !wanted(entry.key)) continue;
        MatchNode* last = node_of(entry.word);
        *end = (entry.word & kSeveral) == 0 ? last : last->next_match;
        last->next_match = nullptr;
        end = &last->next_match;
        clear(bucket, {before, line, &entry, true});
        given_back = before != nullptr && before->next == next;
        if (given_back) break;  // the line is another's
      }
      if (!given_back) before = line;
      line = next;
    }
    return taken;
  }

  const unsigned shift_;
  std::vector<Line> buckets_;
  Spare spare_;
};

}  // namespace mh::lci
