// SPDX-License-Identifier: BSD-3-Clause
// The owner's side of lending: its helpers and the work it exposes to them.
//
// One pool a process. For each kind of work expose() and withdraw() are for one thread at a time;
// the work itself is run by the helpers, several at once, and by whoever else the owner sets to it.
// Source: MPI Workshare (shared loops), without its shared address space.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "base/result.hpp"
#include "lend/channel.hpp"
#include "node/node.hpp"

namespace mh::lend {

// Work that helpers can join at any time.
class Work {
 public:
  virtual ~Work() = default;
  // Does a part of the work on the thread of helper `helper` (below kHelpers): returns soon after
  // `deadline` (ticks), or at once if nothing is left to begin. False: there was nothing to begin,
  // so the helper looks elsewhere. Must not throw.
  virtual bool unit(std::uint32_t helper, std::uint64_t deadline) noexcept = 0;
};

// The calling thread, if it is a helper inside a unit, wherever that unit has led it. Such a thread
// is a guest on a core that another rank has lent.
enum class Guest : std::uint8_t {
  no,
  in_time,
  overdue,  // its unit should be over
};
Guest guest();
// A guest has to wait for something: its lender goes on at once, and it where its owner may run.
// Once a unit, then nothing; nor for any other thread.
void give_core_back();

class Pool {
 public:
  // `mine` is this rank's part of the segment; `lenders` cores at most will be lent to it at a
  // time. `stack`: bytes that a helper's stack must have for the program's own code (loops); 0:
  // there will be none. No thread is made yet.
  Pool(const node::Node& node, Lendings& mine, std::uint32_t lenders, std::size_t stack = 0);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  // Ends the helpers; nothing may be exposed.
  ~Pool();

  // Lenders may send helpers to `work` from now on. `ends`: about when (ticks) this process would
  // be done with it alone. The first call makes the helpers; `system` if there could be none,
  // `unsupported` if nobody would lend a core (the work is simply not shared then). Work that comes
  // and goes may stay exposed and is offered anew by the same call, which then is two stores.
  Status expose(Kind kind, Work& work, std::uint64_t ends) {
    const Status open = open_to_helpers(kind, work);
    if (open) offer(kind).store(ends, std::memory_order_relaxed);
    return open;
  }
  // The same without a look at the clock, for work of so many ticks: a few microseconds.
  Status expose_briefly(Kind kind, Work& work, std::uint64_t ticks) {
    const Status open = open_to_helpers(kind, work);
    if (open) {
      const std::uint64_t word = Brief::word(ticks, place(kind).exposures);
      offer(kind).store(word, std::memory_order_relaxed);
    }
    return open;
  }

  // A better guess of that, by the owner or a helper. An offer that is over stays so, unless it
  // ends just now: then a lender may come in vain.
  void expect_end(Kind kind, std::uint64_t ends) {
    std::atomic<std::uint64_t>& offered = offer(kind);
    if (offered.load(std::memory_order_relaxed) == 0) return;
    offered.store(ends, std::memory_order_relaxed);
  }
  // The same of the work that stays exposed in `owner`'s process, another's or this one; 0: there
  // is nothing to begin. An offer that ends within `slack` of that stays as it is, since lenders
  // watch it, and so does that of a process that exposes no such work. Any thread.
  void suggest_end(std::uint32_t owner, Kind kind, std::uint64_t ends, std::uint64_t slack);
  // There is nothing to begin any more: no lender shall come in vain.
  void nothing_left(Kind kind) { offer(kind).store(0, std::memory_order_relaxed); }

  // Returns when no helper is inside the work any more, and none will be.
  void withdraw(Kind kind);
  // Returns when `over`, which what helpers do brings about. One that stays long is brought to this
  // core: the lender's may have gone to somebody else.
  void await_helpers(const std::function<bool()>& over);

