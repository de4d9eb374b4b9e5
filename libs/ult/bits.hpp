// SPDX-License-Identifier: BSD-3-Clause
// Sets of task slots (numbers below a worker's limit of tasks), one bit for each slot. A worker
// keeps its ready tasks and its free slots in such sets.
//
// A set has *leaf* words of 64 bits. Above the leaf words lie hint words: bit i of a hint word says
// that word i below may have a bit. Up to 4096 slots need one level of hints, the *root* word. Up
// to 256 K slots need two levels: the root over 64 hint words. A search costs one load and one bit
// scan for each level.
//
//   root        [1 1 0 ... ]             one word
//   hint words  [0 1 .. ] [1 0 .. ]      64 words, in sets of two levels only
//   leaf words  [....][.1..]  [1...]     up to 4096 words
//
// There are two kinds of sets. In an OwnBits one thread writes with plain stores, and all threads
// read. In a SharedBits any thread sets a bit with one atomic OR.
//
// The order of writes in a SharedBits: set() writes the leaf first, then the hint, then the root.
// Only the owner of the set clears a hint. Afterwards the owner reads the word below again, and
// sets the hint again if that word has a bit. All these accesses are sequentially consistent. A
// setter writes the leaf and then reads the hint; the owner writes the hint and then reads the
// leaf. At least one of the two therefore sees the write of the other:
//
//   at rest, a word that is not empty has its hint set.
//
// The dissertation that these sets follow (FULT, docs/light-tasks.md) prints another order: hint
// first when setting, leaf first when clearing. That order loses a bit: a thread sets the hint; the
// owner reads an empty leaf; the owner clears the hint; the thread sets the leaf. The tests show
// both orders.
//
// A set bit is a hint, too: the state of the task decides whether a worker may run it (state.hpp).
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

namespace mh::ult {

inline constexpr std::uint32_t kNoSlot = ~0U;
inline constexpr std::uint32_t kWordBits = 64;
inline constexpr std::uint32_t kOneLevelSlots = kWordBits * kWordBits;
inline constexpr std::uint32_t kMaxSlots = kOneLevelSlots * kWordBits;

// The places of a set's words in one block of memory, in this order: the root, the 64 hint words of
// a set with two levels, the leaf words. In a small set the first leaf words share the root's cache
// line.
struct BitSetShape {
  std::uint32_t slots = 0;  // a multiple of 64

  [[nodiscard]] constexpr bool two_levels() const { return slots > kOneLevelSlots; }
  [[nodiscard]] constexpr std::uint32_t leaves() const { return slots / kWordBits; }
  [[nodiscard]] constexpr std::uint32_t first_leaf() const {
    return two_levels() ? 1 + kWordBits : 1;
  }
  [[nodiscard]] constexpr std::uint32_t words() const { return first_leaf() + leaves(); }
};

constexpr std::uint64_t bit(std::uint32_t i) { return std::uint64_t{1} << (i % kWordBits); }
// Returns a mask of the bits i, i + 1, ..., 63 of a word; 0 for i = 64.
constexpr std::uint64_t from_bit(std::uint32_t i) {
  return i < kWordBits ? ~std::uint64_t{0} << i : 0;
}
inline std::uint32_t lowest(std::uint64_t word) {
  return static_cast<std::uint32_t>(std::countr_zero(word));
}
inline std::uint32_t highest(std::uint64_t word) {
  return kWordBits - 1 - static_cast<std::uint32_t>(std::countl_zero(word));
}

// The read operations on a set of slots, for OwnBits and SharedBits. `A` is the policy that gives
// the atomics.
template <class A>
class BitSet {
 public:
  using Word = typename A::template Atomic<std::uint64_t>;

  // `words` points to shape.words() words with the value 0, which must outlive the set.
  BitSet(BitSetShape shape, Word* words)
      : shape_(shape), root_(words), hints_(words + 1), leaves_(words + shape.first_leaf()) {}

