// SPDX-License-Identifier: BSD-3-Clause
// Sleep and wake-up of idle workers, without lost wake-ups.
//
// There are two reasons for a wake-up. A worker *must* wake when another thread signals one of its
// tasks, or spawns a task on it. Some worker *should* wake when there is a task to steal and no
// worker seeks work.
//
//   the worker w, without work        signaller of a task of w      spawner, any worker
//   --------------------------        ------------------------      -------------------
//   seekers += 1                      set bit in w.signals (RMW)    set bit in own set (store)
//   look for work for a while         read w.bell                   light fence
//   seekers -= 1                      if not awake:                 if sleepers > 0
//   sleepers += 1; bell = asleep        bell = awake (RMW)             and seekers = 0:
//   heavy fence                         if it was not awake:            ring a sleeping worker
//   look at everything once more          futex wake
//   sleep while bell is asleep
//   bell = awake
//
// Signaller and worker: each side writes its own word, then reads the word of the other side. All
// four accesses are sequentially consistent, so at least one side sees the other side's write.
//
// Spawner and worker: the same handshake, with fences. The spawner's light fence costs nothing,
// because the worker's heavy fence makes every running thread pass a full fence (membarrier). A
// spawner that sees a seeker rings no bell: the seeker looks at every set after it has left
// `seekers`. The last seeker that leaves with a task rings a sleeper instead.
//
// A worker that woke and found nothing *dozes* at its next rest. Only its own signals wake a dozing
// worker, and each doze is twice as long as the last one. Dozing bounds the cost of fruitless
// wake-ups for the spawners. A doze ends by itself, so published work waits at most kLongestDoze.
//
// On a system without a heavy fence, a sleep ends by itself after kUnfencedSleep.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/cacheline.hpp"

namespace mh::ult {

inline constexpr std::int64_t kShortestDoze = 50'000;      // ns
inline constexpr std::int64_t kLongestDoze = 1'600'000;    // ns
inline constexpr std::int64_t kUnfencedSleep = 5'000'000;  // ns

// The numbers of sleeping and seeking workers (those that look for work). All workers of a
// scheduler share a Watch.
template <class A>
struct alignas(kCacheLine) Watch {
  using Count = typename A::template Atomic<std::uint32_t>;
  Count sleepers{0};  // bells that are `asleep`, or about to be
  Count seekers{0};   // workers that look for work

  // Call after publishing a task that another worker may steal. If true, the caller must wake a
  // sleeping worker (ring_sleeper()). relaxed: light_fence(), a fence of the compiler, pairs with
  // the membarrier of heavy_fence() in Doorbell::rest().
  [[nodiscard]] bool wants_thief() const {
    A::light_fence();
    return sleepers.load(std::memory_order_relaxed) != 0 &&
           seekers.load(std::memory_order_relaxed) == 0;
  }
};

enum class Sleep : std::uint32_t { awake, asleep, dozing };

template <class A>
class Doorbell {
 public:
  // Called by any thread, after it has set a bit in this worker's signals. Wakes the worker if it
  // sleeps or dozes. True: this call woke the worker.
  bool ring(Watch<A>& watch) {
    // seq_cst: pairs with the store in rest(). The caller has set its bit before this load, and the
    // worker looks for bits after that store.
    if (word_.load(std::memory_order_seq_cst) == kAwake) return false;
    return rouse(watch);
  }

  // Called by any thread. Wakes this worker if it sleeps, but not if it dozes. True: this call woke
  // the worker.
  bool ring_sleeper(Watch<A>& watch) {
    return word_.load(std::memory_order_relaxed) == value(Sleep::asleep) && rouse(watch);
  }

  // Called on this worker's thread. Sleeps or dozes (`how`) unless `work()` returns true, at most
  // `limit_ns` nanoseconds (0: no limit). May return early.
  template <class Work>
  void rest(Watch<A>& watch, Sleep how, std::int64_t limit_ns, Work work) {
    if (how == Sleep::asleep) watch.sleepers.fetch_add(1, std::memory_order_seq_cst);
    word_.store(value(how), std::memory_order_seq_cst);
    const bool fenced = how == Sleep::dozing || A::heavy_fence();
    if (!work()) A::sleep(word_, value(how), fenced ? limit_ns : kUnfencedSleep);
    leave(watch);
  }

  [[nodiscard]] bool is_awake() const { return word_.load(std::memory_order_relaxed) == kAwake; }

 private:
  static constexpr std::uint32_t value(Sleep how) { return static_cast<std::uint32_t>(how); }
  static constexpr std::uint32_t kAwake = value(Sleep::awake);

  // Sets the bell to awake, on the worker's thread or on one that wakes the worker. The thread that
  // moves the bell from asleep to awake also decrements `sleepers`. True: the bell was not awake.
  bool leave(Watch<A>& watch) {
    const std::uint32_t was = word_.exchange(kAwake, std::memory_order_seq_cst);
    if (was == value(Sleep::asleep)) watch.sleepers.fetch_sub(1, std::memory_order_seq_cst);
    return was != kAwake;
  }
  bool rouse(Watch<A>& watch) {
    if (!leave(watch)) return false;
    A::wake(&word_);
    return true;
  }

  typename A::template Atomic<std::uint32_t> word_{kAwake};
};

}  // namespace mh::ult
