// SPDX-License-Identifier: BSD-3-Clause
// The posted-receive table: the buffers of a rank's started receives, for senders that push.
//
// A *posted receive* is the contiguous buffer of a started receive. The standard lets a send
// complete once its receive is posted, whatever the receiver does then. But the receiver notices an
// RTS header in a posted buffer only when it is in MPI. Therefore a sender that has waited for a
// while reads the first bytes of the receiver's posted buffers. If it finds its own header, it
// *pushes* the message.
//
// Sender and receiver agree through two words. The rendezvous send's state (send_table.hpp) is
// claimed by a compare-and-swap, so only one of them moves the data; the posted receive's state
// tells a receiver whose descriptor is gone, because data lies there now, that the message was
// pushed.
//
//   free ──receiver──▶ open ──sender──▶ pushing ──sender──▶ pushed ──receiver──▶ free
//                        └──receiver──▶ free   └────sender──▶ open   (the copy failed)
//
// Lies in the node segment. Limit: kPostedReceives a rank; further receives wait for their own
// rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"
#include "base/slot_set.hpp"
#include "p2p/send_table.hpp"

namespace mh::p2p {

enum class PostedState : std::uint32_t { free, open, pushing, pushed };

// The messages that a posted receive takes. Two receives may be posted for one buffer.
struct PostedEnvelope {
  static constexpr std::int32_t kAny = INT32_MIN;

  std::uint64_t communicator = 0;  // its key
  std::int32_t sender = kAny;      // rank on the node
  std::int32_t tag = kAny;

  [[nodiscard]] bool accepts(std::uint64_t key, std::uint32_t from, std::int32_t with) const {
    return key == communicator && (sender == kAny || sender == static_cast<std::int32_t>(from)) &&
           (tag == kAny || tag == with);
  }
};

struct alignas(kCacheLine) PostedReceive {
  // Release on every change, acquire on every look. `address`, `capacity` and the envelope are
  // written by the receiver while free; `bytes` (of the whole message) by the sender while pushing.
  // Relaxed: the state orders them. A sender that reads them while they change asks again, once it
  // has the rendezvous send, whether the posted receive is still that of the buffer in which it
  // found its descriptor.
  std::atomic<PostedState> state{PostedState::free};
  std::atomic<std::uint64_t> address{0};
  std::atomic<std::uint64_t> capacity{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> communicator{0};
  std::atomic<std::int32_t> sender{0};
  std::atomic<std::int32_t> tag{0};

  [[nodiscard]] PostedEnvelope envelope() const {
    return {.communicator = communicator.load(std::memory_order_relaxed),
            .sender = sender.load(std::memory_order_relaxed),
            .tag = tag.load(std::memory_order_relaxed)};
  }

  // With the rendezvous send of the descriptor that lies in `buffer`: true means that only the
  // caller changes this posted receive, since its receiver cannot close it without the send
  // descriptor.
  [[nodiscard]] bool is_of(std::uint64_t buffer) const {
    return state.load(std::memory_order_acquire) == PostedState::open &&
           address.load(std::memory_order_relaxed) == buffer;
  }
};

inline constexpr std::uint32_t kPostedReceives = 128;

struct PostedReceiveTable {
  // 1 + the highest index that was ever open: senders look no further. relaxed: a hint.
  alignas(kCacheLine) std::atomic<std::uint32_t> extent{0};
  PostedReceive posted_receives[kPostedReceives];
};
static_assert(std::is_standard_layout_v<PostedReceiveTable>);
static_assert(sizeof(PostedReceive) == kCacheLine);

// A receive has completed, or its buffer was looked at: who moves the message? Either side may be
// held up between any two steps for as long as the other needs for the whole message.
enum class Mover {
  receiver,   // the rendezvous send is taken: this rank moves the message
  sender,     // it pushes, or has: the posted receive's state tells when that is over
  nobody,     // the bytes in the buffer are an ordinary message
  unsettled,  // the sender has the rendezvous send but may yet give it back: to be asked again
};

// To be asked by the receiver after it has read the buffer. `send` is null if no descriptor lies
// there, else `generation` is the descriptor's; `shown` is null where the sender cannot push.
//
// The order is the point. A sender changes the posted receive before it gives up the send
// descriptor, so the rendezvous send is looked at first: if that is over, a push that ended it is
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

// The receiver's private side. Thread-safe.
class PostedReceives {
 public:
  void attach(PostedReceiveTable* board) { board_ = board; }

  // Null when all are in use.
  PostedReceive* open(void* buffer, std::uint64_t capacity, const PostedEnvelope& envelope = {}) {
    const std::uint32_t index = taken_.take();
    if (index == taken_.kNone) return nullptr;
    PostedReceive& posted = board_->posted_receives[index];
    posted.address.store(reinterpret_cast<std::uint64_t>(buffer), std::memory_order_relaxed);
    posted.capacity.store(capacity, std::memory_order_relaxed);
    posted.communicator.store(envelope.communicator, std::memory_order_relaxed);
    posted.sender.store(envelope.sender, std::memory_order_relaxed);
    posted.tag.store(envelope.tag, std::memory_order_relaxed);
    posted.state.store(PostedState::open, std::memory_order_release);
    if (board_->extent.load(std::memory_order_relaxed) <= index) {
      board_->extent.store(index + 1, std::memory_order_relaxed);
    }
    return &posted;
  }
  // After the receive completed and its message, if it was pushed, is accounted for.
  void close(PostedReceive* posted) {
    posted->state.store(PostedState::free, std::memory_order_release);
    taken_.give_back(static_cast<std::uint32_t>(posted - board_->posted_receives));
  }

 private:
  PostedReceiveTable* board_ = nullptr;
  SlotSet<kPostedReceives> taken_;
};

}  // namespace mh::p2p
