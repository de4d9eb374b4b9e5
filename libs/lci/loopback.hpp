// SPDX-License-Identifier: BSD-3-Clause
// A transport between ranks of one process, for tests. It delivers in order and at once. On request
// it simulates rare events of a network: refused sends, a message that finds no posted packet, the
// death of a peer.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "lci/transport.hpp"

namespace mh::lci::detail {

// The network of `size` ranks in one process. It must outlive the transports that join() returns.
class LoopbackNetwork {
 public:
  explicit LoopbackNetwork(int size) : ports_(static_cast<std::size_t>(size)) {}

  std::unique_ptr<Transport> join(int rank);

  // The most packets that a rank may post at a time; a test sets the number before the first
  // join().
  std::size_t post_limit = std::size_t{1} << 16U;

  // Faults that a test injects. Any thread may call these functions.
  void refuse(int rank, int times) { port(rank).refuse.store(times); }  // the next sends of `rank`
  void kill(int rank);
  // Returns the greatest number of messages that have waited at `rank` for a posted packet.
  std::size_t most_unposted(int rank);

 private:
  friend class Loopback;

  struct Flight {
    Header header;
    std::vector<std::byte> data;
  };
  struct LoopbackPacket {
    std::span<std::byte> payload;
    NetContext* context;
  };
  struct Port {
    std::mutex mutex;  // guards all members but the atomics
    std::deque<Flight> inbox;
    std::deque<LoopbackPacket> posted;
    std::deque<NetEvent> events;
    std::size_t most_unposted = 0;
    std::atomic<int> refuse{0};
    std::atomic<bool> dead{false};
  };
  Port& port(int rank) { return ports_[static_cast<std::size_t>(rank)]; }

  std::vector<Port> ports_;
};

}  // namespace mh::lci::detail
