// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/virtual_threads.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "openmp/participation.hpp"
#include "openmp/stack.hpp"

namespace mh::openmp {

std::uint32_t own_cores = 0;

void VirtualTeam::run_claimed(void* team) {
  auto& mine = *static_cast<VirtualTeam*>(team);
  Participant& me = *current;
  SharedRegion& region = *shared_region();
  for (;;) {
    const std::uint32_t phase = mine.phase_.load(std::memory_order_acquire);
    for (auto range = region.next(me); !range.empty(); range = region.next(me)) {
      for (std::uint64_t claim = range.first; claim != range.end; ++claim) {
        mine.run(me, mine.number_for(me, claim));
      }
    }
    const bool stays = mine.has_barriers() && me.role == Participant::Role::owner;
    if (!stays || !mine.await_phase(me, phase)) return;
  }
}

void VirtualTeam::run(Participant& me, std::uint32_t number) {
  me.team = this;
  me.virtual_number = number;
  if (has_barriers()) {
    shared_region()->see_all();
    const bool ended = run_on_fibre(number);
    me.team = nullptr;
    return stopped(ended);
  }
  body_(data_);
  me.team = nullptr;
}

// ---- Barriers, at which virtual threads pause ---------------------------------------------------

bool VirtualTeam::run_on_fibre(std::uint32_t number) {
  TeamFibre& fibre = fibres_[number];
  if (!begun_) fibre.begin(run_body, this);
  return fibre.resume();
}

void VirtualTeam::run_body(void* team) {
  const auto& mine = *static_cast<VirtualTeam*>(team);
  mine.body_(mine.data_);
}

void VirtualTeam::meet(std::uint32_t number) { fibres_[number].pause(); }

void VirtualTeam::meet_and_combine(std::uint32_t number, void* data, Combine combine) {
  fibres_[number].left = data;
  combine_.store(combine, std::memory_order_relaxed);
  meet(number);
}

// Records that a virtual thread, a call of the region's function, has paused at a barrier or ended.
// The last one to do so begins the next phase, in which all go on. OpenMP's barriers are for all
// threads of a team, so either all have ended or none.
void VirtualTeam::stopped(bool ended) {
  if (stopped_.fetch_add(1, std::memory_order_acq_rel) + 1 != size_) return;
  if (ended) return phase_.store(kOver, std::memory_order_release);
  if (combine_.load(std::memory_order_relaxed) != nullptr) combine_all();
  begun_ = true;
  stopped_.store(0, std::memory_order_relaxed);
  for (auto& word : taken_) word.store(0, std::memory_order_relaxed);
  phase_.fetch_add(1, std::memory_order_release);
  shared_region()->reopen();
}

void VirtualTeam::combine_all() {
  const Combine combine = combine_.exchange(nullptr, std::memory_order_relaxed);
  for (std::uint32_t apart = 1; apart < size_; apart *= 2) {
    for (std::uint32_t to = 0; to + apart < size_; to += 2 * apart) {
      combine(fibres_[to].left, fibres_[to + apart].left);
    }
  }
}

// Called by a thread of the owner that has found no virtual thread left to run in phase `phase`,
// which ends at a barrier. Waits until virtual threads can be claimed again. Returns false if the
// region is over.
bool VirtualTeam::await_phase(Participant& me, std::uint32_t phase) const {
  if (phase == kOver) return false;  // the region ended before this thread came
  // True once `phase` has ended, or its virtual threads can be claimed. A thread that has read the
  // number of a new phase may have come before these could be claimed.
  const auto is_past = [&] {
    return phase_.load(std::memory_order_acquire) != phase || shared_region()->progress() != 0;
  };
  if (me.number == 0) {
    if (!is_past()) shared_region()->await(is_past);
    shared_region()->offer_again(me);
  }
  while (!is_past()) ::sched_yield();
  return phase_.load(std::memory_order_acquire) != kOver;
}

// ---- Thread numbers of virtual threads ----------------------------------------------------------

// Chooses a free thread number for a claim of a virtual thread. There are as many claims as
// numbers, so a number is left for each. A thread of the owner takes the first free number of its
// own part of the team, a helper the last free number.
std::uint32_t VirtualTeam::number_for(const Participant& me, std::uint64_t claim) {
  if (own_threads_ == 1) return static_cast<std::uint32_t>(claim);
  const bool is_owner = me.role == Participant::Role::owner;
  const std::uint64_t first = is_owner ? std::uint64_t{me.number} * size_ / own_threads_ : 0;
  for (std::uint32_t looked = 0;; ++looked) {
    const std::uint64_t at = is_owner ? first + looked : size_ - 1 - looked % size_;
    const auto number = static_cast<std::uint32_t>(at % size_);
    if (take(number)) return number;
  }
}

bool VirtualTeam::take(std::uint32_t number) {
  std::atomic<std::uint64_t>& word = taken_[number / kBits];
  const std::uint64_t bit = 1ULL << (number % kBits);
  if ((word.load(std::memory_order_relaxed) & bit) != 0) return false;
  return (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
}

// ---- StuckWatch: virtual threads that wait for one another --------------------------------------

namespace {

constexpr unsigned kLookEveryS = 1;

// The variables of the watching thread (StuckWatch); g_watched is the region that it looks at.
// relaxed, all: the watching thread acts only if two looks, a second apart, find the same state. It
// joins the region as any helper does, which is safe at any time.
std::atomic<SharedRegion*> g_watched{nullptr};
std::atomic<bool> g_watching{false};
std::atomic<std::uint64_t> g_executions{0};
std::atomic<bool> g_found{false};

void start_watching();

struct Look {
  std::uint64_t execution = 0;
  std::uint64_t progress = 0;
  bool operator==(const Look&) const = default;
};

void* watch(void* /*nothing*/) {
  Look before;
  for (;;) {
    ::sleep(kLookEveryS);
    SharedRegion* const region = g_watched.load(std::memory_order_relaxed);
    Look now{.execution = g_executions.load(std::memory_order_relaxed)};
    if (region != nullptr) now.progress = region->progress();
    const bool is_stuck = now.progress != 0 && now == before;
    before = now;
    if (!is_stuck) continue;
    g_found.store(true, std::memory_order_relaxed);
    start_watching();
    const bool helped = region->unit(0, std::numeric_limits<std::uint64_t>::max());
    if (!helped) g_found.store(false, std::memory_order_relaxed);
    return nullptr;
  }
}

// Starts a thread that watches for virtual threads which wait for others (StuckWatch). It has all
// signals blocked, and a stack at least as large as the stacks of the program's threads.
void start_watching() {
  sigset_t all;
  sigset_t saved;
  sigfillset(&all);
  pthread_attr_t how;
  if (::pthread_attr_init(&how) != 0) return;
  ::pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
  std::size_t usual = 0;
  ::pthread_attr_getstacksize(&how, &usual);
  ::pthread_attr_setstacksize(&how, std::max(usual, stack_for_loops()));
  ::pthread_sigmask(SIG_SETMASK, &all, &saved);
  pthread_t thread{};
  ::pthread_create(&thread, &how, watch, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &saved, nullptr);
  ::pthread_attr_destroy(&how);
}

}  // namespace

StuckWatch::StuckWatch(SharedRegion& region) {
  if (!g_watching.load(std::memory_order_relaxed)) [[unlikely]] {
    if (!g_watching.exchange(true, std::memory_order_relaxed)) start_watching();
  }
  g_executions.fetch_add(1, std::memory_order_relaxed);
  g_watched.store(&region, std::memory_order_relaxed);
}

StuckWatch::~StuckWatch() { g_watched.store(nullptr, std::memory_order_relaxed); }

bool StuckWatch::found() const {
  return g_found.load(std::memory_order_relaxed) &&
         g_found.exchange(false, std::memory_order_relaxed);
}

}  // namespace mh::openmp
