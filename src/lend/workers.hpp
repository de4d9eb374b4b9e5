// SPDX-License-Identifier: BSD-3-Clause
// The other cores of a rank that waits: its team of threads has nothing to do either.
//
// Words: a *worker* is a thread of this rank that lends one core which belongs to this rank alone
// (the workers of MPI Workshare, which give their whole team to others). It sleeps but for the time
// between start() and stop(), runs with the idle scheduling policy, so that it never competes with
// a thread of the program, and does nothing where its core turns out to be busy.
//
// Made on the first start(). Limit: kMost workers a rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/tuning.hpp"
#include "lend/lender.hpp"
#include "node/node.hpp"

namespace mh::lend {

class Workers {
 public:
  static constexpr std::size_t kMost = kHelpers - 1;  // the core it waits on lends the rank itself

  // One worker for each of `cpus`. The other arguments are the lenders'.
  Workers(const node::Node& node, std::size_t offset, VictimPolicy policy,
          const Admission& admitted, const std::vector<std::int32_t>& cpus,
          double prompt_ns = tuning::kPromptWorkerNs);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  // Ends the threads; takes the cores back.
  ~Workers();

  // A thread of this rank waits and somebody has work. Cheap while the workers are at it. One
  // thread at a time: the one that lends for its rank.
  void start();
  // A thread of this rank that has waited goes on: no core is lent any more. Helpers that have one
  // go to their owners'. Any thread, beside start() too: whoever starts stops later, so nothing is
  // lent when the last has stopped; another that still waits starts again.
  void stop();

  // Units done on the workers' cores so far. Any thread.
  [[nodiscard]] std::uint64_t units() const { return units_.load(std::memory_order_relaxed); }

 private:
  struct Worker {
    Worker(const node::Node& node, std::size_t offset, VictimPolicy policy,
           const Admission& admitted, std::uint32_t core, std::int32_t where)
        : lender(node, offset, policy, admitted, core), cpu(where) {}
    Lender lender;
    std::int32_t cpu;
    std::thread thread;
  };

  void hire();
  void live(Worker& worker);
  void serve(Worker& worker);

  std::vector<std::unique_ptr<Worker>> workers_;
  std::uint64_t prompt_;
  bool hired_ = false;  // of the thread that calls start()

  // Calls so far: the futex of the workers. Release, pairs with the workers' acquire: they see when
  // the call was made.
  std::atomic<std::uint32_t> calls_{0};
  std::atomic<std::uint64_t> called_at_{0};  // ticks
  // Relaxed, all three: a worker that sees them late lends for a unit more, or not at all.
  std::atomic<bool> wanted_{false};
  std::atomic<bool> ending_{false};
  std::atomic<std::uint32_t> asleep_{0};
  std::atomic<std::uint64_t> units_{0};
};

// The CPUs for the workers of a rank that may run on `own` CPUs of its own and waits on `here`.
std::vector<std::int32_t> cpus_for_workers(const node::CpuSet& own, std::int32_t here);

}  // namespace mh::lend
