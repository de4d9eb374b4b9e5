// SPDX-License-Identifier: BSD-3-Clause
// The optional thread of a rank that answers other nodes while a task runs (Config::server). It
// sleeps between its looks, so that it takes little of the worker's core.
//
// Threads: made and ended by the worker, which leaves the answerer alone meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "tasks/answerer.hpp"

namespace mh::tasks {

class AnswerServer {
 public:
  explicit AnswerServer(Answerer& answerer) : answerer_(answerer), thread_([this] { serve(); }) {}
  AnswerServer(const AnswerServer&) = delete;
  AnswerServer& operator=(const AnswerServer&) = delete;
  ~AnswerServer() { static_cast<void>(end()); }

  // It has answered all that it has begun to answer, unless it failed.
  Status end() {
    // relaxed: join() orders what the thread did.
    ending_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  void serve() {
    while (status_.ok() && !(ending_.load(std::memory_order_relaxed) && answerer_.at_rest())) {
      status_ = answerer_.turn();
      std::this_thread::sleep_for(kBetween);
    }
  }

  static constexpr std::chrono::microseconds kBetween{20};
  Answerer& answerer_;
  Status status_;  // the thread's, until it has ended
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace mh::tasks
