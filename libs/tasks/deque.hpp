// SPDX-License-Identifier: BSD-3-Clause
// The split circular deque of a rank's tasks (Lifflander, Krishnamoorthy, Kale, HPDC 2012, section
// 6): a bounded buffer. The worker uses one end, mostly without a fence. Thieves use the other end.
//
//   ctail         stail          split            head
//     | being copied | to be stolen | worker's own  |  free ...
//
//   head    the next free slot. Worker only.
//   split   thieves may steal the tasks below. Written by the worker, read by thieves.
//   stail   the next task to steal. Written by the holder of the lock.
//   itail   the number of stolen tasks that have been copied away, in any order.
//   ctail   the slots below are free again. Worker only.
//
// Only the buffer takes indices modulo the capacity, so full and empty always differ. Invariant at
// every moment: ctail <= stail <= split <= head <= ctail + capacity.
//
// A steal has two phases. reserve() moves stail under the lock. The thief then copies the tasks
// without the lock, while other thieves steal further up, and complete() adds their number to
// itail. Steals complete out of order, so itail tells which slots are free only if no steal is
// under way: itail = stail. The worker reads itail first. Both indices only grow, and itail never
// passes stail. Therefore, if a later read of stail gives the same value, the two were equal when
// itail was read. (In the other order, a steal that was reserved and completed in between would
// count for an older steal that is still being copied.)
//
// Differences from the paper's listing: getTask() takes the slot head - 1, not head.
// acquireFromShared() takes max(1, half of the shared tasks), where the listing has min, and
// unlocks if there is nothing to take. The paper's worker shares tasks when none is left to steal.
// This worker shares when few are left to steal, because it looks only between its tasks.
//
// Threads: one worker. Any thread may call reserve() and complete(). The words may lie in memory
// that processes share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/cacheline.hpp"
#include "tasks/policy.hpp"

namespace mh::tasks {

template <class A>
struct DequeWords {
  using Word = typename A::template Atomic<std::uint64_t>;

  // The words that the worker writes; thieves read `split`.
  alignas(kCacheLine) Word split{0};
  std::uint64_t head = 0;
  std::uint64_t ctail = 0;
  // The lock between thieves and the worker, and the words that its holder writes.
  alignas(kCacheLine) typename A::template Atomic<std::uint32_t> lock{0};
  Word stail{0};
  Word steals{0};  // the number of reservations that got tasks
  // Thieves add to this word after they have copied the tasks that they reserved.
  alignas(kCacheLine) Word itail{0};
};
static_assert(sizeof(DequeWords<Shared>) == 3 * kCacheLine);

// Contiguous tasks that a thief has reserved and may copy. The deque keeps them in place until
// complete().
struct Reservation {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
};

// A deque of tasks with one worker and many thieves. `A` is a policy of policy.hpp. `Slots` is the
// buffer: a type Task, capacity(), store(slot, task), load(slot, task), and mask() if the capacity
// is a power of two.
template <class A, class Slots>
class Deque {
 public:
  using Task = typename Slots::Task;

  // The memory of `words` and of the buffer must outlive the deque.
  Deque(DequeWords<A>& words, Slots slots) : words_(words), slots_(slots) {}

  // --- only the worker calls these functions ---

  // Sets the most tasks that the worker keeps from thieves, at least 1. The worker takes a kept
  // task without the lock. Long tasks are better shared: no thief can take a kept task while the
  // worker runs another long one.
  void keep(std::uint64_t most) { keep_ = std::max<std::uint64_t>(most, 1); }

  // From hold() to release(), thieves cannot take tasks that the worker adds. The deque must be
  // empty when hold() is called.
  void hold() { held_ = true; }
  void release() {
    held_ = false;
    share_if_few();
  }

  // Forgets all tasks. No thief may use the deque between this call and the next barrier of the
  // ranks.
  void clear() {
    // relaxed: the barrier that follows orders these stores before a thief's loads.
    words_.head = words_.ctail = 0;
    words_.split.store(0, std::memory_order_relaxed);
    words_.stail.store(0, std::memory_order_relaxed);
    words_.itail.store(0, std::memory_order_relaxed);
  }

  // Adds a task as the newest. False: the deque is full.
  bool add(const Task& task) {
    if (!has_room()) return false;
    slots_.store(slot(words_.head), task);
    landed(1);
    return true;
  }
  // True: there is a free slot, slot(landing()), into which the caller may write a task.
  bool has_room() { return words_.head - words_.ctail != slots_.capacity() || reclaim(); }

  // Takes the newest task for the worker. False: at some moment during the call the deque had no
  // task, neither the worker's own nor one to steal.
  bool get(Task& task) {
    if (words_.head == own_split() && !acquire()) return false;
    slots_.load(slot(words_.head - 1), task);
    --words_.head;
    share_if_few();
    return true;
  }

