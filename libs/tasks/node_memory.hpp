// SPDX-License-Identifier: BSD-3-Clause
// The shared memory of a collection on one node: the deques of its ranks, and the numbers of the
// answered steal requests from other nodes.
//
//   answered, one word for each rank of the job | words and slots of each rank of the node
//
// A thief sends a numbered steal request to two ranks of a node. Each of the two can answer, from
// any deque of the node; claim() ensures that only one rank does. The word of a thief holds the
// highest claimed number. A rank that receives the same request later sees that it has been
// answered.
//
// Threads: any thread may call claim(). The rules of deque.hpp apply to the deques.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "tasks/bytes.hpp"

namespace mh::tasks {

struct NodeShape {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t first = 0;                  // the first rank of this node
  std::uint32_t count = 1;                  // the number of ranks on this node
  std::uint64_t capacity = 1;               // slots of each deque, a power of two
  std::size_t stride = sizeof(TaskHeader);  // bytes of a slot
};

class NodeMemory {
 public:
  using Answered = std::atomic<std::uint32_t>;
  static_assert(Answered::is_always_lock_free);

  static std::size_t bytes(const NodeShape& shape) {
    return answered_bytes(shape) + shape.count * deque_bytes(shape);
  }
  // `memory`: bytes() long, shared by the ranks of the node, aligned to a cache line. Each rank of
  // the node constructs its own deque, and the first rank also the words with the numbers of
  // answered requests. A rank uses the other parts only after a barrier.
  NodeMemory(std::byte* memory, const NodeShape& shape)
      : shape_(shape), answered_(reinterpret_cast<Answered*>(memory)) {
    if (shape.rank == shape.first) std::uninitialized_value_construct_n(answered_, shape.ranks);
    std::byte* parts = memory + answered_bytes(shape);
    for (std::uint32_t i = 0; i < shape.count; ++i) {
      std::byte* part = parts + i * deque_bytes(shape);
      if (shape.first + i == shape.rank) new (part) DequeWords<Shared>;
      auto& words = *std::launder(reinterpret_cast<DequeWords<Shared>*>(part));
      const ByteSlots slots(part + sizeof(words), shape.capacity, shape.stride);
      deques_.emplace_back(words, slots);
    }
  }

  [[nodiscard]] const NodeShape& shape() const { return shape_; }
  [[nodiscard]] bool is_near(std::uint32_t rank) const {
    return rank - shape_.first < shape_.count;
  }
  // Returns the deque of a rank. `rank` must be on this node.
  [[nodiscard]] ByteDeque& deque(std::uint32_t rank) { return deques_[rank - shape_.first]; }
  [[nodiscard]] ByteDeque& own() { return deque(shape_.rank); }

  // Decides which rank of the node answers steal request `number` of `thief`. True: the caller
  // does. Only one caller gets true for a number, and no caller for a number below a claimed one.
  bool claim(std::uint32_t thief, std::uint32_t number) {
    // relaxed: the word only decides which rank answers. The deque's own atomics order the tasks of
    // the answer.
    Answered& answered = answered_[thief];
    std::uint32_t last = answered.load(std::memory_order_relaxed);
    while (static_cast<std::int32_t>(number - last) > 0) {
      if (answered.compare_exchange_weak(last, number, std::memory_order_relaxed)) return true;
    }
    return false;
  }

 private:
  static std::size_t lines(std::size_t bytes) {
    return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  static std::size_t answered_bytes(const NodeShape& shape) {
    return lines(shape.ranks * sizeof(Answered));
  }
  static std::size_t deque_bytes(const NodeShape& shape) {
    return lines(sizeof(DequeWords<Shared>) + shape.capacity * shape.stride);
  }

  NodeShape shape_;
  Answered* answered_;
  std::vector<ByteDeque> deques_;
};

}  // namespace mh::tasks
