// SPDX-License-Identifier: BSD-3-Clause
// The landing board: where the receives under way of a rank would have a descriptor land.
//
// Words: a *landing* is the dense buffer of a started receive. The standard lets a send complete
// once its receive is posted, whatever the receiver does then; but a descriptor in a posted buffer
// is noticed only when the receiver looks. So a sender that has waited a while looks itself: it
// reads the first bytes of the receiver's landings, and where its own descriptor lies, it
// *delivers* the message.
//
// Sender and receiver agree through two words. The letter's state (outbox.hpp) is claimed by a
// compare-and-swap, so only one of them moves the data; the landing's state tells a receiver whose
// descriptor is gone, because data lies there now, that the message was delivered.
//
//   free ──receiver──▶ open ──sender──▶ delivering ──sender──▶ delivered ──receiver──▶ free
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

enum class LandingState : std::uint32_t { free, open, delivering, delivered };

struct alignas(kCacheLine) Landing {
  // Release on every change, acquire on every look. `address` and `capacity` are written by the
  // receiver while free; `bytes` (of the whole message) by the sender while delivering. Relaxed:
  // the state orders them, and a sender that reads while they change finds no descriptor of its
  // own.
  std::atomic<LandingState> state{LandingState::free};
  std::atomic<std::uint64_t> address{0};
  std::atomic<std::uint64_t> capacity{0};
  std::atomic<std::uint64_t> bytes{0};
};

inline constexpr std::uint32_t kLandings = 128;

struct LandingBoard {
  // One past the highest landing that was ever open: a sender looks no further. Relaxed, a hint.
  alignas(kCacheLine) std::atomic<std::uint32_t> extent{0};
  Landing landings[kLandings];
};
static_assert(std::is_standard_layout_v<LandingBoard>);
static_assert(sizeof(Landing) == kCacheLine);

// The receiver's private side. Thread-safe.
class Landings {
 public:
  void attach(LandingBoard* board) { board_ = board; }

  // Null when all are in use.
  Landing* open(void* buffer, std::uint64_t capacity);
  // After the receive completed and its message, if it was delivered, is accounted for.
  void close(Landing* landing);

 private:
  static constexpr std::uint32_t kWords = kLandings / 64;

  LandingBoard* board_ = nullptr;
  // A bit is set (acquire) by the thread that takes a landing and cleared (release) when it is
  // free.
  std::atomic<std::uint64_t> taken_[kWords] = {};
};

}  // namespace mh::p2p
