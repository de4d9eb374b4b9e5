// SPDX-License-Identifier: BSD-3-Clause
#include "lend/workers.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "lend/threads.hpp"

namespace mh::lend {
namespace {

// Gives the calling worker the policy SCHED_IDLE, so that it never displaces a thread of the
// program on the worker's core.
void use_idle_policy() {
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
}

}  // namespace

std::vector<std::int32_t> cpus_for_workers(const node::CpuSet& own, std::int32_t here) {
  const std::size_t few = std::min<std::size_t>(own.size(), CPU_SETSIZE);
  std::vector<std::int32_t> cpus;
  std::size_t first = few;  // the CPU left to the rank itself: `here`, else any
  if (here >= 0 && static_cast<std::size_t>(here) < few && own[static_cast<std::size_t>(here)]) {
    first = static_cast<std::size_t>(here);
  }
  for (std::size_t cpu = 0; cpu < few && cpus.size() < Workers::kMost; ++cpu) {
    if (!own[cpu] || cpu == first) continue;
    if (first == few) {
      first = cpu;
    } else {
      cpus.push_back(static_cast<std::int32_t>(cpu));
    }
  }
  return cpus;
}

Workers::Workers(const node::Node& node, std::size_t offset, VictimPolicy policy,
                 const LendFilter& admitted, const std::vector<std::int32_t>& cpus,
                 double prompt_ns)
    : prompt_(ticks_from_ns(prompt_ns)), me_(node.me()) {
  for (const std::int32_t cpu : cpus) {
    const auto core = static_cast<std::uint32_t>(workers_.size() + 1);
    workers_.push_back(std::make_unique<LendingWorker>(node, offset, policy, admitted, core, cpu));
  }
}

Workers::~Workers() {
  stop();
  ending_.store(true, std::memory_order_relaxed);
  calls_.fetch_add(1, std::memory_order_release);
  futex_wake(calls_, static_cast<std::uint32_t>(workers_.size()));
  for (auto& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

void Workers::hire() {
  const SignalsBlocked guard;
  for (auto& worker : workers_) {
    try {
      worker->thread = std::thread([this, &worker] { live(*worker); });
    } catch (const std::system_error&) {
      return;  // the rank does with the workers made so far
    }
    ::pthread_setname_np(worker->thread.native_handle(), "mh-worker");
  }
}

void Workers::start() {
  if (workers_.empty()) return;
  std::call_once(hiring_, [this] { hire(); });
  wanted_.store(true, std::memory_order_relaxed);
  if (asleep_.load(std::memory_order_relaxed) == 0) return;
  called_at_.store(ticks(), std::memory_order_relaxed);
  calls_.fetch_add(1, std::memory_order_release);
  futex_wake(calls_, static_cast<std::uint32_t>(workers_.size()));
}

void Workers::stop() {
  if (!wanted_.load(std::memory_order_relaxed)) return;
  wanted_.store(false, std::memory_order_relaxed);
  for (auto& worker : workers_) worker->lender.recall();
}

void Workers::live(LendingWorker& worker) {
  use_idle_policy();
  if (!bind_thread(::gettid(), worker.cpu)) return;
  for (std::uint32_t seen = 0; !ending_.load(std::memory_order_relaxed);) {
    asleep_.fetch_add(1, std::memory_order_relaxed);
    futex_wait(calls_, seen, tuning::kParkedWorkerNs);
    asleep_.fetch_sub(1, std::memory_order_relaxed);
    // acquire: pairs with the release in start(), which publishes called_at_.
    const std::uint32_t now = calls_.load(std::memory_order_acquire);
    const std::uint64_t late = ticks() - called_at_.load(std::memory_order_relaxed);
    const bool is_called = std::exchange(seen, now) != now;
    if (is_called && late < prompt_) serve(worker);
  }
}

void Workers::serve(LendingWorker& worker) {
  std::uint64_t last_unit = ticks();
  while (wanted_.load(std::memory_order_relaxed)) {
    const LendResult result = worker.lender.lend();
    if (result == LendResult::lent) {
      if (worker.lender.last_owner() != me_) units_.fetch_add(1, std::memory_order_relaxed);
      last_unit = ticks();
    } else if (result != LendResult::still_out) {
      if (ticks() - last_unit > ticks_from_ns(tuning::kWorkerPatienceNs)) break;
      spin_pause();
    }
  }
  worker.lender.take_back();
}

}  // namespace mh::lend
