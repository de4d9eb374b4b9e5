// SPDX-License-Identifier: BSD-3-Clause
// For tests: the ranks 1 to `count` of a Stage, each a thread that lends its core all the time.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "lend/lender.hpp"
#include "support/stage.hpp"

namespace mh::test {

class Lenders {
 public:
  // Starts the threads. The ranks must have called Stage::enter() before.
  Lenders(Stage& stage, std::uint32_t count) : stage_(stage) {
    for (std::uint32_t rank = 1; rank <= count; ++rank)
      threads_.emplace_back([this, rank] { lend(rank); });
  }
  ~Lenders() { stop(); }
  Lenders(const Lenders&) = delete;
  Lenders& operator=(const Lenders&) = delete;

  void stop() {
    over_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void lend(std::uint32_t rank) {
    lend::Lender lender(stage_.node(rank), 0, lend::VictimPolicy::most_work,
                        [](std::uint32_t, lend::WorkKind) { return true; });
    while (!over_.load()) {
      if (lender.lend() == lend::LendResult::nothing) ::sched_yield();
    }
    lender.take_back();
  }

  Stage& stage_;
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

}  // namespace mh::test
