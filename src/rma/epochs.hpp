// SPDX-License-Identifier: BSD-3-Clause
// Which epochs of a window this rank is in, and what it may therefore do (MPI-4.1, 12.5).
//
// Pure state of one process, without waiting: each call says whether the step is allowed and, if
// so, takes it. What is not allowed is MPI_ERR_RMA_SYNC to the caller. As in the MPI libraries, a
// fence that does not say MPI_MODE_NOSUCCEED opens an epoch that becomes one only when something is
// done in it, so that any other kind may follow it instead. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mh::rma {

class Epochs {
 public:
  explicit Epochs(std::size_t ranks) : locks_(ranks, Held::no), in_group_(ranks, false) {}

  // An operation to that rank of the window. `strict`: only in an epoch that covers it.
  [[nodiscard]] bool may_access(std::size_t target, bool strict = true) {
    switch (access_) {
      case Access::none:
        if (fence_ != Fence::closed) fence_ = Fence::used;
        return fence_ != Fence::closed || !strict;
      case Access::started:
        return in_group_[target] || !strict;
      case Access::locked:
        return locks_[target] != Held::no || !strict;
      case Access::locked_all:
        break;
    }
    return true;
  }

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
  // No fence, and no start with a target, has been, and no lock of all is held.
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

  // ---- Locks ------------------------------------------------------------------------------------

  // How the lock of a target is held. `unchecked`: MPI_MODE_NOCHECK, nobody else wants it.
  enum class Held : std::uint8_t { no, shared, exclusive, unchecked };

  [[nodiscard]] bool lock(std::size_t target, Held how) {
    const bool further = access_ == Access::locked && locks_[target] == Held::no;
    if (!further && !may_begin_access()) return false;
    access_ = Access::locked;
    locks_[target] = how;
    ++held_;
    return true;
  }
  // How it was held; Held::no where it was not, and nothing changes.
  [[nodiscard]] Held unlock(std::size_t target) {
    if (access_ != Access::locked || locks_[target] == Held::no) return Held::no;
    const Held how = locks_[target];
    locks_[target] = Held::no;
    if (--held_ == 0) access_ = Access::none;
    return how;
  }
  [[nodiscard]] bool lock_all(Held how) {
    if (!may_begin_access()) return false;
    access_ = Access::locked_all;
    all_ = how;
    return true;
  }
  [[nodiscard]] Held unlock_all() {
    if (access_ != Access::locked_all) return Held::no;
    access_ = Access::none;
    return all_;
  }

  // Whether flushes, and operations with a request, may be called.
  [[nodiscard]] bool is_passive() const {
    return access_ == Access::locked || access_ == Access::locked_all;
  }
  [[nodiscard]] bool may_flush(std::size_t target) const {
    return access_ == Access::locked_all ||
           (access_ == Access::locked && locks_[target] != Held::no);
  }
  [[nodiscard]] bool may_free() const { return access_ == Access::none && !exposed_; }

 private:
  enum class Access : std::uint8_t { none, started, locked, locked_all };
  enum class Fence : std::uint8_t { closed, open, used };

  // An access epoch of another kind takes the place of a fence's that was not used.
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
  std::size_t held_ = 0;     // locks
  Held all_ = Held::no;
  std::vector<Held> locks_;     // by target
  std::vector<bool> in_group_;  // likewise: it is one of targets_
  std::vector<std::uint32_t> targets_;
};

}  // namespace mh::rma
