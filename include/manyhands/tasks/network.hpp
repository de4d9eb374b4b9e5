// SPDX-License-Identifier: BSD-3-Clause
// The network interface of task collections. manyhands/tasks/mpi.hpp implements the interface with
// MPI. The library itself makes no MPI call, because the binary interface of MPI differs between
// builds.
//
// The ranks of a node have consecutive numbers. Messages of one tag between two ranks arrive in the
// order of their sends. A call that fails returns a Status; the network cannot be used afterwards.
//
// Threads: one at a time. If threads() is true, two threads may be in calls at the same time, with
// different tags and tickets (handles of operations under way).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "manyhands/result.hpp"

namespace mh::tasks {

enum class Tag : std::uint8_t {
  control,  // messages of termination detection
  request,  // the request of a thief
  answer,   // tasks, or no bytes: none
  balance,  // tasks that a balancer moves
};

class Network {
 public:
  using Ticket = int;  // the name of an operation that has begun
  static constexpr std::uint32_t kAnyone = ~std::uint32_t{0};
  // A message that has arrived at this rank and that take() can receive: its sender, tag and size.
  struct Envelope {
    std::uint32_t from = 0;
    Tag tag = Tag::control;
    std::size_t bytes = 0;
  };

  Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  virtual ~Network() = default;  // collective; all messages have been received by then
  // The collection calls this when a rank has died. The destructor then waits for no rank, and may
  // leave memory behind.
  virtual void abandon() {}

  [[nodiscard]] virtual std::uint32_t rank() const = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const = 0;
  // Returns the number of the first rank of each node, ascending.
  [[nodiscard]] virtual std::span<const std::uint32_t> nodes() const = 0;
  // True: two threads may be in calls of this network at the same time.
  [[nodiscard]] virtual bool threads() const = 0;

  // Returns memory that all ranks of the node share, aligned to a cache line and not initialised.
  // The memory stays until the end of the network. All ranks of the node pass the same `bytes`.
  // Collective.
  virtual Result<std::byte*> share(std::size_t bytes) = 0;

  // Begins to send `data`, which must stay unchanged until done() of the returned ticket is true.
  // `matched`: done() becomes true only after the receiver has begun to take the message.
  virtual Result<Ticket> send(std::uint32_t to, Tag tag, std::span<const std::byte> data,
                              bool matched) = 0;
  // Begins a barrier. The operation ends when all ranks have called barrier(); done() of the
  // returned ticket tells. Collective.
  virtual Result<Ticket> barrier() = 0;
  // True: the operation of `ticket` has ended, and the ticket is no longer valid.
  virtual Result<bool> done(Ticket ticket) = 0;

  // Returns a message that has arrived from rank `from`, or from any rank with kAnyone; nothing:
  // none has arrived. Does not wait. The data of a large message may still be with its sender.
  virtual Result<std::optional<Envelope>> probe(std::uint32_t from, Tag tag) = 0;
  // Receives the message that probe() has returned. `data` has at least `envelope.bytes` bytes.
  virtual Status take(const Envelope& envelope, std::span<std::byte> data) = 0;

  // Reductions over all ranks, in place, element by element. Collective.
  virtual Status sum(std::span<double> values) = 0;
  virtual Status maximum(std::span<double> values) = 0;
};

}  // namespace mh::tasks
