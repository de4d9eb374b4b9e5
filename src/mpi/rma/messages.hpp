// SPDX-License-Identifier: BSD-3-Clause
// The messages of windows over several nodes, as bytes: buffers, sends under way, received
// messages.
//
// A message is sent from a buffer of Manyhands, which is freed when the library has sent the
// message. A send therefore does not depend on its receiver. Short buffers are allocated; long
// buffers are piece buffers of the internode pipelines (internode/pieces.hpp). Messages of a sender
// are received in the order of sending, each into a buffer of its size. No function waits for
// another rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "mpi/abi.hpp"
#include "mpi/internode/pieces.hpp"
#include "mpi/tags.hpp"
#include "rma/piece.hpp"

namespace mh::mpi::rma::messages {

inline constexpr std::size_t kMost = internode::kPiece;  // bytes of a message

class MessageBuffer {
 public:
  MessageBuffer() = default;
  // Allocates `bytes` bytes; the buffer is empty if memory is short.
  explicit MessageBuffer(std::size_t bytes);

  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return data_ == nullptr; }
  [[nodiscard]] bool is_long() const { return data_.get_deleter().is_long; }

 private:
  static constexpr std::size_t kShort = 4096;  // bytes; a longer buffer is a piece buffer

  struct BufferDeleter {
    bool is_long;
    void operator()(std::byte* data) const;
  };

  std::unique_ptr<std::byte, BufferDeleter> data_;
  std::size_t bytes_ = 0;
};

// Starts to send a message to a rank of MPI_COMM_WORLD; the function owns the buffer from then on.
// Thread-safe. Returns false if the library refuses.
bool send_message(int world_rank, const tags::TagRange& tag, MessageBuffer buffer);
// Frees the buffers of messages that the library has sent. Returns true if no send is under way,
// and false if some are, or if another thread is in this function or in send_message().
// Thread-safe.
bool free_sent_buffers();
// Returns how many long messages (MessageBuffer::is_long()) of this rank the library has not sent
// yet.
std::uint32_t long_messages_under_way();

// The messages with one tag that this rank receives. Used by one thread at a time.
class MessageInbox {
 public:
  explicit MessageInbox(const tags::TagRange& tag) : tag_(tag.first) {}

  // Starts to receive the messages that have come to the library; returns true if there were any.
  bool start_receives();
  enum class Acceptance : std::uint8_t { accepted, not_now, stop };
  using Handler = std::function<Acceptance(MessageBuffer&)>;
  // Calls handler(message) for the completely received messages, and removes those that it accepts.
  // If a message of a sender is incomplete or not accepted, the later messages of this sender wait.
  // Ends when the handler returns `stop`.
  void for_each(const Handler& handler);

 private:
  static constexpr std::size_t kMostAtATime = 32;

  struct IncomingRmaMessage {
    int from;
    MessageBuffer buffer;
    MPI_Request request;
    bool is_complete;  // MPI_Test has completed `request`
  };

  int tag_;
  std::deque<IncomingRmaMessage> incoming_;
};

inline const mh::rma::RmaMessage& head_of(const MessageBuffer& buffer) {
  return *reinterpret_cast<const mh::rma::RmaMessage*>(buffer.data());
}

}  // namespace mh::mpi::rma::messages