  // The number of contiguous free slots from slot(landing()) on, into which tasks may be written
  // before landed(). At least 1 unless the deque is full.
  [[nodiscard]] std::uint32_t room() {
    reclaim();
    const std::uint64_t used = words_.head - words_.ctail;
    const std::uint64_t to_end = slots_.capacity() - slot(words_.head);
    return static_cast<std::uint32_t>(std::min(slots_.capacity() - used, to_end));
  }
  [[nodiscard]] std::uint64_t landing() const { return words_.head; }
  // Adds `count` tasks that have been written into the slots from slot(landing()) on, by this or
  // another process.
  void landed(std::uint32_t count) {
    words_.head += count;
    share_if_few();
  }

  [[nodiscard]] std::uint64_t size() const {
    return words_.head - words_.stail.load(std::memory_order_relaxed);
  }
  // The number of thieves' reservations that got tasks. After get() has returned false, the worker
  // sees all reservations from before that call.
  [[nodiscard]] std::uint64_t steals() const {
    return words_.steals.load(std::memory_order_relaxed);
  }

  // --- any thread may call these functions ---

  // Reserves half of the tasks that thieves may steal, rounded up, but at most `most`, and none
  // beyond the last slot of the array: a reservation is contiguous. A result with count 0: there
  // are none.
  Reservation reserve(std::uint32_t most) {
    A::lock(words_.lock);
    const std::uint64_t first = words_.stail.load(std::memory_order_relaxed);
    // acquire: partner is the release in share_if_few(), so the thief sees the tasks in their
    // slots.
    const std::uint64_t shared = words_.split.load(std::memory_order_acquire) - first;
    const std::uint64_t to_end = slots_.capacity() - slot(first);
    const std::uint64_t count = std::min({(shared + 1) / 2, to_end, std::uint64_t{most}});
    if (count != 0) {
      words_.steals.fetch_add(1, std::memory_order_relaxed);
      words_.stail.store(first + count, std::memory_order_relaxed);
    }
    A::unlock(words_.lock);
    return {first, static_cast<std::uint32_t>(count)};
  }
  // Returns the slot of the task with number `at`. Numbers come from a Reservation or from
  // landing(), and grow without end.
  [[nodiscard]] std::uint64_t slot(std::uint64_t at) const {
    if constexpr (requires { slots_.mask(); }) {
      return at & slots_.mask();
    } else {
      return at % slots_.capacity();
    }
  }
  [[nodiscard]] Slots& slots() { return slots_; }
  // Called by a thief after it has copied the tasks of its reservation. The worker may then use
  // their slots again.
  void complete(Reservation reservation) {
    // release: partner is the acquire in reclaim(). The thief's copies are done before the worker
    // writes the slots again.
    words_.itail.fetch_add(reservation.count, std::memory_order_release);
  }

 private:
  // The worker's read of `split`. relaxed: only the worker, the caller, writes `split`.
  [[nodiscard]] std::uint64_t own_split() const {
    return words_.split.load(std::memory_order_relaxed);
  }

  // Called by the worker. If few tasks are shared (open to thieves), shares all tasks but those
  // that the worker keeps for itself (keep()). The read of stail is without the lock, so `shared`
  // may be too high, never too low.
  void share_if_few() {
    const std::uint64_t split = own_split();
    const std::uint64_t shared = split - words_.stail.load(std::memory_order_relaxed);
    const std::uint64_t own = words_.head - split;
    const std::uint64_t all = shared + own;
    const std::uint64_t kept = std::min(all - all / 2, keep_);
    if (held_ || own <= kept || (shared > own / kFew && kept < keep_)) return;
    words_.split.store(words_.head - kept, std::memory_order_release);
  }

  // Called by the worker, which has no task of its own left: takes back half of the tasks that
  // thieves may steal, at least one. False: there are none.
  bool acquire() {
    A::lock(words_.lock);
    const std::uint64_t split = own_split();
    const std::uint64_t shared = split - words_.stail.load(std::memory_order_relaxed);
    if (shared != 0) {
      const std::uint64_t back = std::clamp<std::uint64_t>(shared / 2, 1, keep_);
      words_.split.store(split - back, std::memory_order_relaxed);
    }
    A::unlock(words_.lock);
    return shared != 0;
  }

  // Called by the worker: finds the slots whose stolen tasks have been copied away, and that are
  // free again. True: there is a free slot.
  bool reclaim() {
    const std::uint64_t itail = words_.itail.load(std::memory_order_acquire);
    if (itail == words_.stail.load(std::memory_order_relaxed)) words_.ctail = itail;
    return words_.head - words_.ctail < slots_.capacity();
  }

  static constexpr std::uint64_t kFew = 4;  // a worker shares more if at most own / kFew are shared

  DequeWords<A>& words_;
  Slots slots_;
  std::uint64_t keep_ = ~std::uint64_t{0};  // worker only
  bool held_ = false;                       // worker only
};

}  // namespace mh::tasks
