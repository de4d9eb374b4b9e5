// SPDX-License-Identifier: BSD-3-Clause
// The state of a Job: one socket to rank 0 (at rank 0: one to each rank), and a thread, the
// watcher, that reads the sockets.
//
// Frames (messages on the sockets): `part` is a rank's text of an allgather, sent to rank 0.
// `whole` is the result, sent by rank 0 to all ranks. `gone` names a dead rank. A rank is dead when
// its socket closes. All ranks leave together, in a last allgather.
//
// Thread-safety: allgather() by one thread at a time, all else from any thread.
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
  std::uint64_t size;  // bytes of the payload that follows
};

// Returns a text that is equal in processes that see each other's memory and process ids.
std::string this_machine();

class JobState {
 public:
  // Starts the watcher thread. `sockets`: at rank 0 a socket to each rank, by rank, invalid for
  // rank 0 itself; at all other ranks one socket, to rank 0.
  JobState(int rank, int size, std::vector<Fd> sockets);
  ~JobState();
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  // False: the rank has died. relaxed: a death publishes no other data.
  [[nodiscard]] bool alive(int rank) const {
    return alive_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] unsigned deaths() const { return deaths_.load(std::memory_order_relaxed); }

  Result<std::vector<std::string>> allgather(const std::string& mine,
                                             const std::function<void()>& meanwhile);

 private:
  void watch();
  bool read_frame(int from, int socket);
  // The caller of these functions holds mutex_. take() handles a frame that has arrived, bury() the
  // death of a rank. Only rank 0 calls finish_gathering() and send_to_all().
  void take(const Frame& frame, std::string payload);
  void bury(int rank);
  void finish_gathering();
  void send_to_all(const Frame& frame, const std::string& payload);

  const int rank_;
  const int size_;
  const std::vector<Fd> sockets_;
  Fd stop_;  // an eventfd that ends the watcher
  std::vector<std::atomic<bool>> alive_;
  std::atomic<unsigned> deaths_{0};

  std::mutex mutex_;  // guards all members below but the thread, and the writes to sockets
  std::condition_variable changed_;
  std::vector<std::string> parts_;  // rank 0: the parts of the current allgather
  std::vector<bool> present_;       // rank 0: by rank, whether the part has arrived
  std::vector<std::string> whole_;
  bool ready_ = false;  // whole_ is the result of the current allgather
  std::thread watcher_;
};

}  // namespace mh::lci::detail
