// SPDX-License-Identifier: BSD-3-Clause
// Sets of slots, one bit each: how a worker keeps what may be run, and which slots are free.
//
// A set has *leaf* words of 64 bits and, above them, hints: bit i of a hint says that word i below
// may have a bit. Up to 4096 slots need one level of hints, the *root* word; up to 256 K need two,
// the root over 64 hint words. A search is one load and one bit scan for each level.
//
//   root        [1 1 0 ... ]             one word
//   hint words  [0 1 .. ] [1 0 .. ]      64 words, in sets of two levels only
//   leaf words  [....][.1..]  [1...]     up to 4096 words
//
// There are two kinds. An OwnBits is written by one thread, with plain stores, and read by all. A
// SharedBits is set by any thread with one atomic or.
//
// SharedBits, order of writing. set(): leaf first, then its hint, then the root. A hint is cleared
// by the owner of the set alone, who then looks at the word below again and sets the hint again if
// that word has a bit. All of these are sequentially consistent, so of a setter (writes the leaf,
// then reads the hint) and a clearer (writes the hint, then reads the leaf) one sees the other:
//
//   at rest, a word that is not empty has its hint set.
//
// (The order printed in the dissertation on FULT, hint first when setting and leaf first when
// clearing, loses a bit: set hint; owner reads an empty leaf; owner clears hint; set leaf. The
// tests show both.) A bit that is set is a hint as well: whether its task may run is for its state
// alone.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

namespace mh::ult {

inline constexpr std::uint32_t kNoSlot = ~0U;
inline constexpr std::uint32_t kWordBits = 64;
inline constexpr std::uint32_t kOneLevelSlots = kWordBits * kWordBits;
inline constexpr std::uint32_t kMaxSlots = kOneLevelSlots * kWordBits;

// Where the words of a set lie in one block of memory: the root, the hint words if there are two
// levels of them, the leaf words. In a small set the first leaf words share the root's cache line.
struct Shape {
  std::uint32_t slots = 0;  // a multiple of 64

  [[nodiscard]] constexpr bool two_levels() const { return slots > kOneLevelSlots; }
  [[nodiscard]] constexpr std::uint32_t leaves() const { return slots / kWordBits; }
  [[nodiscard]] constexpr std::uint32_t first_leaf() const {
    return two_levels() ? 1 + kWordBits : 1;
  }
  [[nodiscard]] constexpr std::uint32_t words() const { return first_leaf() + leaves(); }
};

constexpr std::uint64_t bit(std::uint32_t i) { return std::uint64_t{1} << (i % kWordBits); }
// Bits i, i + 1, ... of a word; none for i = 64.
constexpr std::uint64_t from_bit(std::uint32_t i) {
  return i < kWordBits ? ~std::uint64_t{0} << i : 0;
}
inline std::uint32_t lowest(std::uint64_t word) {
  return static_cast<std::uint32_t>(std::countr_zero(word));
}
inline std::uint32_t highest(std::uint64_t word) {
  return kWordBits - 1 - static_cast<std::uint32_t>(std::countl_zero(word));
}

// Reading, the same for both kinds.
template <class A>
class BitSet {
 public:
  using Word = typename A::template Atomic<std::uint64_t>;

  // `words` has shape.words() words of zeros and outlives this.
  BitSet(Shape shape, Word* words)
      : shape_(shape), root_(words), hints_(words + 1), leaves_(words + shape.first_leaf()) {}

