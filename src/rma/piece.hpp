// SPDX-License-Identifier: BSD-3-Clause
// A part of an operation on a target of another node: how it travels, and how the target carries it
// out.
//
// The stream of an operation is cut into *pieces*, ranges between two elements, each of which fits
// into one message, as does its result. A piece says where its bytes lie in the target: by a grid
// (layout/compact.hpp), or, where the target's end is none, by a list of blocks. The target carries
// it out as an origin of its own node would, under the same stripe locks; a large one is a job of
// the target, with which the ranks of its node help. Knows no MPI and waits for nothing.
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

// The head of every message between ranks of a window on different nodes. A *request* asks a rank
// for something in its own memory, or tells it of a step of an epoch; an *answer* tells who asked
// what came of it. Plain data between processes of one program on like machines. What follows it is
// aligned likewise.
struct alignas(16) Message {
  enum class Kind : std::uint8_t {
    // Requests. The first three are counted: the target answers how many it has carried out.
    operation,  // a piece of an operation
    swap,       // MPI_Compare_and_swap
    unlock,
    lock,
    post,      // the sender exposes its memory to the receiver
    complete,  // the sender has completed its epoch
    barrier,   // the sender has come to round `number` of a barrier
    // Answers.
    done,     // `number` counted requests of the receiver so far
    result,   // of the request with that number
    granted,  // the lock
  };

  Kind kind = Kind::operation;
  bool exclusive = false;     // the lock
  bool failed = false;        // in an answer: what was asked for
  std::uint32_t blocks = 0;   // of a target that is no grid, listed behind the head
  std::uint32_t from = 0;     // the sender's rank in the window
  std::uint64_t window = 0;   // the same number on all its ranks, and no other window's
  std::uint64_t number = 0;   // of a request that has a result; see the kinds
  std::uint64_t address = 0;  // of the target's end, in the target
  Operation what{};           // its bytes from `begin` on are this piece
  layout::Compact shape{};    // of the target's end; without dimensions: contiguous

  [[nodiscard]] bool is_counted() const { return kind <= Kind::unlock; }
};
static_assert(std::is_trivially_copyable_v<Message>);

// Behind the head of a piece without a grid, before the origin's bytes.
struct ListedBlock {
  std::uint64_t address;  // in the target
  std::uint64_t bytes;
};

// At the origin.
class Piece {
 public:
  // What of the operation, from byte `begin` of its stream on, fits into `most` bytes.
  Piece(const Task& task, std::uint64_t begin, std::size_t most);

  [[nodiscard]] layout::Range range() const { return range_; }
  // Of the message.
  [[nodiscard]] std::size_t bytes() const;
  // With `head` in front, whose kind, sender, window and number are the caller's.
  void write(Message head, std::byte* to) const;

 private:
  void list_blocks(std::size_t room);

  const Task& task_;
  layout::Range range_{};
  std::optional<layout::Compact> shape_;
  std::vector<ListedBlock> blocks_;
};

// At the target: carries out an operation or a swap that has come, chunk by chunk.
class PieceRun {
 public:
  // `message` and what follows it, and `result` if it has one, stay where they are. As Running.
  PieceRun(Window& window, const Hands& hands, const Message& message, std::byte* result,
           std::uint32_t chunk_bytes, bool shared);

  // True when all is done.
  [[nodiscard]] bool step(Hands& hands);
  [[nodiscard]] bool all_claimed() const { return running_ && running_->all_claimed(); }
  [[nodiscard]] bool succeeded() const { return running_ ? running_->succeeded() : succeeded_; }
  void give_up() { running_->give_up(); }

 private:
  Status run_listed(Hands& hands);

  const Message& message_;
  const std::byte* origin_;  // the bytes of the origin, if it has any
  std::byte* result_;
  layout::LayoutPtr layout_;
  Task task_;
  std::optional<Running> running_;
  bool succeeded_ = true;
};

}  // namespace mh::rma
