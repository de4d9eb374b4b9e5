// SPDX-License-Identifier: BSD-3-Clause
// Lends the spare cores of a rank whose OpenMP team is idle. A rank that waits lends its spare
// cores to late ranks. A rank with a long loop lends them to its own loop as well.
//
// A *worker* is a thread of this rank that lends one core which belongs to this rank alone (MPI
// Workshare has such workers, which give the rank's whole team to others). A worker sleeps except
// between start() and stop(). A worker runs with the idle scheduling policy, so that it never
// competes with a thread of the program, and does nothing while its core is busy.
//
// Threads are made on the first start(). Limit: kMost workers in a rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/tuning.hpp"
#include "lend/lender.hpp"
#include "node/node.hpp"

namespace mh::lend {

class Workers {
 public:
  // The most workers of a rank, each with a core. An owner can use kHelpers lent cores at a time,
  // and the rank's waiting thread itself lends another core.
  static constexpr std::size_t kMost = kHelpers - 1;

  // Prepares a worker for each of `cpus`. `prompt_ns`: a worker that wakes up later than this after
  // a call of start() stays idle, because its core was busy. The other arguments are those of the
  // workers' lenders (lender.hpp).
  Workers(const node::Node& node, std::size_t offset, VictimPolicy policy,
          const LendFilter& admitted, const std::vector<std::int32_t>& cpus,
          double prompt_ns = tuning::kPromptWorkerNs);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  // Ends the worker threads and takes back the cores that they have lent.
  ~Workers();

  // Lets the workers lend their cores. Called when a thread of this rank waits and another rank
  // offers work, and by the owner of a long loop. Cheap while the workers are awake. Thread-safe.
  void start();
  // Called when a thread of this rank ends its wait or its loop; afterwards the workers lend no
  // core. Helpers on their cores move to their owners' cores. Thread-safe, also while another
  // thread calls start(). Each thread that calls start() also calls stop(), so nothing is lent
  // after the last stop(). A thread that still waits after another thread's stop() calls start()
  // again.
  void stop();

  [[nodiscard]] std::size_t count() const { return workers_.size(); }
  // Units done for other ranks on the workers' cores so far. Thread-safe.
  [[nodiscard]] std::uint64_t units() const { return units_.load(std::memory_order_relaxed); }

 private:
  struct LendingWorker {
    LendingWorker(const node::Node& node, std::size_t offset, VictimPolicy policy,
                  const LendFilter& admitted, std::uint32_t core, std::int32_t where)
        : lender(node, offset, policy, admitted, core), cpu(where) {}
    Lender lender;
    std::int32_t cpu;
    std::thread thread;
  };

  void hire();
  void live(LendingWorker& worker);
  void serve(LendingWorker& worker);

  std::vector<std::unique_ptr<LendingWorker>> workers_;
  std::uint64_t prompt_;
  std::once_flag hiring_;
  std::uint32_t me_;  // this rank

  // The number of times that sleeping workers were called, by start() or the destructor. Also the
  // futex on which the workers sleep. release: publishes called_at_, pairs with the acquire in
  // live().
  std::atomic<std::uint32_t> calls_{0};
  std::atomic<std::uint64_t> called_at_{0};  // ticks, of the last call
  // wanted_: the workers shall lend. ending_: they shall end. asleep_: the number of workers that
  // sleep. relaxed, all three: a worker that sees a stale value lends for a unit more, or not at
  // all.
  std::atomic<bool> wanted_{false};
  std::atomic<bool> ending_{false};
  std::atomic<std::uint32_t> asleep_{0};
  std::atomic<std::uint64_t> units_{0};  // relaxed: a count
};

// Returns the CPUs for the workers of a rank: all of `own` but one, which is left to the rank.
// `own`: CPUs that the rank has for itself. `here`: the CPU on which the rank waits.
std::vector<std::int32_t> cpus_for_workers(const node::CpuSet& own, std::int32_t here);

}  // namespace mh::lend
