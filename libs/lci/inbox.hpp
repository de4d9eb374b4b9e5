// SPDX-License-Identifier: BSD-3-Clause
// Memory into which the ranks of one node write for each other. It has no name: a rank makes it,
// the others open it by the rank's process id and descriptor, and it is gone with the last that
// has it, however that ends.
//
// Limits: all see each other's processes (one PID namespace) and may look into /proc/PID/fd (one
// user, and nobody has forbidden it).
#pragma once

#include <cstddef>
#include <string>

#include "base/fd.hpp"
#include "lci/byte_ring.hpp"
#include "manyhands/result.hpp"

namespace mh::lci::detail {

// The same text at ranks that can open each other's inboxes.
std::string this_node();

// One ring for each rank that sends here.
class Inbox {
 public:
  Inbox() = default;
  // All rings empty. Its memory is there: nobody will find it missing when it is written to.
  static Result<Inbox> make(std::size_t rings, std::size_t ring_bytes);
  // What another has made, of the same shape; `where` is what its where() gives.
  static Result<Inbox> open(const std::string& where, std::size_t rings, std::size_t ring_bytes);
  Inbox(Inbox&& other) noexcept;
  Inbox& operator=(Inbox&& other) noexcept;
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox();

  [[nodiscard]] std::string where() const;
  void close() { fd_.reset(); }  // nobody opens it any more
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
