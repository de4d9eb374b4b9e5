// SPDX-License-Identifier: BSD-3-Clause
// Synchronisation of one-sided communication, and the end of a window.
//
// An operation on a target of this node is over when the call returns, or the origin defers the
// operation to the end of the epoch. Operations on other nodes are under way until the target's
// answer comes (rma/remote.hpp). Ranks of this node read posts, completes and locks in shared
// memory; ranks of other nodes get them as messages. A rank that waits for a fence, a post, a
// complete or a lock helps in the wait loop. A call that the state of the window does not allow
// returns MPI_ERR_RMA_SYNC.
#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mpi/collective/arrivals.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rma/operations.hpp"
#include "mpi/rma/remote.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

namespace remote = rma::remote;
using mh::rma::Epochs;
using mh::rma::LockMode;
using mh::rma::TargetLock;
using rma::Win;

int refused(const Win& win) { return rma::raise_error(win.handle, MPI_ERR_RMA_SYNC); }

// The code of a call that ends an epoch. `fine`: no operation of the epoch has failed.
int epoch_result(const Win& win, bool fine) {
  return fine ? MPI_SUCCESS : rma::raise_error(win.handle, MPI_ERR_OTHER);
}

// The result of a lock, unlock or flush of MPI_PROC_NULL: success, or nothing (the library gets the
// call) for a library that reports such calls as errors.
constexpr CallResult kProcNull =
    rma::kLocksNobody ? CallResult(MPI_SUCCESS) : CallResult(std::nullopt);

bool is_rank(const Win& win, int rank) {
  return rank >= 0 && static_cast<std::uint32_t>(rank) < win.ranks();
}

// ---- MPI_Win_fence ------------------------------------------------------------------------------

// Waits until this rank's operations on other nodes are carried out (false if one of them has
// failed), and then until every rank of the window has entered this barrier. On one node, what a
// rank writes before the barrier is visible to the other ranks after it, because
// arrivals::barrier() releases and acquires the arrival counts.
bool window_barrier(Win& win) {
  if (win.internode == nullptr) {
    arrivals::barrier(*win.comm);
    return true;
  }
  const bool fine = remote::flush_targets(win);
  remote::barrier(win);
  return fine;
}

int fence(int assert, Win& win) {
  {
    const ThreadLock hold(win.mutex);
    if (!win.window.epochs().fence((assert& MPI_MODE_NOSUCCEED) == 0)) return refused(win);
  }
  const bool fine = rma::complete_deferred(win);
  return epoch_result(win, window_barrier(win) && fine);
}

// ---- MPI_Win_post, start, complete, wait and test -----------------------------------------------

// Translates the members of a group to ranks of the window. False if a member is not in the window.
bool translate(const Win& win, MPI_Group group, std::vector<std::uint32_t>& found) {
  int size = 0;
  if (group == MPI_GROUP_NULL || real.Group_size(group, &size) != MPI_SUCCESS) return false;
  std::vector<int> from(static_cast<std::size_t>(size));
  std::vector<int> to(static_cast<std::size_t>(size), MPI_UNDEFINED);
  for (int i = 0; i < size; ++i) from[static_cast<std::size_t>(i)] = i;
  real.Group_translate_ranks(group, size, from.data(), win.group, to.data());
  for (const int rank : to) {
    if (!is_rank(win, rank)) return false;
    found.push_back(static_cast<std::uint32_t>(rank));
  }
  return true;
}

