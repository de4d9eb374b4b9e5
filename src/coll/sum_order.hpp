// SPDX-License-Identifier: BSD-3-Clause
// The order in which an MPI library combines the data of many ranks, and the ranks' knowledge of
// that order.
//
// A floating-point sum of three or more ranks depends on the order. *Doubling* is the order of
// recursive doubling, which MPICH and Open MPI use for short data. With n the greatest power of two
// that is at most the number of ranks, the first 2(ranks - n) ranks are combined in pairs. The n
// results are combined as a balanced tree.
//
// Threads: one at a time for each object. Limit: kMostRanks ranks.
//
// Source: Thakur, Rabenseifner and Gropp, IJHPCA 2005, section 4.5 (recursive doubling). Xie et
// al., FPRev, 2024, reveal an unknown order by its rounding; Manyhands only tests, by random data,
// whether the order is doubling.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mh::coll {

// Combines the elements of all ranks of a reduction in the order of recursive doubling, kPiece
// bytes at a time.
class DoublingOrder {
 public:
  static constexpr std::uint32_t kMostRanks = 1024;  // node::kMaxRanks
  static constexpr std::size_t kPiece = 1024;        // bytes that are combined at a time

  explicit DoublingOrder(std::uint32_t ranks)
      : nodes_(std::bit_floor(ranks)), paired_(ranks - nodes_) {}

  // Combines `elements` elements of `width` bytes of every rank into `to`, which may be the memory
  // of a rank's elements. `kernel(target, origin, elements)` combines `origin` into `target`.
  // `bytes_of(rank, at, bytes)` points to `bytes` bytes of a rank's elements from byte `at` on; the
  // pointer is valid until the next call of bytes_of().
  template <class Kernel, class BytesOf>
  void combine(std::byte* to, std::uint64_t elements, std::size_t width, Kernel&& kernel,
               BytesOf&& bytes_of) {
    const std::uint64_t step = kPiece / width;
    for (std::uint64_t at = 0; at < elements; at += step) {
      const std::uint64_t count = std::min(step, elements - at);
      const auto piece_of = [&](std::uint32_t rank) {
        return bytes_of(rank, at * width, count * width);
      };
      const auto add = [&](std::byte* target, const std::byte* origin) {
        kernel(target, origin, count);
      };
      write(0, nodes_, 0, count * width, add, piece_of);
      std::memcpy(to + at * width, parts_[0].data(), count * width);
    }
  }

 private:
  [[nodiscard]] std::uint32_t first_rank(std::uint32_t node) const {
    return node < paired_ ? 2 * node : node + paired_;
  }

  // Combines a piece of the `count` tree nodes from tree node `first` on into parts_[depth], as a
  // balanced tree. A tree node of the lowest level is one rank, or a pair of ranks.
  template <class Add, class PieceOf>
  void write(std::uint32_t first, std::uint32_t count, std::size_t depth, std::size_t bytes,
             const Add& add, const PieceOf& piece_of) {
    std::byte* const part = parts_[depth].data();
    if (count == 1) {
      std::memcpy(part, piece_of(first_rank(first)), bytes);
      if (first < paired_) add(part, piece_of(first_rank(first) + 1));
      return;
    }
    write(first, count / 2, depth, bytes, add, piece_of);
    write(first + count / 2, count / 2, depth + 1, bytes, add, piece_of);
    add(part, parts_[depth + 1].data());
  }

  std::uint32_t nodes_;
  std::uint32_t paired_;  // the number of nodes that are pairs
  // Intermediate results, one for each depth of the tree in which the ranks' data are combined. Not
  // initialized: each part is written before it is read.
  alignas(64) std::array<std::array<std::byte, kPiece>, std::bit_width(kMostRanks)> parts_;
};

// The ranks' knowledge of the order in which the MPI library computes a sum of their communicator.
// This knowledge is the same on all ranks.
enum class SumKnowledge : std::uint8_t {
  none,      // too few calls to know
  doubling,  // the library's bits are those of DoublingOrder
  library,   // the library's bits differ, or the order could not be found
};

// The sums that a communicator has computed, by operation, type and number of elements, and the
// ranks' knowledge of the order of each.
class SumOrders {
 public:
  struct Sum {
    std::uint64_t elements = 0;
    std::uint32_t terms = 0;  // operation and type
    std::uint32_t calls = 0;
    SumKnowledge knows = SumKnowledge::none;
  };

  // The sum with these terms (operation and type) and this number of elements, entered if it is
  // new. Null if the communicator already has as many different sums as this object has room for.
  Sum* find(std::uint32_t terms, std::uint64_t elements) {
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (sums_[i].elements == elements && sums_[i].terms == terms) return &sums_[i];
    }
    if (count_ == sums_.size()) return nullptr;
    sums_[count_] = {.elements = elements, .terms = terms};
    return &sums_[count_++];
  }

 private:
  std::array<Sum, 16> sums_{};
  std::uint32_t count_ = 0;
};

}  // namespace mh::coll
