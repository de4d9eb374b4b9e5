// SPDX-License-Identifier: BSD-3-Clause
// The state of each parallel region of the program, by the function that its body was compiled to.
//
// A *site* is the entry of one region in the table. It starts unseen, and the region's first
// execution is watched. A region with one loop that helpers may join late is shared with them from
// then on. Any other region is never shared; the summary shows the reason, and the time that the
// process spends in the region. Thread-safe; entries are never removed, but the sites of a library
// that was unloaded are unseen again once other code lies at their addresses (Sites::forget()).
// Limit: kMost sites; further regions are not shared.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/cacheline.hpp"
#include "base/clock.hpp"
#include "base/tuning.hpp"

namespace mh::openmp {

// The reasons why helpers cannot join the loops of a region.
enum class Obstacle : std::uint8_t {
  none,
  no_loop,        // no loop, or a static schedule, which hands out no chunks
  several_loops,  // a helper that joins late could not tell which loop to join
  thread_number,  // asks for a thread's number or the team's size, as static schedules do
  barrier,        // a barrier, or a loop that ends with a barrier
  single,         // single, sections, ordered, cancel
  tasks,
  nested,       // parallel inside parallel
  mpi,          // calls MPI, which admits one thread at a time
  collectives,  // MPI calls that depend on the order of iterations: collective and one-sided
  other_calls,  // calls of the run time that are not known to be harmless (calls.hpp)
  // The next three reasons occur only where static loops are shared (virtual_threads.hpp):
  unknown_code,  // calls through pointers, or code that cannot be read
  thread_data,   // data that each thread has for itself
  waiting,       // threads that wait for one another
  by_user,       // excluded by the user's lists
};
inline constexpr std::size_t kObstacles = 15;

// The estimate of a loop's time, made when the loop that helpers may join was last opened. It holds
// for later executions with the same number of iterations and threads. Used by the thread that
// opens the loop (region.hpp), one at a time.
struct LoopEstimate {
  std::uint64_t count = 0;
  std::uint32_t threads = 0;     // of the team; 0: the estimate does not hold later
  std::uint32_t executions = 0;  // number of executions so far
  float whole = 0;               // ticks that the loop takes without helpers
};

enum class SiteState : std::uint8_t { unseen, shared, excluded };

// Tells whether a region runs by virtual threads, calls of its function for each thread number
// (virtual_threads.hpp), and whether these may meet at barriers. A region that calls through
// pointers runs so only while no loaded object makes calls that virtual threads cannot make.
struct alignas(4) VirtualUse {
  bool on = false;
  bool meets = false;
  bool has_pointers = false;
};

struct alignas(kCacheLine) Site {
  // The function that the region's body was compiled to; null: the entry of the table is free.
  // acquire in find(), pairs with the release in claim_entry().
  std::atomic<const void*> body{nullptr};
  // Tells whether helpers may join the region. The release in decide_site() publishes virtual_use,
  // and pairs with the acquire loads.
  std::atomic<SiteState> state{SiteState::unseen};
  // The reason why the region is excluded from sharing. relaxed: no other field of the site depends
  // on this one, and an old value costs only time.
  std::atomic<Obstacle> obstacle{Obstacle::none};
  // True once the user's lists were applied to the region. release: publishes the result in
  // `state`, pairs with the acquire in apply_user_lists().
  std::atomic<bool> looked_up{false};
  // Ticks that an iteration of the region's loop takes on one thread; 0: not known. relaxed: an old
  // value costs only time.
  std::atomic<float> ticks_per_iteration{0};
  // Tells whether the region runs by virtual threads (virtual_threads.hpp). Written before `state`,
  // which publishes it.
  std::atomic<VirtualUse> virtual_use{VirtualUse{}};
  // For a region that is not shared: the number of executions until a Stopwatch times one, and the
  // ticks spent in the region so far.
  std::atomic<std::uint32_t> untimed{0};
  std::atomic<std::uint64_t> spent{0};
  // The region's place in the source, as a string in the program; null if the compiler has left
  // none.
  std::atomic<const char*> source{nullptr};
  LoopEstimate estimate;
};
static_assert(sizeof(Site) == kCacheLine);

// Records the decision on a region. `met`: the obstacle that excludes the region from sharing;
// none: helpers may join it from now on.
inline void decide_site(Site& site, Obstacle met) {
  site.obstacle.store(met, std::memory_order_relaxed);
  site.state.store(met == Obstacle::none ? SiteState::shared : SiteState::excluded,
                   std::memory_order_release);
}

inline bool is_excluded(const Site& site) {
  return site.state.load(std::memory_order_acquire) == SiteState::excluded;
}

// Times one execution of a region that is not shared, while the object lives: every execution of a
// long region, one in kEvery of a short region, whose time then counts for kEvery executions. Two
// threads in the same region at a time may lose counts.
class Stopwatch {
 public:
  static constexpr std::uint32_t kEvery = 16;