CallResult post(MPI_Group group, Win& win) {
  std::vector<std::uint32_t> origins;
  if (!translate(win, group, origins)) return std::nullopt;
  {
    const ThreadLock hold(win.mutex);
    if (!win.window.epochs().post(origins.size())) return refused(win);
  }
  for (const std::uint32_t origin : origins) {
    if (win.is_elsewhere(origin)) {
      remote::send_post(win, origin);
      continue;
    }
    std::atomic<std::uint32_t>& posts = win.window.control().posts_to(origin)[win.window.me()];
    // release: pairs with the acquire in start() of the origin. This rank alone writes this word of
    // the origin's row of counts, so it needs no atomic addition.
    posts.store(posts.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  return MPI_SUCCESS;
}

CallResult start(MPI_Group group, Win& win) {
  std::vector<std::uint32_t> targets;
  if (!translate(win, group, targets)) return std::nullopt;
  {
    const ThreadLock hold(win.mutex);
    if (!win.window.epochs().start(targets)) return refused(win);
  }
  const mh::rma::Posts posts = win.window.control().posts_to(win.window.me());
  for (const std::uint32_t target : targets) {
    arrivals::wait_until([&] {
      // acquire: pairs with the release in post() of the target. For a target on another node it
      // pairs with the release in handle_step() of this rank's RMA server (mpi/rma/serving.hpp).
      return posts[target].load(std::memory_order_acquire) != win.posts_used[target];
    });
    ++win.posts_used[target];
  }
  return MPI_SUCCESS;
}

// MPI_Win_complete. Open MPI accepts the call without a start on a window that has had no fence, no
// start with a target, and no lock_all. For such a window this function returns nothing, and the
// library's own call decides whether that is an error.
CallResult complete(Win& win) {
  std::vector<std::uint32_t> targets;
  {
    const ThreadLock hold(win.mutex);
    if (!win.window.epochs().is_started()) {
      const bool is_accepted = rma::kCompletesWithoutStart && win.window.epochs().is_untouched();
      if (is_accepted) return std::nullopt;
      return refused(win);
    }
    targets = win.window.epochs().targets();
    win.window.epochs().complete();
  }
  bool fine = rma::complete_deferred(win);
  for (const std::uint32_t target : targets) {
    if (win.is_elsewhere(target)) {
      remote::send_complete(win, target);
      fine = remote::await_results(win, target) && fine;
      continue;
    }
    // release: pairs with the acquire in is_completed() of the target, which then sees this rank's
    // updates.
    win.window.control().part(target).completed.fetch_add(1, std::memory_order_release);
  }
  return epoch_result(win, fine);
}

bool is_completed(const Win& win, std::size_t origins) {
  const std::atomic<std::uint64_t>& completed =
      win.window.control().part(win.window.me()).completed;
  // acquire: pairs with the release of every origin in complete(), and, for origins on other nodes,
  // of this rank's RMA server (mpi/rma/serving.hpp). All of them add to the same word, so the last
  // value passes on every release.
  return completed.load(std::memory_order_acquire) - win.completes_used >= origins;
}

void end_exposure(Win& win, std::size_t origins) {
  win.completes_used += origins;
  const ThreadLock hold(win.mutex);
  win.window.epochs().end_exposure();
}

int wait_for_origins(Win& win) {
  if (!win.window.epochs().is_exposed()) return refused(win);
  const std::size_t origins = win.window.epochs().origins();
  arrivals::wait_until([&] { return is_completed(win, origins); });
  end_exposure(win, origins);
  return MPI_SUCCESS;
}

int test_for_origins(int* flag, Win& win) {
  if (!win.window.epochs().is_exposed()) return refused(win);
  const std::size_t origins = win.window.epochs().origins();
  *flag = is_completed(win, origins) ? 1 : 0;
  if (*flag != 0) {
    end_exposure(win, origins);
  } else {
    kick_progress();
    wait::note_failed_poll();
  }
  return MPI_SUCCESS;
}

// ---- MPI_Win_lock, unlock, flush and sync -------------------------------------------------------

enum class Flushed : bool { at_origin, at_target };

// The rank of the window that a flush or an unlock names; empty if the call is for all ranks.
using Target = std::optional<std::uint32_t>;

bool complete_remote(Win& win, Target target, Flushed where) {
  if (win.internode == nullptr) return true;
  return where == Flushed::at_origin ? remote::await_results(win, target)
                                     : remote::flush_targets(win, target);
}

void acquire(Win& win, std::uint32_t target, LockMode mode) {
  if (win.is_elsewhere(target)) return remote::lock_target(win, target, mode);
  TargetLock& lock = win.window.control().part(target).lock;
  const std::uint32_t number = lock.draw();
  if (!lock.enter(number, mode)) {
    arrivals::wait_until([&] { return lock.enter(number, mode); });
  }
}

// Unlocks the target's memory. A target on another node gets a message instead: its RMA server
// (mpi/rma/serving.hpp) unlocks once it has carried out the operations that this rank sent before.
void release(Win& win, std::uint32_t target, Epochs::LockState how) {
  if (how == Epochs::LockState::unchecked) return;
  const LockMode mode =
      how == Epochs::LockState::exclusive ? LockMode::exclusive : LockMode::shared;
  if (win.is_elsewhere(target)) return remote::unlock_target(win, target, mode);
  win.window.control().part(target).lock.leave(mode);
}

// Locks one target, or all ranks of the window.
int begin_lock(LockMode mode, int assert, Win& win, Target only) {
  const bool checked = (assert& MPI_MODE_NOCHECK) == 0;
  const Epochs::LockState how = !checked                      ? Epochs::LockState::unchecked
                                : mode == LockMode::exclusive ? Epochs::LockState::exclusive
                                                              : Epochs::LockState::shared;
  {
    const ThreadLock hold(win.mutex);
    Epochs& epochs = win.window.epochs();
    if (!(only ? epochs.lock(*only, how) : epochs.lock_all(how))) return refused(win);
  }
  const std::uint32_t end = only ? *only + 1 : win.ranks();
  for (std::uint32_t target = only.value_or(0); checked && target < end; ++target)
    acquire(win, target, mode);
  return MPI_SUCCESS;
}

CallResult lock(int type, int rank, int assert, Win& win) {
  if (type != MPI_LOCK_EXCLUSIVE && type != MPI_LOCK_SHARED) return std::nullopt;
  if (rank == MPI_PROC_NULL) return kProcNull;
  if (!is_rank(win, rank)) return std::nullopt;
  const LockMode mode = type == MPI_LOCK_EXCLUSIVE ? LockMode::exclusive : LockMode::shared;
  return begin_lock(mode, assert, win, static_cast<std::uint32_t>(rank));
}

int lock_all(int assert, Win& win) {
  return begin_lock(LockMode::shared, assert, win, std::nullopt);
}

// Ends the lock of one target, or of all ranks of the window.
int end_lock(Win& win, Target only) {
  Epochs::LockState how{};
  {
    const ThreadLock hold(win.mutex);
    how = only ? win.window.epochs().unlock(*only) : win.window.epochs().unlock_all();
  }
  if (how == Epochs::LockState::none) return refused(win);
  const bool fine = rma::complete_deferred(win, only);
  const std::uint32_t end = only ? *only + 1 : win.ranks();
  for (std::uint32_t target = only.value_or(0); target < end; ++target) release(win, target, how);
  rma::progress_sometimes();
  return epoch_result(win, complete_remote(win, only, Flushed::at_target) && fine);
}

CallResult unlock(int rank, Win& win) {
  if (rank == MPI_PROC_NULL) return kProcNull;
  if (!is_rank(win, rank)) return std::nullopt;
  return end_lock(win, static_cast<std::uint32_t>(rank));
}

int unlock_all(Win& win) { return end_lock(win, std::nullopt); }

// Completes this rank's operations on `target`. Of those on targets of this node, only the deferred
// ones are still to be carried out. The call also drives the MPI library's progress, since a
// program may wait for another rank in a loop of flushes.
int flush(Win& win, Target target, Flushed where) {
  {
    const ThreadLock hold(win.mutex);
    const Epochs& epochs = win.window.epochs();
    const bool may = target ? epochs.may_flush(*target) : epochs.is_passive();
    if (!may && rma::is_strict(win)) return refused(win);
  }
  const bool fine = rma::complete_deferred(win, target);
  // seq_cst: orders the window's operations and the program's own loads and stores before and after
  // the flush. Pairs with the same fence on other ranks.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  rma::progress_sometimes();
  return epoch_result(win, complete_remote(win, target, where) && fine);
}

CallResult flush_one(Win& win, int rank, Flushed where) {
  if (rank == MPI_PROC_NULL) return kProcNull;
  if (!is_rank(win, rank)) return std::nullopt;
  return flush(win, static_cast<std::uint32_t>(rank), where);
}

int sync(Win& win) {
  if constexpr (rma::kSyncsInLocksAlone) {
    const ThreadLock hold(win.mutex);
    if (!win.window.epochs().is_passive()) return refused(win);
  }
  // seq_cst: orders the program's loads and stores before MPI_Win_sync and those after the call.
  // Pairs with the same fence on other ranks.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  rma::progress_sometimes();
  return MPI_SUCCESS;
}

}  // namespace

namespace wrap {

int Win_fence(int assert, MPI_Win win) {
  if (Win* ours = rma::find_window(win)) return fence(assert, *ours);
  arrivals::window(win);
  return arrivals::left_window(win, next.Win_fence(assert, win));
}

int Win_free(MPI_Win* win) {
  const MPI_Win handle = *win;
  if (Win* ours = rma::find_window(handle)) {
    if (!ours->window.epochs().may_free()) return refused(*ours);
    // Carries out operations that were deferred in an epoch of fences that the program has not
    // ended by a last fence.
    static_cast<void>(rma::complete_deferred(*ours));
    static_cast<void>(window_barrier(*ours));  // after it no rank carries out an operation
  }
  arrivals::window_none(handle);  // the library's call waits for all ranks without helping
  auto ours = rma::remove_window(handle);
  auto shadow = switches.active ? windows::remove_arrival_barrier(handle) : nullptr;
  const int result = next.Win_free(win);
  if (shadow == nullptr) return result;
  if (result == MPI_SUCCESS) {
    comms::leave(*shadow);
    return result;
  }
  windows::restore_arrival_barrier(handle, std::move(shadow));
  if (ours != nullptr) rma::insert_window(ours);
  return arrivals::left_window(handle, result);
}

}  // namespace wrap
}  // namespace mh::mpi

#include "mpi/calls/epochs.inc"
