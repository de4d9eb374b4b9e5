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
// Where many buckets are chained, the table gets twice as many of them: under all their locks, so
// whoever has taken the lock of a bucket looks whether it is still one. Buckets that are none any
// more stay in memory, as many together as there are.
//
// Nodes are inside whatever waits (a packet, a posted receive), so nothing is allocated but lines
// of overfull buckets, and of these there is a limit: beyond it the caller is told to try again.
// There are at most twice as many buckets as spare lines.
//
// Thread-safety: all calls from any thread. The lock of a bucket guards its lines and the `next` of
// every node in it; no other locks but those of the spare lines are taken under it. Who takes them
// all holds growing_.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
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
      : most_buckets_(2 * spare_lines), spare_(spare_lines) {
    const Buckets first(new BucketLine[std::size_t{1} << log2_of(expected)],
                        64U - log2_of(expected));
    arrays_.reserve(kMostArrays);  // so that grow() throws nothing
    arrays_.emplace_back(first.lines());
    buckets_.store(first.word, std::memory_order_relaxed);
  }

  // The key's first node of the other side, taken out; else `node` is left under `key`.
  Match access(std::uint64_t key, MatchNode* node, Side side) {
    for (;;) {
      const Buckets now = current();
      BucketLine& bucket = now.of(key);
      Match match{};
      {
        const std::lock_guard guard(bucket.lock);
        if (!is_current(now)) continue;
        bool crowded = false;
        match = access_line(bucket, key, node, side, crowded);
        if (!crowded) [[likely]]
          return match;
      }
      grow(now);
      return match;
    }
  }

  // Takes out a node that has not met anybody. False: it has, or it is being met.
  bool remove(std::uint64_t key, MatchNode* node) {
    for (;;) {
      const Buckets now = current();
      BucketLine& bucket = now.of(key);
      const std::lock_guard guard(bucket.lock);
      if (!is_current(now)) continue;
      const EntryPosition place = find(bucket, key);
      return place.found && unlink(bucket, place, node);
    }
  }

  // Takes out every node of one side whose key `wanted` accepts, and gives it to `use`, outside of
  // any lock. For rare events: it goes through the whole table.
  template <class Wanted, class Use>
  void take_all(Side side, Wanted wanted, Use use) {
    const std::lock_guard guard(growing_);
    const Buckets now = current();
    for (std::size_t i = 0; i < now.count(); ++i) {
      MatchNode* taken = take_from(now.lines()[i], side, wanted);
      while (taken != nullptr) {
        MatchNode* next = taken->next_match;
        use(taken);
        taken = next;
      }
    }
  }

  // Exact while nobody else is at it; for tests.
  [[nodiscard]] std::size_t lines_in_use() const { return spare_.in_use(); }
  [[nodiscard]] std::size_t buckets() const { return current().count(); }

 private:
  struct KeyEntry {
    std::uint64_t key;
    std::uintptr_t word;  // 0: free; else the last node, its side, and whether there are several
  };
  struct alignas(kCacheLine) BucketLine {
    ult::SpinLock lock;  // of a bucket; chained lines leave theirs alone
    BucketLine* next = nullptr;
    static constexpr std::size_t kEntries = 3;
    KeyEntry entries[kEntries] = {};
  };
  static_assert(sizeof(BucketLine) == kCacheLine);

  // All of the table's own lines, in one word: their address, and below it how far a hash is
  // shifted.
  struct Buckets {
    std::uintptr_t word;
    explicit Buckets(std::uintptr_t of_both) : word(of_both) {}
    Buckets(BucketLine* lines, unsigned shift)
        : word(reinterpret_cast<std::uintptr_t>(lines) | shift) {}
    [[nodiscard]] unsigned shift() const { return static_cast<unsigned>(word % kCacheLine); }
    [[nodiscard]] std::size_t count() const { return std::size_t{1} << (64U - shift()); }
    [[nodiscard]] BucketLine* lines() const {
      return reinterpret_cast<BucketLine*>(word & ~std::uintptr_t{kCacheLine - 1});
    }
    [[nodiscard]] BucketLine& of(std::uint64_t key) const {
      return lines()[hash_of(key) >> shift()];
    }
  };
  static_assert(kCacheLine >= 64);  // a shift fits

  struct EntryPosition {
    BucketLine* before;  // the line before `line`
    BucketLine* line;    // of the entry; if there is none, the last
    KeyEntry* entry;     // with the key, or the first that is free, or nullptr
    bool found;
  };

  // Chained lines that no bucket uses. Slabs are never given back before the end of the table.
  class Spare {
   public:
    explicit Spare(std::size_t limit) : limit_(limit), free_(limit, kLanes) {}
    ~Spare() {
      for (BucketLine* slab : slabs_) delete[] slab;
    }
    Spare(const Spare&) = delete;
    Spare& operator=(const Spare&) = delete;

    BucketLine* take() {
      BucketLine* line = free_.take();
      if (line == nullptr) line = grow();
      if (line != nullptr) line->next = nullptr;
      return line;
    }
    void give(BucketLine* line) { free_.give(line); }
    // A guess while others are at it.
    [[nodiscard]] std::size_t in_use() const {
      const std::size_t free = free_.count();
      return std::max(made_.load(std::memory_order_relaxed), free) - free;
    }

   private:
    static constexpr std::size_t kSlab = 64;
    static constexpr unsigned kLanes = 16;

    BucketLine* grow() {
      const std::lock_guard guard(lock_);
      const std::size_t made = made_.load(std::memory_order_relaxed);
      const std::size_t count = std::min(kSlab, limit_ - made);
      BucketLine* slab = count == 0 ? nullptr : new (std::nothrow) BucketLine[count];
      if (slab == nullptr) return free_.take();  // somebody may have given one
      slabs_.push_back(slab);
      made_.store(made + count, std::memory_order_relaxed);
      for (std::size_t i = 1; i < count; ++i) free_.give(slab + i);
      return slab;
    }

    const std::size_t limit_;
    PacketPool<BucketLine> free_;
    alignas(kCacheLine) ult::SpinLock lock_;  // of the two below
    std::atomic<std::size_t> made_{0};        // relaxed: others only guess
    std::vector<BucketLine*> slabs_;
  };

  // It grows when a bucket gets a second chained line and there is a chained line for every fourth
  // bucket: hashed keys do that where there are 2.5 of them for each bucket.
  static constexpr std::size_t kChainedOf = 4;
  static constexpr std::size_t kMostArrays = 64;  // each has twice as many as the one before
  static constexpr std::uintptr_t kSideBit = 1;
  static constexpr std::uintptr_t kSeveral = 2;  // the nodes are a ring; else `next` says nothing
  static constexpr std::uintptr_t kBits = 7;

  // A third to two thirds full when all expected keys are there.
  static unsigned log2_of(std::size_t expected) {
    return static_cast<unsigned>(std::bit_width((expected | 2U) / 2));
  }
  // Fibonacci hashing after the upper half has been mixed into the lower one: consecutive tags and
  // consecutive ranks go to different buckets.
  static std::uint64_t hash_of(std::uint64_t key) {
    return (key ^ key >> 32U) * 0x9E3779B97F4A7C15U;
  }
  // acquire: partner is grow(), which has filled them.
  [[nodiscard]] Buckets current() const {
    return Buckets(buckets_.load(std::memory_order_acquire));
  }
  // Under a lock of theirs. relaxed: it orders this after the grow() that had it.
  [[nodiscard]] bool is_current(Buckets buckets) const {
    return buckets_.load(std::memory_order_relaxed) == buckets.word;
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

  Match access_line(BucketLine& bucket, std::uint64_t key, MatchNode* node, Side side,
                    bool& crowded) {
    // The usual case, which needs nothing but this line.
    KeyEntry* free = nullptr;
    for (KeyEntry& entry : bucket.entries) {
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
      return access_chain(bucket, free, key, node, side, crowded);
    }
    *free = {key, word_of(node, side)};
    return {nullptr};
  }

  // The key is not in the bucket's own line, where `free` is free (nullptr: none is). `crowded`: it
  // has got a second chained line.
  [[gnu::noinline]] Match access_chain(BucketLine& bucket, KeyEntry* free, std::uint64_t key,
                                       MatchNode* node, Side side, bool& crowded) {
    BucketLine* last = &bucket;
    for (BucketLine *before = &bucket, *line = bucket.next; line != nullptr; line = line->next) {
      for (KeyEntry& entry : line->entries) {
        if (entry.word == 0) {
          if (free == nullptr) free = &entry;
        } else if (entry.key == key) {
          return {meet(bucket, {before, line, &entry, true}, node, side)};
        }
      }
      before = last = line;
    }
    if (free == nullptr) {
      last->next = spare_.take();
      if (last->next == nullptr) return {nullptr, true};
      free = last->next->entries;
      crowded = last != &bucket;
    }
    *free = {key, word_of(node, side)};
    return {nullptr};
  }

  // --- growth -------------------------------------------------------------------------------

  // Twice as many as `old`, unless few of these are chained, somebody else is at it, or there is no
  // memory for it.
  void grow(Buckets old) {
    const std::size_t count = 2 * old.count();
    if (count > most_buckets_ || spare_.in_use() < old.count() / kChainedOf) return;
    if (!growing_.try_lock()) return;
    const std::lock_guard guard(growing_, std::adopt_lock);
    if (!is_current(old)) return;
    std::unique_ptr<BucketLine[]> lines(new (std::nothrow) BucketLine[count]);
    if (lines == nullptr) return;
    const Buckets next(lines.get(), old.shift() - 1);
    arrays_.push_back(std::move(lines));
    for (std::size_t i = 0; i < old.count(); ++i) old.lines()[i].lock.lock();
    for (std::size_t i = 0; i < old.count(); ++i) part(old.lines()[i], next);
    // release: partner is current().
    buckets_.store(next.word, std::memory_order_release);
    for (std::size_t i = 0; i < old.count(); ++i) old.lines()[i].lock.unlock();
  }

  // The entries of a bucket go to the two that take its place. Its chained lines suffice for them:
  // when k of them have been emptied, no more than 3 (k + 1) entries have been placed.
  void part(BucketLine& bucket, Buckets next) {
    BucketLine* line = std::exchange(bucket.next, nullptr);
    BucketLine* free = nullptr;
    for (const KeyEntry& entry : bucket.entries) place(entry, next, free);
    while (line != nullptr) {
      BucketLine* const after = line->next;
      KeyEntry moved[BucketLine::kEntries] = {};
      std::copy(std::begin(line->entries), std::end(line->entries), moved);
      std::fill(std::begin(line->entries), std::end(line->entries), KeyEntry{});
      line->next = free;
      free = line;
      line = after;
      for (const KeyEntry& entry : moved) place(entry, next, free);
    }
    while (free != nullptr) spare_.give(std::exchange(free, free->next));
  }

  static void place(const KeyEntry& entry, Buckets next, BucketLine*& free) {
    if (entry.word == 0) return;
    for (BucketLine* line = &next.of(entry.key);; line = line->next) {
      for (KeyEntry& there : line->entries) {
        if (there.word != 0) continue;
        there = entry;
        return;
      }
      if (line->next != nullptr) continue;
      line->next = free;
      free = std::exchange(free->next, nullptr);
    }
  }

  static EntryPosition find(BucketLine& bucket, std::uint64_t key) {
    EntryPosition place{nullptr, &bucket, nullptr, false};
    for (BucketLine *before = nullptr, *line = &bucket; line != nullptr;
         before = line, line = line->next) {
      for (KeyEntry& entry : line->entries) {
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

  MatchNode* meet(BucketLine& bucket, const EntryPosition& place, MatchNode* node, Side side) {
    KeyEntry& entry = *place.entry;
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

  bool unlink(BucketLine& bucket, const EntryPosition& place, MatchNode* node) {
    KeyEntry& entry = *place.entry;
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
  void clear(BucketLine& bucket, const EntryPosition& place) {
    place.entry->word = 0;
    if (place.line == &bucket) return;
    for (const KeyEntry& entry : place.line->entries) {
      if (entry.word != 0) return;
    }
    place.before->next = place.line->next;
    spare_.give(place.line);
  }

  template <class Wanted>
  MatchNode* take_from(BucketLine& bucket, Side side, Wanted wanted) {
    const std::lock_guard guard(bucket.lock);
    MatchNode* taken = nullptr;
    MatchNode** end = &taken;
    for (BucketLine *before = nullptr, *line = &bucket; line != nullptr;) {
      BucketLine* const next = line->next;
      bool given_back = false;
      for (KeyEntry& entry : line->entries) {
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

  const std::size_t most_buckets_;
  // Of access() and grow(). Only ever written by who has growing_.
  std::atomic<std::uintptr_t> buckets_{0};
  Spare spare_;
  alignas(kCacheLine) ult::SpinLock growing_;          // of the array below
  std::vector<std::unique_ptr<BucketLine[]>> arrays_;  // the last is current
};

}  // namespace mh::lci
