// SPDX-License-Identifier: BSD-3-Clause
// The owner's side of lending a core: its helper threads, and the work that it exposes to them.
//
// Work is *exposed* while helpers may join it; an *offer* tells lenders how long the work will
// last. A process has one pool. For each kind of work, one thread at a time calls expose() and
// withdraw(); several helpers run the work at once, beside the owner's own threads. Other functions
// are thread-safe where their comments say so. Source: MPI Workshare (shared loops), without its
// shared address space.
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

// Work of this process that its helpers can join at any time while it is exposed to them.
class LendableWork {
 public:
  virtual ~LendableWork() = default;
  // Does a part of the work on the thread of helper `helper` (below kHelpers). Returns soon after
  // `deadline` (ticks), or at once if nothing is left to start. Returns false if there was nothing
  // to start; the helper then tries the next kind of work. Must not throw.
  virtual bool unit(std::uint32_t helper, std::uint64_t deadline) noexcept = 0;
};

// Tells whether the calling thread is a helper inside a unit, at any depth of calls. Such a thread
// is a guest on a core that another rank has lent.
enum class Guest : std::uint8_t {
  no,
  in_time,
  overdue,  // the deadline of its unit has passed
};
Guest guest();
// Called where a guest, a helper on a lent core, must wait: its lender continues on the core at
// once, and the guest moves to its owner's cores. Has no effect the second time in a unit, or on a
// thread that is not a guest.
void give_core_back();

class Pool {
 public:
  // `mine`: the channels and offers of this rank in the node segment. `lenders`: the most cores
  // that can be lent to this process at a time. `stack`: bytes of stack that helpers need for the
  // program's own code (loops); 0: no such code. Makes no thread yet.
  Pool(const node::Node& node, Lendings& mine, std::uint32_t lenders, std::size_t stack = 0);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  // Ends the helper threads. Precondition: all exposed work has been withdrawn.
  ~Pool();

  // Exposes `work`: from now on lenders may send helpers to it. `ends`: the time (ticks) at which
  // this process would finish the work alone. The first call makes the helpers. If the result is an
  // error, the work is not shared: `system` means that no helper could be made, `unsupported` that
  // no rank would lend a core, or that helpers have no stacks for loops. Work that comes and goes
  // may stay exposed: another call offers it again, which takes two stores.
  Status expose(WorkKind kind, LendableWork& work, std::uint64_t ends) {
    const Status open = open_to_helpers(kind, work);
    if (open) offer(kind).store(ends, std::memory_order_relaxed);
    return open;
  }
  // Exposes and offers `work` as expose() does, but without reading the clock: for work of some
  // microseconds, `ticks` long (BriefOffer in channel.hpp).
  Status expose_briefly(WorkKind kind, LendableWork& work, std::uint64_t ticks) {
    const Status open = open_to_helpers(kind, work);
    if (open) {
      const std::uint64_t word = BriefOffer::word(ticks, slot(kind).exposures);
      offer(kind).store(word, std::memory_order_relaxed);
    }
    return open;
  }

  // Corrects the time (ticks) at which this process would finish its exposed work of `kind` alone.
  // Called by the owner or a helper. An offer that has ended (0) stays so, except in a race with
  // nothing_left(): then a lender may send a helper that finds no work.
  void expect_end(WorkKind kind, std::uint64_t ends) {
    std::atomic<std::uint64_t>& offered = offer(kind);
    if (offered.load(std::memory_order_relaxed) == 0) return;
    offered.store(ends, std::memory_order_relaxed);
  }
  // Corrects the time (ticks) at which the process of another rank, `owner`, would finish its
  // exposed work of `kind` alone; 0: there is nothing to start. Has no effect if that process
  // exposes no such work, or if its offer ends within `slack` of `ends`: a store would take the
  // cache line from the lenders that read it. Thread-safe.
  void suggest_end(std::uint32_t owner, WorkKind kind, std::uint64_t ends, std::uint64_t slack);
  // Ends the offer of the work, which stays exposed: nothing of it is left to start, so no lender
  // should send a helper.
  void nothing_left(WorkKind kind) { offer(kind).store(0, std::memory_order_relaxed); }

  // Hides the work of `kind` from helpers. Returns when no helper is inside the work, and none will
  // come, so that the caller may destroy it.
  void withdraw(WorkKind kind);
  // Waits until over() is true, a condition that helpers inside the exposed work bring about. A
  // helper that takes long is moved to this process's cores, because the lender may need its core
  // again.
  void await_helpers(const std::function<bool()>& over);

