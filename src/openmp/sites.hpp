// SPDX-License-Identifier: BSD-3-Clause
// What is known of each parallel region of the program, by the function its body was compiled to.
//
// A *site* starts unseen. Its first execution is watched: a region whose one shared loop may be
// joined late is shared from then on, any other never, and the reason is kept for the summary, with
// the time that the process spends there. Any thread; entries are never removed. Limit: kMost
// sites, further regions are not shared.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/cacheline.hpp"
#include "base/clock.hpp"
#include "base/tuning.hpp"

namespace mh::openmp {

// Why the loops of a region are not shared.
enum class Obstacle : std::uint8_t {
  none,
  no_loop,        // nothing that is handed out in chunks: a static schedule, or no loop at all
  several_loops,  // a late thread could not tell which to join
  thread_number,  // asks for its thread or team: a static schedule does
  barrier,        // or a loop that ends with one
  single,         // single, sections, ordered, cancel
  tasks,
  nested,       // parallel inside parallel
  mpi,          // calls MPI, of which one thread at a time may be inside
  collectives,  // MPI calls that count on the order of iterations: collective and one-sided ones
  other_calls,  // of the run time, that are not known to be harmless (calls.hpp)
  by_user,
};
inline constexpr std::size_t kObstacles = 12;

// What was found when a shared loop was opened, for later executions of as many iterations by as
// many threads. By the thread that opens it (region.hpp): one at a time.
struct Outlook {
  std::uint64_t count = 0;
  std::uint32_t threads = 0;     // 0: nothing was found that stands for others
  std::uint32_t executions = 0;  // so far
  float whole = 0;               // ticks that the loop takes without helpers
};

struct alignas(kCacheLine) Site {
  enum class State : std::uint8_t { unseen, shared, excluded };

  // Acquired by find(), released by the thread that enters the site.
  std::atomic<const void*> body{nullptr};
  // relaxed: each is a fact of its own, and an old value is only slower.
  std::atomic<State> state{State::unseen};
  std::atomic<Obstacle> obstacle{Obstacle::none};
  std::atomic<float> ticks_per_iteration{0};  // 0: not known yet
  // Whether it was compared with the user's lists: released with what they say, then acquired.
  std::atomic<bool> looked_up{false};
  // Of a region that is not shared: executions until the next is timed, and the ticks spent.
  std::atomic<std::uint32_t> untimed{0};
  std::atomic<std::uint64_t> spent{0};
  // Where it is in the source; of the program's own data, null if the compiler has not left it.
  std::atomic<const char*> source{nullptr};
  Outlook outlook;
};
static_assert(sizeof(Site) == kCacheLine);

// What the first execution has shown.
inline void decide(Site& site, Obstacle met) {
  site.obstacle.store(met, std::memory_order_relaxed);
  site.state.store(met == Obstacle::none ? Site::State::shared : Site::State::excluded,
                   std::memory_order_relaxed);
}

inline bool is_excluded(const Site& site) {
  return site.state.load(std::memory_order_relaxed) == Site::State::excluded;
}

// Times one execution of a region that is not shared: each of a long one, of a short one only some,
// which then stand for all. Two threads in the same region may lose one another's count.
class Stopwatch {
 public:
  static constexpr std::uint32_t kEvery = 16;

  // Null: nothing is timed.
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

// Why its loops are not shared; none if they are, or if nothing is known of it.
inline Obstacle obstacle_of(const Site& site) {
  const Site::State state = site.state.load(std::memory_order_relaxed);
  if (state == Site::State::excluded) return site.obstacle.load(std::memory_order_relaxed);
  const bool only_timed =
      state == Site::State::unseen && site.spent.load(std::memory_order_relaxed) != 0;
  return only_timed ? Obstacle::no_loop : Obstacle::none;  // schedule(runtime), and that is static
}

class Sites {
 public:
  static constexpr std::size_t kMost = 1024;

  // The site of a body; null if the table is full.
  Site* find(const void* body) {
    std::size_t at = hash(body);
    for (std::size_t looked = 0; looked < kMost; ++looked, at = (at + 1) % kMost) {
      Site& site = sites_[at];
      const void* here = site.body.load(std::memory_order_acquire);
      if (here == body) [[likely]]
        return &site;
      if (here == nullptr && enter(site, body)) return &site;
    }
    return nullptr;
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

  // True if the place is now this body's, by whomever.
  static bool enter(Site& site, const void* body) {
    const void* empty = nullptr;
    return site.body.compare_exchange_strong(empty, body, std::memory_order_release,
                                             std::memory_order_acquire) ||
           empty == body;
  }

  Site sites_[kMost];
};

}  // namespace mh::openmp
