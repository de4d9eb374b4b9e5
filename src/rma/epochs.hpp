// SPDX-License-Identifier: BSD-3-Clause
// The epochs that this rank has on a window, and the calls that they allow (MPI-4.1, 12.5).
//
// Pure state of one process; nothing waits. Each function returns whether the step is allowed and,
// if so, takes it; the caller turns a refusal into MPI_ERR_RMA_SYNC. A fence without
// MPI_MODE_NOSUCCEED opens an epoch that counts only from its first operation on, so an epoch of
// any kind may follow an unused one. The MPI libraries do the same. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mh::rma {

class Epochs {
 public:
  explicit Epochs(std::size_t ranks) : locks_(ranks, LockState::none), in_group_(ranks, false) {}

  // True if an operation on the memory of the window's rank `target` is allowed: with `strict`,
  // only if an epoch covers the target, without `strict` always. Records that the present fence
  // epoch is used.
  [[nodiscard]] bool may_access(std::size_t target, bool strict = true) {
    switch (access_) {
      case Access::none:
        if (fence_ != Fence::closed) fence_ = Fence::used;
        return fence_ != Fence::closed || !strict;
      case Access::started:
        return in_group_[target] || !strict;
      case Access::locked:
        return locks_[target] != LockState::none || !strict;
      case Access::locked_all:
        break;
    }
    return true;
  }

  // Begins a fence, if it is allowed now. `succeeds`: the fence opens an epoch, because
  // MPI_MODE_NOSUCCEED is not set.
  [[nodiscard]] bool fence(bool succeeds) {
    if (access_ != Access::none || exposed_) return false;
    fence_ = succeeds ? Fence::open : Fence::closed;
    had_group_ = true;
    return true;
  }

  // ---- Start and complete, post and wait --------------------------------------------------------

  [[nodiscard]] bool start(const std::vector<std::uint32_t>& targets) {
    if (!may_begin_access()) return false;
    access_ = Access::started;
    had_group_ = had_group_ || !targets.empty();
    targets_ = targets;
    for (const std::uint32_t target : targets) in_group_[target] = true;
    return true;
  }
  [[nodiscard]] bool is_started() const { return access_ == Access::started; }
  // True if the window has had no fence and no MPI_Win_start with a target, and is not locked by
  // MPI_Win_lock_all.
  [[nodiscard]] bool is_untouched() const { return !had_group_ && access_ != Access::locked_all; }
  [[nodiscard]] const std::vector<std::uint32_t>& targets() const { return targets_; }
  void complete() {
    for (const std::uint32_t target : targets_) in_group_[target] = false;
    targets_.clear();
    access_ = Access::none;
  }

  [[nodiscard]] bool post(std::size_t origins) {
    if (exposed_ || fence_ == Fence::used) return false;
    exposed_ = true;
    origins_ = origins;
    return true;
  }
  [[nodiscard]] bool is_exposed() const { return exposed_; }
  [[nodiscard]] std::size_t origins() const { return origins_; }
  void end_exposure() { exposed_ = false; }

  // ---- Locks of targets (passive-target epochs) -------------------------------------------------

  // The state of this rank's lock on a target. `unchecked`: locked with MPI_MODE_NOCHECK, so no
  // other rank wants the lock and none is taken in shared memory.
  enum class LockState : std::uint8_t { none, shared, exclusive, unchecked };

  [[nodiscard]] bool lock(std::size_t target, LockState how) {
    const bool further = access_ == Access::locked && locks_[target] == LockState::none;
    if (!further && !may_begin_access()) return false;
    access_ = Access::locked;
    locks_[target] = how;
    ++held_;
    return true;
  }
  // Ends this rank's lock on the target and returns how it was held. If it was not held, returns
  // `none` and changes nothing.
  [[nodiscard]] LockState unlock(std::size_t target) {
    if (access_ != Access::locked || locks_[target] == LockState::none) return LockState::none;
    const LockState how = locks_[target];
    locks_[target] = LockState::none;
    if (--held_ == 0) access_ = Access::none;
    return how;
  }
  [[nodiscard]] bool lock_all(LockState how) {
    if (!may_begin_access()) return false;
    access_ = Access::locked_all;
    all_ = how;
    return true;
  }
  [[nodiscard]] LockState unlock_all() {
    if (access_ != Access::locked_all) return LockState::none;
    access_ = Access::none;
    return all_;
  }

  // True if this rank holds a lock (MPI_Win_lock or MPI_Win_lock_all). Flushes, and operations with
  // a request (MPI_Rput), are allowed only then.
  [[nodiscard]] bool is_passive() const {
    return access_ == Access::locked || access_ == Access::locked_all;
  }
  [[nodiscard]] bool may_flush(std::size_t target) const {
    return access_ == Access::locked_all ||
           (access_ == Access::locked && locks_[target] != LockState::none);
  }
  [[nodiscard]] bool may_free() const { return access_ == Access::none && !exposed_; }

 private:
  enum class Access : std::uint8_t { none, started, locked, locked_all };
  enum class Fence : std::uint8_t { closed, open, used };  // used: an operation was allowed in it

  // True if this rank may begin an access epoch, by MPI_Win_start or a lock. It then replaces a
  // fence epoch without operations.
  bool may_begin_access() {
    if (access_ != Access::none || fence_ == Fence::used) return false;
    fence_ = Fence::closed;
    return true;
  }

  Access access_ = Access::none;
  Fence fence_ = Fence::closed;
  bool exposed_ = false;
  bool had_group_ = false;
  std::size_t origins_ = 0;  // of the exposure epoch
  std::size_t held_ = 0;     // number of locks
  LockState all_ = LockState::none;
  std::vector<LockState> locks_;  // by target
  std::vector<bool> in_group_;    // by target: the target is in targets_
  std::vector<std::uint32_t> targets_;
};

}  // namespace mh::rma
