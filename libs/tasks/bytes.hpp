// SPDX-License-Identifier: BSD-3-Clause
// Tasks as bytes. All tasks of a collection have one size, fixed when the collection is created.
//
// A task is a header and the argument of its function. ByteSlots is the buffer of a deque of such
// tasks. An Arena stores copies of tasks and gives each copy a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tasks/balance.hpp"
#include "tasks/deque.hpp"

namespace mh::tasks {

struct TaskHeader {
  std::uint32_t function = 0;
  std::uint16_t seed = 0;  // 1: added outside of process(), so restore() adds it again
  std::uint16_t bin = 0;   // the duration of the last run (Bin::key); 0: unknown
};
static_assert(sizeof(TaskHeader) == sizeof(std::uint64_t));  // so the argument is aligned

inline std::size_t task_stride(std::size_t task_bytes) {
  constexpr std::size_t kUnit = sizeof(TaskHeader);
  return sizeof(TaskHeader) + (task_bytes + kUnit - 1) / kUnit * kUnit;
}

// The address of one task's bytes, as the source or the destination of a copy.
struct TaskBytes {
  std::byte* bytes = nullptr;
};

class ByteSlots {
 public:
  using Task = TaskBytes;
  // Makes a buffer over the memory at `first`. `capacity`: the number of tasks, a power of two.
  // `stride`: the bytes of a task.
  ByteSlots(std::byte* first, std::uint64_t capacity, std::size_t stride)
      : first_(first), capacity_(capacity), stride_(stride) {}

  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint64_t mask() const { return capacity_ - 1; }
  [[nodiscard]] std::size_t stride() const { return stride_; }
  [[nodiscard]] std::byte* at(std::uint64_t slot) const { return first_ + slot * stride_; }
  void store(std::uint64_t slot, TaskBytes task) { std::memcpy(at(slot), task.bytes, stride_); }
  void load(std::uint64_t slot, TaskBytes task) const {
    std::memcpy(task.bytes, at(slot), stride_);
  }

 private:
  std::byte* first_;
  std::uint64_t capacity_;
  std::size_t stride_;
};
using ByteDeque = Deque<Shared, ByteSlots>;

// Returns the bytes of `count` contiguous tasks of a deque, from the task with number `at` on.
template <class AnyDeque>
std::span<std::byte> bytes_of(AnyDeque& deque, std::uint64_t at, std::uint32_t count) {
  auto& slots = deque.slots();
  return {slots.at(deque.slot(at)), count * slots.stride()};
}

class Arena {
 public:
  explicit Arena(std::size_t stride) : stride_(stride) {}

  // Returns memory for one more task, which becomes a task of the arena only if commit() follows.
  // The memory is valid until the next spare() or add().
  TaskBytes spare() {
    if (bytes_.size() < (count_ + std::size_t{1}) * stride_) grow();
    return {bytes_.data() + count_ * stride_};
  }
  // Keeps the task that the caller has written to the memory of spare(). Returns the task's number.
  std::uint32_t commit() { return count_++; }
  std::uint32_t add(const std::byte* task) {
    std::memcpy(spare().bytes, task, stride_);
    return commit();
  }
  [[nodiscard]] TaskBytes at(std::uint32_t number) { return {bytes_.data() + number * stride_}; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] std::size_t stride() const { return stride_; }
  void clear() { count_ = 0; }

 private:
  void grow() { bytes_.resize((2 * std::size_t{count_} + kFirst) * stride_); }

  static constexpr std::size_t kFirst = 64;
  std::vector<std::byte> bytes_;
  std::size_t stride_;
  std::uint32_t count_ = 0;
};

// Tasks of an arena, by their numbers, with their durations.
using ArenaTasks = std::vector<Timed<std::uint32_t>>;

}  // namespace mh::tasks
