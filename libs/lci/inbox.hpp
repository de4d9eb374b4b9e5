// SPDX-License-Identifier: BSD-3-Clause
// Shared memory into which the ranks of one node write messages for the inbox's owner. The memory
// has no name: other ranks open an inbox by the owner's process id and descriptor. The kernel frees
// the memory after the last process that maps it has ended, even if that process was killed.
//
// Limits: the processes share a PID namespace and may open each other's /proc/PID/fd (one user, no
// restriction such as seccomp). Thread-safety: none.
#pragma once

#include <cstddef>
#include <string>

#include "base/fd.hpp"
#include "lci/byte_ring.hpp"
#include "manyhands/result.hpp"

namespace mh::lci::detail {

// Returns a text that is equal at ranks that one kernel runs, in the same or in different
// containers.
std::string this_kernel();
// Returns a text that is equal at ranks that may be able to open each other's inboxes: those with
// one kernel, one PID namespace and one network namespace.
std::string this_node();

// The memory of an inbox: a ring for each rank that sends to the owner.
class Inbox {
 public:
  Inbox() = default;
  // Makes the owner's inbox, with empty rings. The call allocates all their memory, so no later
  // write of a message can lack memory.
  static Result<Inbox> make(std::size_t rings, std::size_t ring_bytes);
  // Opens the inbox of another rank. `rings` and `ring_bytes` are those of the owner's make();
  // `where` is the result of the owner's where().
  static Result<Inbox> open(const std::string& where, std::size_t rings, std::size_t ring_bytes);
  Inbox(Inbox&& other) noexcept;
  Inbox& operator=(Inbox&& other) noexcept;
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox();

  [[nodiscard]] std::string where() const;
  void close() { fd_.reset(); }  // no process can open the inbox any more
  [[nodiscard]] RingHead* ring(std::size_t index) const;
  [[nodiscard]] std::size_t ring_bytes() const { return ring_bytes_; }
  [[nodiscard]] std::size_t bytes() const { return rings_ * (sizeof(RingHead) + ring_bytes_); }

 private:
  Status map(std::size_t rings, std::size_t ring_bytes);

  Fd fd_;
  std::byte* memory_ = nullptr;
  std::size_t rings_ = 0;
  std::size_t ring_bytes_ = 0;
};

}  // namespace mh::lci::detail
