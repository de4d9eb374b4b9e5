// SPDX-License-Identifier: BSD-3-Clause
// The posted-receive table: the buffers of a rank's started receives, for senders that push.
//
// A *posted receive* is the contiguous buffer of a started receive. The standard lets a send
// complete once its receive is posted, whatever the receiver does then. But the receiver notices an
// RTS header in a posted buffer only when it is in MPI. Therefore a sender that has waited for a
// while reads the first bytes of the receiver's posted buffers. If it finds its own header, it
// *pushes* the message.
//
// Sender and receiver agree through two words. A compare-and-swap on the state of the send's slot
// (send_table.hpp) decides which of them moves the data. A push overwrites the RTS header; the
// posted receive's state tells the receiver then that the message was pushed.
//
//   free ──receiver──▶ open ──sender──▶ pushing ──sender──▶ pushed ──receiver──▶ free
//                        └──receiver──▶ free   └────sender──▶ open   (the copy failed)
//
// The table lies in the node segment. Limit: kPostedReceives a rank; the receiver itself copies the
// messages of further receives.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"
#include "base/slot_set.hpp"
#include "p2p/send_table.hpp"

namespace mh::p2p {

enum class PostedState : std::uint32_t { free, open, pushing, pushed };

// Says which messages match a posted receive. A sender that finds its RTS header in the buffer also
// checks this envelope, because two receives may be posted for one buffer.
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
  // The memory orders. `state`: release on every change, acquire on every read. The receiver writes
  // `address`, `capacity` and the envelope while the state is free; the sender writes `bytes` (of
  // the whole message) while it is pushing. All of these are relaxed, because the state orders
  // them. A sender may read them while they change. After it has taken its send (send_table.hpp),
  // it therefore checks by is_of() that the posted receive still belongs to the buffer in which it
  // found its RTS header.
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

  // Called by the sender after it has taken the send whose RTS header lies in `buffer`. True if
  // this posted receive is still that of `buffer`. If so, only the caller changes it from now on:
  // the receiver waits for the sender that has taken the send.
  [[nodiscard]] bool is_of(std::uint64_t buffer) const {
    return state.load(std::memory_order_acquire) == PostedState::open &&
           address.load(std::memory_order_relaxed) == buffer;
  }
};

inline constexpr std::uint32_t kPostedReceives = 128;

struct PostedReceiveTable {
  // 1 + the highest index in the table that was ever open. Senders look at no entry behind it.
  // Raised by the receiver's threads in open(). relaxed: a sender that reads an old value misses an
  // entry, and looks again.
  alignas(kCacheLine) std::atomic<std::uint32_t> extent{0};
  PostedReceive posted_receives[kPostedReceives];
};
static_assert(std::is_standard_layout_v<PostedReceiveTable>);
static_assert(sizeof(PostedReceive) == kCacheLine);

// Tells which rank, sender or receiver, moves the message of a receive whose buffer may be posted.
// Between any two steps of either rank, the other may move the whole message.
enum class Mover {
  receiver,   // the receiver has taken the send
  sender,     // the sender pushes, or has pushed: the posted receive's state tells when it is done
  nobody,     // the bytes in the buffer are an ordinary message
  unsettled,  // the sender has taken the send and may return it: the receiver asks again
};

// Takes the send for the receiver if the send is still posted; otherwise finds out which rank moves
// the message. Called by the receiver after it has read the receive buffer. `send` is null if no
// RTS header lies there; otherwise it is the header's slot, and `generation`, of the header, tells
// which of the slot's sends is meant. `posted` is null if the buffer is not posted, so that the
// sender cannot push.
//
// The order of the reads matters. A sender changes the posted receive before it ends the send. This
// function therefore reads the send first: if a push has ended the send, the function sees the
// changed posted receive. A sender also changes the posted receive before it writes the buffer, and
// the caller has read the buffer before the call. Therefore, if a push has overwritten the header,
// the function sees that the posted receive is not open.
inline Mover settle_mover(SendSlot* send, std::uint64_t generation, const PostedReceive* posted) {
  if (send != nullptr && send->take(generation)) return Mover::receiver;
  const bool over = send == nullptr || send->state_of(generation) == SlotState::free;
  // acquire: orders the next read, of the posted receive's state, behind the caller's reads of the
  // receive buffer, whose bytes are not atomic.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (posted != nullptr && posted->state.load(std::memory_order_acquire) != PostedState::open) {
    return Mover::sender;
  }
  return over ? Mover::nobody : Mover::unsettled;
}

// The receiver's private side of its posted-receive table: which entries are in use. Thread-safe.
class PostedReceives {
 public:
  void attach(PostedReceiveTable* table) { table_ = table; }

  // Posts the buffer of a started receive; null if all entries of the table are in use.
  PostedReceive* open(void* buffer, std::uint64_t capacity, const PostedEnvelope& envelope = {}) {
    const std::uint32_t index = taken_.take();
    if (index == taken_.kNone) return nullptr;
    PostedReceive& posted = table_->posted_receives[index];
    posted.address.store(reinterpret_cast<std::uint64_t>(buffer), std::memory_order_relaxed);
    posted.capacity.store(capacity, std::memory_order_relaxed);
    posted.communicator.store(envelope.communicator, std::memory_order_relaxed);
    posted.sender.store(envelope.sender, std::memory_order_relaxed);
    posted.tag.store(envelope.tag, std::memory_order_relaxed);
    posted.state.store(PostedState::open, std::memory_order_release);
    raise_extent(index + 1);
    return &posted;
  }
  // Ends a posted receive, so that its entry is free again. Called after the receive has completed.
  // If its message was pushed, the caller must have read `bytes` by then.
  void close(PostedReceive* posted) {
    posted->state.store(PostedState::free, std::memory_order_release);
    taken_.give_back(static_cast<std::uint32_t>(posted - table_->posted_receives));
  }

 private:
  void raise_extent(std::uint32_t least) {
    std::uint32_t extent = table_->extent.load(std::memory_order_relaxed);
    while (extent < least &&
           !table_->extent.compare_exchange_weak(extent, least, std::memory_order_relaxed)) {
    }
  }

  PostedReceiveTable* table_ = nullptr;
  SlotSet<kPostedReceives> taken_;
};

}  // namespace mh::p2p