  // Begins to time an execution of the region of `site`, if this execution is one that is timed
  // (kEvery). Nothing is timed if `site` is null.
  explicit Stopwatch(Site* site)
      : site_(is_due(site) ? site : nullptr), begin_(site_ != nullptr ? ticks() : 0) {}
  ~Stopwatch() {
    if (site_ != nullptr) took(*site_, ticks() - begin_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  static void took(Site& site, std::uint64_t time) {
    const std::uint32_t stands_for = time < ticks_from_ns(tuning::kShortRegionNs) ? kEvery : 1;
    site.untimed.store(stands_for - 1, std::memory_order_relaxed);
    site.spent.store(site.spent.load(std::memory_order_relaxed) + time * stands_for,
                     std::memory_order_relaxed);
  }

 private:
  static bool is_due(Site* site) {
    if (site == nullptr) return false;
    const std::uint32_t untimed = site->untimed.load(std::memory_order_relaxed);
    if (untimed == 0) [[unlikely]]
      return true;
    site->untimed.store(untimed - 1, std::memory_order_relaxed);
    return false;
  }

  Site* site_;
  std::uint64_t begin_;
};

// Returns the reason why helpers cannot join the region; `none` if they can, or if no execution of
// the region has shown a reason yet.
inline Obstacle obstacle_of(const Site& site) {
  const SiteState state = site.state.load(std::memory_order_relaxed);
  if (state == SiteState::excluded) return site.obstacle.load(std::memory_order_relaxed);
  const bool only_timed =
      state == SiteState::unseen && site.spent.load(std::memory_order_relaxed) != 0;
  return only_timed ? Obstacle::no_loop : Obstacle::none;  // a static schedule(runtime)
}

class Sites {
 public:
  static constexpr std::size_t kMost = 1024;

  // Returns the site of the region with this body, a new site at the first call; null if the table
  // is full.
  Site* find(const void* body) {
    std::size_t at = hash(body);
    for (std::size_t looked = 0; looked < kMost; ++looked, at = (at + 1) % kMost) {
      Site& site = sites_[at];
      const void* here = site.body.load(std::memory_order_acquire);
      if (here == body) [[likely]]
        return &site;
      if (here == nullptr && claim_entry(site, body)) return &site;
    }
    return nullptr;
  }

  // Makes the sites of all regions whose code lies in the interval unseen again, because other code
  // lies there now. Call before calls of that code can reach Manyhands.
  //
  // Safe even while a thread runs one of the regions: fields that the region's execution depends on
  // keep their values. Each decision on a region writes virtual_use anew; an old estimate costs
  // only time.
  void forget(std::uintptr_t low, std::uintptr_t high) {
    for (Site& site : sites_) {
      const auto body = reinterpret_cast<std::uintptr_t>(site.body.load(std::memory_order_relaxed));
      if (body == 0 || body < low || body >= high) continue;
      site.ticks_per_iteration.store(0, std::memory_order_relaxed);
      site.untimed.store(0, std::memory_order_relaxed);
      site.spent.store(0, std::memory_order_relaxed);
      site.source.store(nullptr, std::memory_order_relaxed);
      site.looked_up.store(false, std::memory_order_relaxed);
      site.state.store(SiteState::unseen, std::memory_order_relaxed);
    }
  }

  template <class Each>
  void each(Each&& each) const {
    for (const Site& site : sites_) {
      if (site.body.load(std::memory_order_acquire) != nullptr) each(site);
    }
  }

 private:
  static std::size_t hash(const void* body) {
    return (reinterpret_cast<std::uintptr_t>(body) * 0x9e3779b97f4a7c15ULL >> 48U) % kMost;
  }

  // Claims the free entry `site` for the region with this body. Returns true if the entry is the
  // region's afterwards, even if another thread has claimed it for the same body.
  static bool claim_entry(Site& site, const void* body) {
    const void* empty = nullptr;
    return site.body.compare_exchange_strong(empty, body, std::memory_order_release,
                                             std::memory_order_acquire) ||
           empty == body;
  }

  Site sites_[kMost];
};

}  // namespace mh::openmp
