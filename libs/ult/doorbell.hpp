// SPDX-License-Identifier: BSD-3-Clause
// How an idle worker sleeps, and how work finds it: two phases on both sides, no lost wake-up.
//
// Two questions are kept apart. *Must this worker wake?* It must when one of its own tasks is
// signalled, or given to it. *Should some worker wake?* One should when there is work that a thief
// could take and everybody who could look for it sleeps.
//
//   the worker w, without work             signaller of a task of w       spawner, any worker
//   --------------------------             ------------------------       -------------------
//   seekers += 1                           set bit in w.signals (RMW)     set bit in own set
//   (store) look for work for a while              read w.bell                    light fence
//   seekers -= 1                           if not awake:                  if sleepers > 0
//   sleepers += 1; bell = asleep             bell = awake (RMW)              and seekers = 0:
//   heavy fence                              if it was not awake:          ring one that is asleep
//   look at everything once more             futex wake
//   sleep while bell is asleep
//   bell = awake
//
// Signaller and worker: each writes and then reads what the other writes, sequentially consistent
// on both sides, so one of them sees the other. Spawner and worker: the same, but the spawner's
// fence is free, because the worker's heavy fence has every running thread pass one (membarrier).
// A spawner that sees a seeker does nothing: that seeker looks at everything after it has left
// `seekers`. A seeker that finds something else to do, and was the last, rings in its place.
//
// A worker that was woken for nothing *dozes* first: for a short time, doubled each time, only its
// own signals wake it. This bounds what fruitless wake-ups cost the spawners. The doze ends by
// itself, so work that was published in the meantime waits at most kLongestDoze.
//
// Where the system has no heavy fence, a sleep ends by itself after kUnfencedSleep.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/cacheline.hpp"

namespace mh::ult {

inline constexpr std::int64_t kShortestDoze = 50'000;      // ns
inline constexpr std::int64_t kLongestDoze = 1'600'000;    // ns
inline constexpr std::int64_t kUnfencedSleep = 5'000'000;  // ns

// One for all workers of a scheduler.
template <class A>
struct alignas(kCacheLine) Watch {
  using Count = typename A::template Atomic<std::uint32_t>;
  Count sleepers{0};  // bells that are `asleep`, or about to be
  Count seekers{0};   // workers that look for work

  // After work has been published that a thief could take: whether a sleeper is to be rung.
  // relaxed: the fence here and the sleeper's heavy fence order these reads.
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
  // Any thread, after it has set a bit for this worker. True: it slept.
  bool ring(Watch<A>& watch) {
    // seq_cst: partner is the store in rest(); the setting of the bit went before.
    if (word_.load(std::memory_order_seq_cst) == kAwake) return false;
    return rouse(watch);
  }

  // Any thread: wakes this worker if it is asleep (not if it dozes). True: it was.
  bool ring_sleeper(Watch<A>& watch) {
    return word_.load(std::memory_order_relaxed) == value(Sleep::asleep) && rouse(watch);
  }

  // Worker: sleeps unless `work()` sees something. Returns early now and then. limit_ns 0: none.
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

  // Whoever moves the bell from asleep to awake takes it off the count.
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