  // True if there may be a bit.
  [[nodiscard]] bool may_have() const { return root_->load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool has(std::uint32_t slot) const {
    return (leaf_word(slot / kWordBits) & bit(slot)) != 0;
  }
  // acquire: partner is the release in set(), so that whoever finds the bit sees the task.
  [[nodiscard]] std::uint64_t leaf_word(std::uint32_t leaf) const {
    return leaves_[leaf].load(std::memory_order_acquire);
  }
  // The first slot from `start` on that has a bit, not wrapping around; kNoSlot.
  [[nodiscard]] std::uint32_t first_from(std::uint32_t start) const {
    std::uint32_t leaf = start / kWordBits;
    if (start >= shape_.slots) return kNoSlot;
    std::uint64_t word = leaf_word(leaf) & from_bit(start % kWordBits);
    while (word == 0) {
      leaf = next_leaf(leaf + 1);
      if (leaf == kNoSlot) return kNoSlot;
      word = leaf_word(leaf);
    }
    return leaf * kWordBits + lowest(word);
  }
  // The same, and from 0 on if there is none.
  [[nodiscard]] std::uint32_t next_from(std::uint32_t start) const {
    const std::uint32_t slot = first_from(start);
    return slot != kNoSlot || start == 0 ? slot : first_from(0);
  }
  [[nodiscard]] Shape shape() const { return shape_; }

 protected:
  // The first leaf from `leaf` on whose hint is set; kNoSlot.
  [[nodiscard]] std::uint32_t next_leaf(std::uint32_t leaf) const {
    if (leaf >= shape_.leaves()) return kNoSlot;
    if (!shape_.two_levels()) {
      const std::uint64_t root = load_hint(*root_) & from_bit(leaf);
      return root == 0 ? kNoSlot : lowest(root);
    }
    std::uint32_t group = leaf / kWordBits;
    std::uint64_t hint = load_hint(hints_[group]) & from_bit(leaf % kWordBits);
    while (hint == 0) {
      const std::uint64_t root = load_hint(*root_) & from_bit(group + 1);
      if (root == 0) return kNoSlot;
      group = lowest(root);
      hint = load_hint(hints_[group]);
    }
    return group * kWordBits + lowest(hint);
  }
  // seq_cst: partner is the other side's write of the leaf (SharedBits, see above).
  static std::uint64_t load_hint(const Word& word) { return word.load(std::memory_order_seq_cst); }

  Shape shape_;
  Word* root_;
  Word* hints_;
  Word* leaves_;
};

// Written by one thread, its owner, with plain stores. Other readers may find bits that are gone,
// and miss the newest ones unless a fence stands between (doorbell.hpp). A hint stays when the last
// bit below it goes; the owner lowers it when a search finds nothing there.
template <class A>
class OwnBits : public BitSet<A> {
  using Base = BitSet<A>;
  using Word = typename Base::Word;

 public:
  using Base::Base;

  void set(std::uint32_t slot) {
    const std::uint32_t leaf = slot / kWordBits;
    Word& word = this->leaves_[leaf];
    // release: a thief that finds the bit reads the slot's record next.
    word.store(own(word) | bit(slot), std::memory_order_release);
    raise_hints(leaf);
  }

  void clear(std::uint32_t slot) {
    Word& word = this->leaves_[slot / kWordBits];
    word.store(own(word) & ~bit(slot), std::memory_order_relaxed);
  }

  // A whole word at a time.
  void set_word(std::uint32_t leaf, std::uint64_t word) {
    this->leaves_[leaf].store(word, std::memory_order_release);
    raise_hints(leaf);
  }

  // Owner: the first slot from `start` on, around the end, that has a bit; kNoSlot.
  std::uint32_t find(std::uint32_t start) {
    const std::uint32_t leaf = start / kWordBits;
    if (!this->shape_.two_levels() && own(*this->root_) == bit(leaf) &&
        start < this->shape_.slots) {
      // Few tasks: all of them in one word.
      const std::uint64_t word = own(this->leaves_[leaf]);
      if (word == 0) {
        lower_hints(leaf);
        return kNoSlot;
      }
      const std::uint64_t later = word & from_bit(start % kWordBits);
      return leaf * kWordBits + lowest(later != 0 ? later : word);
    }
    const std::uint32_t slot = find_up_from(start);
    return slot != kNoSlot || start == 0 ? slot : find_up_from(0);
  }

  // Owner: the last slot that has a bit; kNoSlot.
  std::uint32_t find_last() {
    while (const std::uint64_t root = own(*this->root_)) {
      std::uint32_t leaf = highest(root);
      if (this->shape_.two_levels()) leaf = leaf * kWordBits + highest(own(this->hints_[leaf]));
      const std::uint64_t word = own(this->leaves_[leaf]);
      if (word != 0) return leaf * kWordBits + highest(word);
      lower_hints(leaf);
    }
    return kNoSlot;
  }

 private:
  // relaxed: this thread alone writes.
  static std::uint64_t own(const Word& word) { return word.load(std::memory_order_relaxed); }