  // Helpers that have to wait are on the owner's cores: whoever waits there, too, should not spin.
  [[nodiscard]] bool has_waiting_helpers() const {
    return at_home_.load(std::memory_order_relaxed) != 0;
  }
  // Cores that helpers gave back in the middle of a unit so far.
  [[nodiscard]] std::uint64_t given_back() const {
    return given_back_.load(std::memory_order_relaxed);
  }
  // Whether stacks for the program's own code may be made. Else loops are not exposed; nor if it
  // turns out that they cannot.
  [[nodiscard]] bool has_room() const { return affordable_stack() == stack_; }
  // Whether there are helpers, and they may run wherever a rank of the node may (cpusets). Known
  // once they are made; until then there are none.
  [[nodiscard]] bool helpers_roam() const { return roam_.load(std::memory_order_relaxed); }
  // Whether the helpers have been made.
  [[nodiscard]] bool hired() const { return hired_.load(std::memory_order_acquire); }
  // How often helpers could come to work of that kind. By the thread that exposes it, or after it.
  [[nodiscard]] std::uint64_t exposures(Kind kind) const { return place(kind).exposures; }
  // Units of that kind run by helpers so far.
  [[nodiscard]] std::uint64_t units(Kind kind) const {
    return place(kind).units.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kSweepEvery = 1024;  // exposures

  // Where work of one kind is exposed. A helper counts itself in before it looks at `open`; the
  // owner takes `open` away before it looks at the count. Both sequentially consistent, so that one
  // of them sees the other: a helper that was not seen finds nothing open.
  struct alignas(kCacheLine) Place {
    std::atomic<Work*> open{nullptr};
    std::atomic<std::uint32_t> inside{0};
    std::atomic<std::uint64_t> units{0};  // relaxed: a count
    std::uint64_t exposures = 0;          // of the exposing thread
  };

  [[nodiscard]] Place& place(Kind kind) { return places_[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] const Place& place(Kind kind) const {
    return places_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] std::atomic<std::uint64_t>& offer(Kind kind) {
    return mine_.offer.ends[static_cast<std::size_t>(kind)];
  }
  Status open_to_helpers(Kind kind, Work& work) {
    Place& here = place(kind);
    // relaxed: of the calling thread, or of one that the work has handed over from.
    if (here.open.load(std::memory_order_relaxed) != &work) [[unlikely]] {
      if (const Status in = let_in(here, work); !in) return in;
    }
    if (++here.exposures % kSweepEvery == 0) [[unlikely]]
      sweep();
    return {};
  }
  Status let_in(Place& here, Work& work);
  Status hire();
  bool hire_one(Channel& channel, std::size_t stack);
  [[nodiscard]] bool may_roam(pthread_t helper) const;
  [[nodiscard]] std::uint32_t helpers() const { return std::min(kHelpers, lenders_); }
  [[nodiscard]] std::size_t affordable_stack() const;
  void live(Channel& channel);
  void serve(Channel& channel, std::uint32_t word);
  static bool work_at(Place& place, std::uint32_t helper, std::uint64_t deadline);
  void reclaim();
  void sweep();

  const node::Node& node_;
  Lendings& mine_;
  std::uint32_t lenders_;
  std::size_t stack_;
  cpu_set_t home_{};  // where the owner may run
  // Made by the first that exposes something; the release of `hired_` pairs with hired().
  std::once_flag hiring_;
  Status hiring_went_;
  std::vector<pthread_t> helpers_;
  std::atomic<bool> hired_{false};
  // relaxed: before hired_, whose release publishes them
  std::atomic<bool> cramped_{false};
  std::atomic<bool> roam_{false};
  std::atomic<bool> ending_{false};  // relaxed, looked at by helpers that a wake-up follows
  // relaxed: counts
  std::atomic<std::uint64_t> given_back_{0};
  std::atomic<std::uint32_t> at_home_{0};
  Place places_[kKinds];
};

}  // namespace mh::lend
