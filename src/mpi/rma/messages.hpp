// SPDX-License-Identifier: BSD-3-Clause
// The messages of windows over several nodes, as bytes: buffers, what is on its way, what has come.
//
// A message is sent from a buffer of ours, which is given back when the library has taken it; so a
// send needs nothing of its receiver. Short buffers are allocated, long ones are those of internode
// pipelines (protocol/internode_pieces.hpp). What comes is received into buffers of its size, in
// the order of its sender. Nothing here waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "mpi/abi.hpp"
#include "mpi/protocol/internode_pieces.hpp"
#include "mpi/tags.hpp"
#include "rma/piece.hpp"

namespace mh::mpi::rma::messages {

inline constexpr std::size_t kMost = internode::kPiece;  // bytes of a message

class Buffer {
 public:
  Buffer() = default;
  // Empty where memory is short.
  explicit Buffer(std::size_t bytes);

  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return data_ == nullptr; }
  [[nodiscard]] bool is_long() const { return data_.get_deleter().is_long; }

 private:
  static constexpr std::size_t kShort = 4096;

  struct GiveBack {
    bool is_long;
    void operator()(std::byte* data) const;
  };

  std::unique_ptr<std::byte, GiveBack> data_;
  std::size_t bytes_ = 0;
};

// Any thread. False if the library refuses.
bool send(int world_rank, const tags::Range& tag, Buffer buffer);
// Gives back what the library has taken. True if nothing is on its way any more.
bool reap();
// Long messages that this rank has under way.
std::uint32_t long_ones();

// What has come with one tag. One thread at a time.
class Inbox {
 public:
  explicit Inbox(const tags::Range& tag) : tag_(tag.first) {}

  // Begins to receive what the library has; true if there was something new.
  bool look();
  // Takes out every message that is here and that handle(message) accepts (true); of a sender whose
  // message is not here yet, or not accepted, none after it. Stops when handle() says so.
  enum class Taken : std::uint8_t { yes, not_now, stop };
  using Handle = std::function<Taken(Buffer&)>;
  void for_each(const Handle& handle);

 private:
  static constexpr std::size_t kMostAtATime = 32;

  struct Letter {
    int from;
    Buffer buffer;
    MPI_Request request;
    bool here;
  };

  int tag_;
  std::deque<Letter> letters_;
};

inline const mh::rma::Message& head_of(const Buffer& buffer) {
  return *reinterpret_cast<const mh::rma::Message*>(buffer.data());
}

}  // namespace mh::mpi::rma::messages
