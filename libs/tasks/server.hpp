// SPDX-License-Identifier: BSD-3-Clause
// The optional thread of a rank that answers the steal requests of other nodes while a task runs
// (Config::server). The thread sleeps between polls, so it takes little of the worker's core.
//
// Threads: the worker starts and ends the server, and does not use the answerer while the server
// runs.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "tasks/answerer.hpp"

namespace mh::tasks {

class AnswerServer {
 public:
  explicit AnswerServer(NodeAnswerer& answerer)
      : answerer_(answerer), thread_([this] { serve(); }) {}
  AnswerServer(const AnswerServer&) = delete;
  AnswerServer& operator=(const AnswerServer&) = delete;
  ~AnswerServer() { static_cast<void>(end()); }

  static constexpr std::chrono::microseconds kBetween{20};  // between polls, plus the timer's slack

  // Waits until the answers under way have been sent, and ends the server thread. Returns the first
  // failure of the network that the thread met.
  Status end() {
    // relaxed: the flag only ends the thread's loop; join() orders the thread's writes.
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

  NodeAnswerer& answerer_;
  Status status_;  // only the thread uses it until the thread has ended
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace mh::tasks