  // False: the set is empty, or its newest bits are not visible yet. True: the set may have a bit.
  // relaxed: a hint before a search.
  [[nodiscard]] bool may_have() const { return root_->load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool has(std::uint32_t slot) const {
    return (leaf_word(slot / kWordBits) & bit(slot)) != 0;
  }
  // acquire: pairs with the release in set(). A thread that finds a task's bit sees the task's
  // record.
  [[nodiscard]] std::uint64_t leaf_word(std::uint32_t leaf) const {
    return leaves_[leaf].load(std::memory_order_acquire);
  }
  // Returns the first slot from `start` on that has a bit, or kNoSlot. Does not wrap around.
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
  // Returns the first slot from `start` on that has a bit, or kNoSlot. Wraps around to slot 0.
  [[nodiscard]] std::uint32_t next_from(std::uint32_t start) const {
    const std::uint32_t slot = first_from(start);
    return slot != kNoSlot || start == 0 ? slot : first_from(0);
  }
  [[nodiscard]] BitSetShape shape() const { return shape_; }

 protected:
  // Returns the first leaf word from `leaf` on whose hint is set (which may have a bit), or
  // kNoSlot.
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
  // seq_cst: pairs with the writes of leaf and hint words in SharedBits (see the head of this
  // file).
  static std::uint64_t load_hint(const Word& word) { return word.load(std::memory_order_seq_cst); }

  BitSetShape shape_;
  Word* root_;
  Word* hints_;
  Word* leaves_;
};

// A set of slots that one thread, its owner, writes with plain stores. Other threads may find a bit
// that the owner has cleared. They may miss the newest bits unless a fence orders the accesses
// (doorbell.hpp). clear() leaves the hint set; the owner clears the hint when a search finds the
// word empty.
template <class A>
class OwnBits : public BitSet<A> {
  using Base = BitSet<A>;
  using Word = typename Base::Word;

 public:
  using Base::Base;

  void set(std::uint32_t slot) {
    const std::uint32_t leaf = slot / kWordBits;
    Word& word = this->leaves_[leaf];
    // release: pairs with the acquire in leaf_word(). A thief that finds the bit reads the slot's
    // task record next.
    word.store(own(word) | bit(slot), std::memory_order_release);
    raise_hints(leaf);
  }

  void clear(std::uint32_t slot) {
    Word& word = this->leaves_[slot / kWordBits];
    word.store(own(word) & ~bit(slot), std::memory_order_relaxed);
  }

  // Writes all 64 bits of a leaf word at once, and sets its hints. Only the owner may call this.
  void set_word(std::uint32_t leaf, std::uint64_t word) {
    this->leaves_[leaf].store(word, std::memory_order_release);  // as in set()
    raise_hints(leaf);
  }

  // Only the owner may call this. Returns the first slot from `start` on that has a bit, or
  // kNoSlot. Wraps around to slot 0.
  std::uint32_t find(std::uint32_t start) {
    const std::uint32_t leaf = start / kWordBits;
    if (!this->shape_.two_levels() && own(*this->root_) == bit(leaf) &&
        start < this->shape_.slots) {
      // The fast path: the root says that all bits of the set lie in the leaf word of `start`.
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

  // Only the owner may call this. Returns the last slot that has a bit, or kNoSlot.
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
  // The owner's read of a word of its set. relaxed: only the calling thread writes the word.
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
  // Sets a bit in a hint word. release: a reader that sees the hint sees the leaf word below it.
  static void raise(Word& word, std::uint64_t mask) {
    const std::uint64_t now = own(word);
    if ((now & mask) == 0) word.store(now | mask, std::memory_order_release);
  }
  static void lower(Word& word, std::uint64_t mask) {
    word.store(own(word) & ~mask, std::memory_order_relaxed);
  }
};

// A set of slots in which any thread sets and takes bits. Only the owner, a worker, clears hints.
template <class A>
class SharedBits : public BitSet<A> {
  using Base = BitSet<A>;
  using Word = typename Base::Word;

 public:
  using Base::Base;

  // Any thread may call this. Costs one atomic OR while the slot's hints are set already.
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

  // Any thread may call this. Clears the bit. Of the callers that take a bit after set(), one gets
  // true. The acquire half pairs with set(): the taker sees what all setters wrote before. The
  // release half passes their writes on to the next taker.
  bool take(std::uint32_t slot) {
    Word& leaf = this->leaves_[slot / kWordBits];
    return (leaf.fetch_and(~bit(slot), std::memory_order_seq_cst) & bit(slot)) != 0;
  }

  // Any thread may call this. Clears all 64 bits of a leaf word and returns those that were set.
  std::uint64_t take_word(std::uint32_t leaf) {
    return this->leaves_[leaf].exchange(0, std::memory_order_seq_cst);
  }

  // Only the owner may call this. Returns the first slot from `start` on that has a bit, or
  // kNoSlot. Wraps around to slot 0. Clears stale hints when there is no bit.
  std::uint32_t find(std::uint32_t start) {
    const std::uint32_t slot = this->next_from(start);
    if (slot == kNoSlot) tidy();
    return slot;
  }

 private:
  static void raise(Word& word, std::uint64_t mask) {
    if ((Base::load_hint(word) & mask) == 0) word.fetch_or(mask, std::memory_order_seq_cst);
  }

  // Clears the hint of the word `below` if that word is empty. Then reads `below` again, because
  // another thread may have set a bit meanwhile, and restores the hint if so.
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
