// SPDX-License-Identifier: BSD-3-Clause
// The matching table: matches receives with messages, in either order of arrival.
//
// The main operation is access(). The call gets a node (a receive or a message that waits). It
// removes and returns a node of the other side under the same key; without such a node it adds the
// caller's node. There are no wildcards, so a key belongs to one bucket (section 5.2.3 of the
// dissertation that lci.hpp names).
//
//   bucket   one cache line: lock, next line, three entries; one miss loads all of them
//   line     a bucket, or a chained line of a full bucket
//   entry    a key and the nodes that wait under the key, first in, first out: all of one side,
//            since a node of the other side would have been matched
//
// The table doubles its buckets when many lines are chained, and holds the locks of all buckets
// meanwhile. A thread that has locked a bucket therefore checks that the bucket is current. Old
// buckets stay in memory; together they are fewer than the current buckets.
//
// A node is part of the object that waits (a packet, a posted receive). The table therefore
// allocates lines only, and the chained lines have a limit: beyond the limit access() answers
// `full`. The table grows to at most twice as many buckets as that limit.
//
// Thread-safety: all calls from any thread. The lock of a bucket guards its lines and the
// `next_match` of every node in them. A thread with this lock takes only the locks of the spare
// lines. The exception is grow(), which holds growing_ and then takes the locks of all buckets.
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

// The base of every object that waits in the table: a packet whose message has no receive yet, or a
// posted receive.
struct alignas(8) MatchNode {
  MatchNode* next_match = nullptr;
};

enum class Side : std::uintptr_t { receive = 0, message = 1 };

class MatchingTable {
 public:
  struct Match {
    MatchNode* partner;  // nullptr: no match
    bool full = false;   // no match, and no room for the caller's node
  };

  // Makes a table in which about `expected` keys can wait without lines chained to full buckets. At
  // most `spare_lines` lines are chained at a time.
  MatchingTable(std::size_t expected, std::size_t spare_lines)
      : most_buckets_(2 * spare_lines), spare_(spare_lines) {
    const Buckets first(new BucketLine[std::size_t{1} << log2_of(expected)],
                        64U - log2_of(expected));
    arrays_.reserve(kMostArrays);  // so that grow() throws nothing
    arrays_.emplace_back(first.lines());
    buckets_.store(first.word, std::memory_order_relaxed);
  }

  // Removes and returns the first node of the other side under `key`, or else adds `node`. The two
  // sides are receives and messages.
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

  // Removes a waiting receive or message (`node`) that is still unmatched. False: another thread
  // has matched `node`, or is doing so.
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

  // Removes every node of one side (receives or messages) whose key `wanted` accepts, and passes
  // the node to `use`, with no bucket locked. For rare events such as the death of a peer: the call
  // scans the whole table.
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

  // The number of lines that are chained to full buckets, for tests: exact while no other thread
  // uses the table.
  [[nodiscard]] std::size_t lines_in_use() const { return spare_.in_use(); }
  [[nodiscard]] std::size_t buckets() const { return current().count(); }

 private:
  struct KeyEntry {
    std::uint64_t key;
    std::uintptr_t word;  // 0: free; else the last node, with kSideBit and kSeveral
  };
  struct alignas(kCacheLine) BucketLine {
    ult::SpinLock lock;  // used in buckets only
    BucketLine* next = nullptr;
    static constexpr std::size_t kEntries = 3;
    KeyEntry entries[kEntries] = {};
  };
  static_assert(sizeof(BucketLine) == kCacheLine);

  // The current array of buckets in one word: the address, and in its low bits the shift that turns
  // a hash into an index.
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
  static_assert(kCacheLine >= 64);  // the shift fits

  struct EntryPosition {
    BucketLine* before;  // the line before `line`
    BucketLine* line;    // the line of `entry`; without an entry the last line
    KeyEntry* entry;     // the key's entry, or the first free entry, or nullptr
    bool found;
  };

