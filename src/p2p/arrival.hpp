// SPDX-License-Identifier: BSD-3-Clause
// A receive has completed, or its buffer was looked at: who moves the message?
//
// Words: the *send descriptor* is what the sender says of the message (send_queue.hpp), named by
// the descriptor in the buffer; the *posted receive* is what the receiver says of the buffer
// (posted_receives.hpp). Either side may be held up between any two steps for as long as the other
// needs for the whole message.
#pragma once

#include <atomic>
#include <cstdint>

#include "p2p/posted_receives.hpp"
#include "p2p/send_queue.hpp"

namespace mh::p2p {

enum class Mover {
  receiver,   // the send descriptor is taken: this rank moves the message
  sender,     // it pushes, or has: the posted receive's state tells when that is over
  nobody,     // the bytes in the buffer are an ordinary message
  unsettled,  // the sender has the send descriptor but may yet give it back: to be asked again
};

// To be asked by the receiver after it has read the buffer. `send descriptor` is null if no
// descriptor lies there, else `generation` is the descriptor's; `shown` is null where the sender
// cannot push.
//
// The order is the point. A sender changes the posted receive before it gives up the send
// descriptor, so the send descriptor is looked at first: if that is over, a push that ended it is
// seen. And it changes the posted receive before it writes the buffer, which was read before this:
// if the descriptor is gone, so is the open state.
inline Mover who_moves(SendSlot* send, std::uint64_t generation, const PostedReceive* shown) {
  if (send != nullptr && send->take(generation)) return Mover::receiver;
  const bool over = send == nullptr || send->state_of(generation) == SlotState::free;
  // acquire: keeps the next look behind the bytes of the buffer, which are no atomics.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (shown != nullptr && shown->state.load(std::memory_order_acquire) != PostedState::open) {
    return Mover::sender;
  }
  return over ? Mover::nobody : Mover::unsettled;
}

}  // namespace mh::p2p