  // True if helpers that have given their lent cores back in the middle of a unit run on the
  // owner's cores. A thread that waits on these cores should then yield instead of spinning.
  [[nodiscard]] bool has_waiting_helpers() const {
    return waiting_helpers_.load(std::memory_order_relaxed) != 0;
  }
  // Number of lent cores that helpers of this process have given back in the middle of a unit,
  // because they had to wait.
  [[nodiscard]] std::uint64_t given_back() const {
    return given_back_.load(std::memory_order_relaxed);
  }
  // True if the address space allows stacks of the constructor's `stack` bytes for the helpers that
  // are made first. Otherwise, or if such stacks cannot be made, the helpers do not run the
  // program's loops.
  [[nodiscard]] bool has_stack_space() const { return affordable_stack(first_helpers()) == stack_; }
  // The most helpers that this process can have.
  [[nodiscard]] std::uint32_t most_helpers() const { return std::min(kHelpers, lenders_); }
  // True if helpers exist and may run on every CPU that a rank of the node may use (cpusets).
  [[nodiscard]] bool helpers_roam() const { return roam_.load(std::memory_order_relaxed); }
  // True once the first call of expose() or expose_briefly() has made the helpers, or has failed
  // to.
  [[nodiscard]] bool hired() const { return hired_.load(std::memory_order_acquire); }
  // The number of calls of expose() and expose_briefly() for work of `kind`. May be called by the
  // thread that makes those calls, or once that thread has ended.
  [[nodiscard]] std::uint64_t exposures(WorkKind kind) const { return slot(kind).exposures; }
  // Number of units of `kind` that helpers have run on cores of other ranks.
  [[nodiscard]] std::uint64_t units(WorkKind kind) const {
    return slot(kind).units.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kSweepEvery = 1024;  // exposures from one sweep() to the next

  // Exposed work of one kind. A helper increments `inside` before it reads `work`; the owner clears
  // `work` before it reads `inside`. Both orders are seq_cst, so at least one side sees the other.
  // A helper that the owner does not see reads a null `work`.
  struct alignas(kCacheLine) WorkSlot {
    std::atomic<LendableWork*> work{nullptr};
    std::atomic<std::uint32_t> inside{0};
    std::atomic<std::uint64_t> units{0};  // relaxed: a count
    std::uint64_t exposures = 0;          // written by the exposing thread
  };

  [[nodiscard]] WorkSlot& slot(WorkKind kind) { return slots_[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] const WorkSlot& slot(WorkKind kind) const {
    return slots_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] std::atomic<std::uint64_t>& offer(WorkKind kind) {
    return mine_.offer.ends[static_cast<std::size_t>(kind)];
  }
  Status open_to_helpers(WorkKind kind, LendableWork& work) {
    WorkSlot& here = slot(kind);
    // relaxed: `work` was last written by this thread, or by a thread from which this thread has
    // taken over this kind of work.
    if (here.work.load(std::memory_order_relaxed) != &work) [[unlikely]] {
      if (const Status in = open_slot(here, work); !in) return in;
    }
    if (++here.exposures % kSweepEvery == 0) [[unlikely]]
      sweep();
    return {};
  }
  Status open_slot(WorkSlot& here, LendableWork& work);
  Status hire();
  bool hire_one(Channel& channel, std::size_t stack);
  void hire_more();
  [[nodiscard]] bool may_roam(pthread_t helper) const;
  [[nodiscard]] std::uint32_t first_helpers() const {
    return std::min(kHelpersAtOnce, most_helpers());
  }
  [[nodiscard]] std::size_t affordable_stack(std::size_t count) const;
  void live(Channel& channel);
  void serve(Channel& channel, std::uint32_t word);
  static bool work_at(WorkSlot& slot, std::uint32_t helper, std::uint64_t deadline);
  void reclaim();
  void sweep();

  const node::Node& node_;
  Lendings& mine_;
  std::uint32_t lenders_;
  std::size_t stack_;
  cpu_set_t home_{};  // CPUs of the owner
  // The first thread that exposes work makes the helpers; hiring_went_ is the outcome. release: the
  // store to hired_, which publishes the outcome, pairs with the acquire in hired().
  std::once_flag hiring_;
  Status hiring_went_;
  // Held while helpers_ grows. The first helpers are added without this lock, before the store to
  // hired_.
  std::mutex growing_;
  std::vector<pthread_t> helpers_;
  std::atomic<bool> hired_{false};
  // small_stacks_: the helpers' stacks are too small for loops. roam_: the result of
  // helpers_roam(). relaxed: the store to hired_ publishes both.
  std::atomic<bool> small_stacks_{false};
  std::atomic<bool> roam_{false};
  std::atomic<bool> ending_{false};  // relaxed: helpers read it after the wake-up that follows
  // given_back_: lent cores that helpers have given back so far. waiting_helpers_: helpers that
  // have given their core back and are still in their unit. relaxed: counts.
  std::atomic<std::uint64_t> given_back_{0};
  std::atomic<std::uint32_t> waiting_helpers_{0};
  WorkSlot slots_[kKinds];
};

}  // namespace mh::lend
