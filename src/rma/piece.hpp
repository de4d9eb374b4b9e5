// SPDX-License-Identifier: BSD-3-Clause
// A part of an operation on a target of another node: its message, and its execution by the target.
//
// The stream of an operation is cut into *pieces*, ranges of whole elements; a piece and its result
// fit in one message each. A piece locates its bytes in the target by a grid (layout/compact.hpp),
// or by a list of blocks if the target buffer is no grid. The target carries a piece out as an
// origin on its node would, under the same stripe locks (locks.hpp). A large piece is a job of the
// target, and the other ranks of the target's node help. This file knows no MPI and waits for
// nothing; its objects belong to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "layout/compact.hpp"
#include "rma/operation.hpp"
#include "rma/window.hpp"

namespace mh::rma {

// A *request* makes a rank access its own memory, or reports a step of an epoch; an *answer*
// reports the result of a request.
enum class RmaMessageKind : std::uint8_t {
  // Requests. The first three are counted: the receiver of a counted request reports to the sender
  // how many of them it has carried out.
  operation,  // a piece of an operation
  swap,       // MPI_Compare_and_swap
  unlock,     // the sender releases its lock on the receiver's memory
  lock,       // the sender asks for the lock on the receiver's memory
  post,       // the sender exposes its memory to the receiver
  complete,   // the sender has completed its epoch
  barrier,    // the sender has entered round `number` of a barrier
  // Answers to requests. Their receiver is the rank that has sent the request.
  done,     // the target has carried out `number` counted requests of the receiver
  result,   // the previous target elements, for request `number` of the receiver
  granted,  // the receiver has the lock
};

// The head of every message between ranks of a window on different nodes. It is plain data, sent as
// bytes between processes of one program on machines of one kind. The bytes behind the head are
// aligned to 16 bytes as well.
struct alignas(16) RmaMessage {
  RmaMessageKind kind = RmaMessageKind::operation;
  bool exclusive = false;     // of lock and unlock: the mode
  bool failed = false;        // answer: the request, or one that `number` newly counts, failed
  std::uint32_t blocks = 0;   // blocks listed behind the head, for a target buffer that is no grid
  std::uint32_t from = 0;     // the sender's rank in the window
  std::uint64_t window = 0;   // the window's id, equal on all its ranks, unique in the MPI job
  std::uint64_t number = 0;   // names a request with a result; otherwise see RmaMessageKind
  std::uint64_t address = 0;  // of the target buffer, in the target
  Operation what{};           // `begin` and `bytes` are those of this piece
  layout::Compact shape{};    // of the target buffer; without dimensions: contiguous

  [[nodiscard]] bool is_counted() const { return kind <= RmaMessageKind::unlock; }
};
static_assert(std::is_trivially_copyable_v<RmaMessage>);

// A block of the target buffer of a piece that is no grid. The list of blocks follows the head of
// the message; the origin's bytes follow the list.
struct ListedBlock {
  std::uint64_t address;  // in the target
  std::uint64_t bytes;
};

// A piece of an operation at the origin, which writes it into a message.
class OperationPiece {
 public:
  // Makes the piece that begins at byte `begin` of the operation's stream, with as many bytes as
  // fit in a message of `most` bytes.
  OperationPiece(const BoundOperation& operation, std::uint64_t begin, std::size_t most);

  [[nodiscard]] layout::StreamRange range() const { return range_; }
  // Returns the length of the message in bytes.
  [[nodiscard]] std::size_t bytes() const;
  // Writes the message to `to`. The caller has set the kind, sender, window and number of `head`;
  // the piece sets the other fields.
  void write(RmaMessage head, std::byte* to) const;

 private:
  void list_blocks(std::size_t space);

  const BoundOperation& operation_;
  layout::StreamRange range_{};
  std::optional<layout::Compact> shape_;
  std::vector<ListedBlock> blocks_;
};

// A received piece, or a received MPI_Compare_and_swap, at the target, carried out chunk by chunk.
class PieceRun {
 public:
  // Prepares to carry out a received message. `message` and the bytes behind it, and `result` if
  // there is one, outlive this object. `shared`: the other ranks of this node reach the message and
  // `result`.
  PieceRun(Window& window, const RmaContext& context, const RmaMessage& message, std::byte* result,
           std::uint32_t chunk_bytes, bool shared);

  // Carries out one chunk; a swap, or a piece whose blocks are listed, is carried out at once.
  // Returns true when the piece is over: done or failed.
  [[nodiscard]] bool step(RmaContext& context);
  [[nodiscard]] bool all_claimed() const { return running_ && running_->all_claimed(); }
  [[nodiscard]] bool succeeded() const { return running_ ? running_->succeeded() : succeeded_; }
  // Gives up the chunks that dead ranks have claimed, and so the piece. Precondition:
  // all_claimed().
  void give_up() { running_->give_up(); }

 private:
  Status run_listed(RmaContext& context);

  const RmaMessage& message_;
  const std::byte* origin_;  // the origin's bytes behind the head, if there are any
  std::byte* result_;
  layout::LayoutPtr layout_;
  BoundOperation operation_;
  std::optional<OperationRun> running_;
  bool succeeded_ = true;
};

}  // namespace mh::rma
