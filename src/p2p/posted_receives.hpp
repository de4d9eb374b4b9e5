// SPDX-License-Identifier: BSD-3-Clause
// The posted-receive table: where the receives under way of a rank would have a descriptor land.
//
// Words: a *posted receive* is the contiguous buffer of a started receive. The standard lets a send
// complete once its receive is posted, whatever the receiver does then; but a descriptor in a
// posted buffer is noticed only when the receiver looks. So a sender that has waited a while looks
// itself: it reads the first bytes of the receiver's posted receives, and where its own descriptor
// lies, it *pushes* the message.
//
// Sender and receiver agree through two words. The send descriptor's state (send_queue.hpp) is
// claimed by a compare-and-swap, so only one of them moves the data; the posted receive's state
// tells a receiver whose descriptor is gone, because data lies there now, that the message was
// pushed.
//
//   free ──receiver──▶ open ──sender──▶ pushing ──sender──▶ pushed ──receiver──▶ free
//                        └──receiver──▶ free   └────sender──▶ open   (the copy failed)
//
// Lies in the node segment. Limit: kLandings a rank; further receives wait for their own rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"

namespace mh::p2p {

enum class PostedState : std::uint32_t { free, open, pushing, pushed };

struct alignas(kCacheLine) PostedReceive {
  // Release on every change, acquire on every look. `address` and `capacity` are written by the
  // receiver while free; `bytes` (of the whole message) by the sender while pushing. Relaxed:
  // the state orders them. A sender that reads them while they change asks again, once it has the
  // send descriptor, whether the posted receive is still that of the buffer in which it found its
  // descriptor.
  std::atomic<PostedState> state{PostedState::free};
  std::atomic<std::uint64_t> address{0};
  std::atomic<std::uint64_t> capacity{0};
  std::atomic<std::uint64_t> bytes{0};

  // With the send descriptor of the descriptor that lies in `buffer`: true means that only the
  // caller changes this posted receive, since its receiver cannot close it without the send
  // descriptor.
  [[nodiscard]] bool is_of(std::uint64_t buffer) const {
    return state.load(std::memory_order_acquire) == PostedState::open &&
           address.load(std::memory_order_relaxed) == buffer;
  }
};

inline constexpr std::uint32_t kPostedReceives = 128;

struct PostedReceiveTable {
  // One past the highest posted receive that was ever open: a sender looks no further. Relaxed, a
  // hint.
  alignas(kCacheLine) std::atomic<std::uint32_t> extent{0};
  PostedReceive posted_receives[kPostedReceives];
};
static_assert(std::is_standard_layout_v<PostedReceiveTable>);
static_assert(sizeof(PostedReceive) == kCacheLine);

// The receiver's private side. Thread-safe.
class PostedReceives {
 public:
  void attach(PostedReceiveTable* board) { board_ = board; }

  // Null when all are in use.
  PostedReceive* open(void* buffer, std::uint64_t capacity);
  // After the receive completed and its message, if it was pushed, is accounted for.
  void close(PostedReceive* posted);

 private:
  static constexpr std::uint32_t kWords = kPostedReceives / 64;

  PostedReceiveTable* board_ = nullptr;
  // A bit is set (acquire) by the thread that takes a posted receive and cleared (release) when it
  // is free.
  std::atomic<std::uint64_t> taken_[kWords] = {};
};

}  // namespace mh::p2p
