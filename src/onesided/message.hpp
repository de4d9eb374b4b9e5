// SPDX-License-Identifier: BSD-3-Clause
// What ranks of a window on different nodes send each other: the head of every message.
//
// A *request* asks a rank for something in its own memory, or tells it of a step of an epoch; an
// *answer* tells who asked what came of it. Plain data between processes of one program on like
// machines; what follows the head of an operation is in piece.hpp.
#pragma once

#include <cstdint>
#include <type_traits>

#include "layout/compact.hpp"
#include "onesided/operation.hpp"

namespace mh::onesided {

// What follows it is aligned likewise.
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

}  // namespace mh::onesided