  std::uint32_t find_up_from(std::uint32_t start) {
    std::uint32_t leaf = this->next_leaf(start / kWordBits);
    std::uint64_t mask =
        leaf == start / kWordBits ? from_bit(start % kWordBits) : ~std::uint64_t{0};
    while (leaf != kNoSlot) {
      const std::uint64_t word = own(this->leaves_[leaf]);
      if ((word & mask) != 0) return leaf * kWordBits + lowest(word & mask);
      if (word == 0) lower_hints(leaf);
      leaf = this->next_leaf(leaf + 1);
      mask = ~std::uint64_t{0};
    }
    return kNoSlot;
  }

  void raise_hints(std::uint32_t leaf) {
    if (this->shape_.two_levels()) {
      raise(this->hints_[leaf / kWordBits], bit(leaf));
      leaf /= kWordBits;
    }
    raise(*this->root_, bit(leaf));
  }
  void lower_hints(std::uint32_t leaf) {
    if (this->shape_.two_levels()) {
      Word& hint = this->hints_[leaf / kWordBits];
      lower(hint, bit(leaf));
      if (own(hint) != 0) return;
      leaf /= kWordBits;
    }
    lower(*this->root_, bit(leaf));
  }
  // release: the leaf before its hint.
  static void raise(Word& word, std::uint64_t mask) {
    const std::uint64_t now = own(word);
    if ((now & mask) == 0) word.store(now | mask, std::memory_order_release);
  }
  static void lower(Word& word, std::uint64_t mask) {
    word.store(own(word) & ~mask, std::memory_order_relaxed);
  }
};

// Set by any thread, taken by any thread; hints are cleared by the owner alone.
template <class A>
class SharedBits : public BitSet<A> {
  using Base = BitSet<A>;
  using Word = typename Base::Word;

 public:
  using Base::Base;

  // Any thread. One atomic or, as long as the hints are still set.
  void set(std::uint32_t slot) {
    const std::uint32_t leaf = slot / kWordBits;
    this->leaves_[leaf].fetch_or(bit(slot), std::memory_order_seq_cst);
    if (this->shape_.two_levels()) {
      raise(this->hints_[leaf / kWordBits], bit(leaf));
      raise(*this->root_, bit(leaf / kWordBits));
    } else {
      raise(*this->root_, bit(leaf));
    }
  }

  // Any thread. True for one of those that take the bit after it was set. The release half keeps
  // the chain of setters whole; the acquire half sees what all of them wrote before they set it.
  bool take(std::uint32_t slot) {
    Word& leaf = this->leaves_[slot / kWordBits];
    return (leaf.fetch_and(~bit(slot), std::memory_order_seq_cst) & bit(slot)) != 0;
  }

  // Any thread. All bits of a word.
  std::uint64_t take_word(std::uint32_t leaf) {
    return this->leaves_[leaf].exchange(0, std::memory_order_seq_cst);
  }

  // Owner: the first slot from `start` on, around the end, that has a bit; kNoSlot. Clears the
  // hints that it finds to be stale.
  std::uint32_t find(std::uint32_t start) {
    const std::uint32_t slot = this->next_from(start);
    if (slot == kNoSlot) tidy();
    return slot;
  }

 private:
  static void raise(Word& word, std::uint64_t mask) {
    if ((Base::load_hint(word) & mask) == 0) word.fetch_or(mask, std::memory_order_seq_cst);
  }

  // Lowers the hint for a word that is empty, and looks at that word again.
  static void settle(Word& hint, std::uint64_t mask, const Word& below) {
    if (Base::load_hint(below) != 0) return;
    hint.fetch_and(~mask, std::memory_order_seq_cst);
    if (Base::load_hint(below) != 0) hint.fetch_or(mask, std::memory_order_seq_cst);
  }
  void tidy() {
    for (std::uint64_t root = Base::load_hint(*this->root_); root != 0; root &= root - 1) {
      const std::uint32_t group = lowest(root);
      if (!this->shape_.two_levels()) {
        settle(*this->root_, bit(group), this->leaves_[group]);
        continue;
      }
      Word& hints = this->hints_[group];
      for (std::uint64_t hint = Base::load_hint(hints); hint != 0; hint &= hint - 1) {
        const std::uint32_t leaf = group * kWordBits + lowest(hint);
        settle(hints, bit(leaf), this->leaves_[leaf]);
      }
      settle(*this->root_, bit(group), hints);
    }
  }
};

}  // namespace mh::ult
