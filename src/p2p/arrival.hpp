// SPDX-License-Identifier: BSD-3-Clause
// A receive has completed, or its buffer was looked at: who moves the message?
//
// Words: the *letter* is what the sender says of the message (outbox.hpp), named by the descriptor
// in the buffer; the *landing* is what the receiver says of the buffer (landing.hpp). Either side
// may be held up between any two steps for as long as the other needs for the whole message.
#pragma once

#include <atomic>
#include <cstdint>

#include "p2p/landing.hpp"
#include "p2p/outbox.hpp"

namespace mh::p2p {

enum class Mover {
  receiver,   // the letter is taken: this rank moves the message
  sender,     // it delivers, or has: the landing's state tells when that is over
  nobody,     // the bytes in the buffer are an ordinary message
  unsettled,  // the sender has the letter but may yet give it back: to be asked again
};

// To be asked by the receiver after it has read the buffer. `letter` is null if no descriptor lies
// there, else `generation` is the descriptor's; `shown` is null where the sender cannot deliver.
//
// The order is the point. A sender changes the landing before it gives up the letter, so the letter
// is looked at first: if that is over, a delivery that ended it is seen. And it changes the landing
// before it writes the buffer, which was read before this: if the descriptor is gone, so is the
// open state.
inline Mover who_moves(SendSlot* letter, std::uint64_t generation, const Landing* shown) {
  if (letter != nullptr && letter->take(generation)) return Mover::receiver;
  const bool over = letter == nullptr || letter->state_of(generation) == SlotState::free;
  // acquire: keeps the next look behind the bytes of the buffer, which are no atomics.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (shown != nullptr && shown->state.load(std::memory_order_acquire) != LandingState::open) {
    return Mover::sender;
  }
  return over ? Mover::nobody : Mover::unsettled;
}

}  // namespace mh::p2p
