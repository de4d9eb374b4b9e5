// SPDX-License-Identifier: BSD-3-Clause
// The state behind a Job: one socket to rank 0 (there: one to each), and a thread that reads them.
//
// Frames: `part` of a gathering to rank 0, `whole` from it to all, `gone` with the rank that has
// died. A rank is dead when its socket closes; all leave together, in a last gathering.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.hpp"
#include "manyhands/result.hpp"

namespace mh::lci::detail {

struct Frame {
  enum class Kind : std::uint32_t { part, whole, gone };
  Kind kind;
  std::int32_t rank;
  std::uint64_t size;  // of what follows
};

// Of two processes it is the same if memory and processes of one are visible to the other.
std::string this_machine();

class JobState {
 public:
  // `sockets`: rank 0: by rank, the own one empty; else: one, to rank 0.
  JobState(int rank, int size, std::vector<Fd> sockets);
  ~JobState();
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  // relaxed: nothing else is published by a death.
  [[nodiscard]] bool alive(int rank) const {
    return alive_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] unsigned deaths() const { return deaths_.load(std::memory_order_relaxed); }

  Result<std::vector<std::string>> allgather(const std::string& mine,
                                             const std::function<void()>& meanwhile);

 private:
  void watch();
  bool read_frame(int from, int socket);
  // With mutex_ held:
  void take(const Frame& frame, std::string payload);
  void bury(int rank);
  void finish_gathering();
  void send_to_all(const Frame& frame, const std::string& payload);

  const int rank_;
  const int size_;
  const std::vector<Fd> sockets_;
  Fd stop_;  // an eventfd: the watcher is to end
  std::vector<std::atomic<bool>> alive_;
  std::atomic<unsigned> deaths_{0};

  std::mutex mutex_;  // of all below, and of writing to sockets
  std::condition_variable changed_;
  std::vector<std::string> parts_;  // rank 0: of the gathering that is under way
  std::vector<bool> present_;
  std::vector<std::string> whole_;
  bool ready_ = false;  // `whole_` is that of the gathering that is under way
  std::thread watcher_;
};

}  // namespace mh::lci::detail
