// SPDX-License-Identifier: BSD-3-Clause
// The split circular deque of a rank's tasks (Lifflander, Krishnamoorthy, Kale, HPDC 2012, section
// 6): a bounded buffer that its worker uses from one end, mostly without a fence, and thieves from
// the other.
//
//   ctail         stail          split            head
//     | being copied | to be stolen | worker's own  |  free ...
//
//   head    the next free slot. Worker only.
//   split   what is below may be stolen. Written by the worker, read by thieves.
//   stail   the next task to be stolen. Written by who holds the lock.
//   itail   how many stolen tasks have been copied away, in any order.
//   ctail   below it slots are free again. Worker only.
//
// Indices count up and are taken modulo the capacity at the buffer alone, so full and empty are
// never the same. Invariant at every moment: ctail <= stail <= split <= head <= ctail + capacity.
//
// A steal has two phases. reserve() takes the lock, moves stail and lets go; then the tasks are
// copied without it, while others steal further up; complete() adds their number to itail. Steals
// complete out of order, so a sum says which slots are free only when there is no steal under way:
// itail = stail. The worker reads itail first: both only grow, and itail never passes stail, so if
// a stail read later is equal, it was equal when itail was read. (In the other order a steal that
// was reserved and completed in between is taken for an older one that is still being copied.)
//
// Repaired against the listing of the paper: getTask() reads below the head; acquireFromShared()
// takes half and at least one (its min is a max) and lets the lock go when there is nothing. The
// paper's worker shares when nothing is left to be stolen; this one as soon as there is little, for
// it looks only between its tasks.
//
// Threads: one worker; reserve() and complete() by anyone. The words may lie in memory that
// processes share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/cacheline.hpp"
#include "tasks/policy.hpp"

namespace mh::tasks {

template <class A>
struct DequeWords {
  using Word = typename A::template Atomic<std::uint64_t>;

  // Written by the worker; thieves read `split`.
  alignas(kCacheLine) Word split{0};
  std::uint64_t head = 0;
  std::uint64_t ctail = 0;
  // Written by who holds the lock.
  alignas(kCacheLine) typename A::template Atomic<std::uint32_t> lock{0};
  Word stail{0};
  Word steals{0};  // reservations ever made
  // Written by who has copied.
  alignas(kCacheLine) Word itail{0};
};
static_assert(sizeof(DequeWords<Shared>) == 3 * kCacheLine);

// Tasks that a thief may copy; none is moved or overwritten before complete(). They are contiguous.
struct Reservation {
  std::uint64_t first = 0;
  std::uint32_t count = 0;
};

// `Slots` is the buffer: a type Task, capacity(), store(slot, task), load(slot, task); mask() where
// the capacity is a power of two.
template <class A, class Slots>
class Deque {
 public:
  using Task = typename Slots::Task;

  // `words` and the buffer outlive this.
  Deque(DequeWords<A>& words, Slots slots) : words_(words), slots_(slots) {}

  // --- the worker ---

  // How many tasks at most it keeps from thieves, at least one. A task kept can be had without the
  // lock; one that is long is better shared, because while it waits for another long one to end
  // nobody else can have it.
  void keep(std::uint64_t most) { keep_ = std::max<std::uint64_t>(most, 1); }

  // While held, what is added stays out of the thieves' reach. The deque has been empty since.
  void hold() { held_ = true; }
  void release() {
    held_ = false;
    share_if_few();
  }

  // False: the deque is full now.
  bool add(const Task& task) {
    if (!has_room()) return false;
    slots_.store(slot(words_.head), task);
    landed(1);
    return true;
  }
  // Whether a task may be written to slot(landing()).
  bool has_room() { return words_.head - words_.ctail != slots_.capacity() || reclaim(); }

  // The newest task. False: there is none, and there was none to be stolen at a moment during this.
  bool get(Task& task) {
    if (words_.head == own_split() && !acquire()) return false;
    slots_.load(slot(words_.head - 1), task);
    --words_.head;
    share_if_few();
    return true;
  }

  // How many tasks may be written from slot(landing()) on, contiguous, before landed(). At least
  // one unless the deque is full.
  [[nodiscard]] std::uint32_t room() {
    reclaim();
    const std::uint64_t used = words_.head - words_.ctail;
    const std::uint64_t to_end = slots_.capacity() - slot(words_.head);
    return static_cast<std::uint32_t>(std::min(slots_.capacity() - used, to_end));
  }
  [[nodiscard]] std::uint64_t landing() const { return words_.head; }
  // Tasks have been written there, by whomever, before this call.
  void landed(std::uint32_t count) {
    words_.head += count;
    share_if_few();
  }

  [[nodiscard]] std::uint64_t size() const {
    return words_.head - words_.stail.load(std::memory_order_relaxed);
  }
  // Grows with each reservation. A worker to whom get() has said that there is nothing sees all
  // that were made before.
  [[nodiscard]] std::uint64_t steals() const {
    return words_.steals.load(std::memory_order_relaxed);
  }

  // --- anyone ---

  // Half of what may be stolen, rounded up, at most `most`. count 0: nothing.
  Reservation reserve(std::uint32_t most) {
    A::lock(words_.lock);
    const std::uint64_t first = words_.stail.load(std::memory_order_relaxed);
    // acquire: partner is the release in share(): the tasks are in their slots.
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
  // Tasks `at` and `at` + 1 ... of a reservation, or from landing() on.
  [[nodiscard]] std::uint64_t slot(std::uint64_t at) const {
    if constexpr (requires { slots_.mask(); }) {
      return at & slots_.mask();
    } else {
      return at % slots_.capacity();
    }
  }
  [[nodiscard]] Slots& slots() { return slots_; }
  // They have been copied.
  void complete(Reservation reservation) {
    // release: partner is the acquire in reclaim(): the slots may be written again.
    words_.itail.fetch_add(reservation.count, std::memory_order_release);
  }

 private:
  // relaxed: this thread alone writes.
  [[nodiscard]] std::uint64_t own_split() const {
    return words_.split.load(std::memory_order_relaxed);
  }

  // Worker: all but the tasks that it keeps may be stolen, if few could. stail is a guess, without
  // the lock: by now there may be fewer to be stolen, never more.
  void share_if_few() {
    const std::uint64_t split = own_split();
    const std::uint64_t shared = split - words_.stail.load(std::memory_order_relaxed);
    const std::uint64_t own = words_.head - split;
    const std::uint64_t all = shared + own;
    const std::uint64_t kept = std::min(all - all / 2, keep_);
    if (held_ || own <= kept || (shared > own / kFew && kept < keep_)) return;
    words_.split.store(words_.head - kept, std::memory_order_release);
  }

  // Worker: takes back half of what could be stolen, at least one.
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

  // Worker: finds out which slots are free again. True: some are.
  bool reclaim() {
    const std::uint64_t itail = words_.itail.load(std::memory_order_acquire);
    if (itail == words_.stail.load(std::memory_order_relaxed)) words_.ctail = itail;
    return words_.head - words_.ctail < slots_.capacity();
  }

  static constexpr std::uint64_t kFew = 4;  // fewer than a quarter of its own: a worker shares more

  DequeWords<A>& words_;
  Slots slots_;
  std::uint64_t keep_ = ~std::uint64_t{0};  // the worker's, as the next
  bool held_ = false;
};

}  // namespace mh::tasks