  // The spare lines: lines that a full bucket can chain and that no bucket uses. Lines are
  // allocated in slabs, which the destructor frees.
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
    // The number of lines that buckets have chained; a guess while other threads take or give
    // lines.
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
      if (slab == nullptr) return free_.take();  // another thread may have given a line
      slabs_.push_back(slab);
      made_.store(made + count, std::memory_order_relaxed);
      for (std::size_t i = 1; i < count; ++i) free_.give(slab + i);
      return slab;
    }

    const std::size_t limit_;
    PacketPool<BucketLine> free_;
    alignas(kCacheLine) ult::SpinLock lock_;  // guards `made_` and `slabs_`
    std::atomic<std::size_t> made_{0};        // relaxed: in_use() is a guess
    std::vector<BucketLine*> slabs_;
  };

  // The table grows when a bucket gets a second chained line, but only while there is a chained
  // line for every fourth bucket. Hashed keys reach that point at 2.5 keys for each bucket.
  static constexpr std::size_t kChainedOf = 4;
  static constexpr std::size_t kMostArrays = 64;  // each is twice as large as the previous array
  static constexpr std::uintptr_t kSideBit = 1;
  static constexpr std::uintptr_t kSeveral = 2;  // the nodes form a ring; else next_match is unset
  static constexpr std::uintptr_t kBits = 7;

  // Returns the logarithm of the number of buckets at the start. When all expected keys wait, a
  // third to two thirds of the entries are in use.
  static unsigned log2_of(std::size_t expected) {
    return static_cast<unsigned>(std::bit_width((expected | 2U) / 2));
  }
  // Returns a hash of the key, by Fibonacci hashing after the upper half has been mixed into the
  // lower one: consecutive tags and consecutive ranks go to different buckets.
  static std::uint64_t hash_of(std::uint64_t key) {
    return (key ^ key >> 32U) * 0x9E3779B97F4A7C15U;
  }
  // Returns the current array of buckets. acquire: partner is the release in grow(), which has
  // filled the buckets.
  [[nodiscard]] Buckets current() const {
    return Buckets(buckets_.load(std::memory_order_acquire));
  }
  // The caller holds the lock of a bucket of `buckets`. relaxed: grow() takes the locks of all
  // buckets before it replaces the array, so the caller's lock orders this load.
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
    // In the usual case the key, or else a free entry, is in the bucket's own line, and no chained
    // line is read.
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

  // Continues access() in the chained lines, when the key is not in the bucket's own line. `free`:
  // a free entry of that line, or nullptr. Sets `crowded` if the bucket gets a second chained line;
  // the caller then calls grow().
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

  // --- growth of the bucket array -------------------------------------------------------------

  // Replaces the bucket array `old` by an array twice as large. Does nothing if few lines are
  // chained, if the table would exceed most_buckets_, while another thread grows or scans the
  // table, or without memory.
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
    // release: partner is the acquire in current(). A thread that sees the new array sees its
    // entries.
    buckets_.store(next.word, std::memory_order_release);
    for (std::size_t i = 0; i < old.count(); ++i) old.lines()[i].lock.unlock();
  }

  // Moves the entries of a bucket to its two successors in the new array `next`. The chained lines
  // of the bucket suffice for both: when k chained lines are empty, at most 3 (k + 1) entries have
  // been moved.
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

  // Puts an entry into its bucket of the new array `next`. If that bucket is full, chains a line of
  // the list `free`.
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

  // The entry at `place` has the node's key. Removes and returns the first waiting node of the
  // other side (receives or messages). Without one, appends `node` to the waiting nodes of its own
  // side and returns nullptr.
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

  // Removes `node` from the nodes of the entry at `place`. False: the entry does not have the node.
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

  // Frees the entry at `place`. A chained line that then has no entries becomes a spare line.
  void clear(BucketLine& bucket, const EntryPosition& place) {
    place.entry->word = 0;
    if (place.line == &bucket) return;
    for (const KeyEntry& entry : place.line->entries) {
      if (entry.word != 0) return;
    }
    place.before->next = place.line->next;
    spare_.give(place.line);
  }

  // Removes from one bucket the nodes that take_all() wants, and links them by next_match. Returns
  // the first.
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
        if (given_back) break;  // another bucket may use the line now
      }
      if (!given_back) before = line;
      line = next;
    }
    return taken;
  }

  const std::size_t most_buckets_;
  // The address and the shift of the current bucket array (Buckets). release: grow(), which holds
  // growing_; acquire: current().
  std::atomic<std::uintptr_t> buckets_{0};
  Spare spare_;
  alignas(kCacheLine) ult::SpinLock growing_;          // guards `arrays_`; held by grow()
  std::vector<std::unique_ptr<BucketLine[]>> arrays_;  // the last array is current
};

}  // namespace mh::lci
