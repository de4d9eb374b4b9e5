// SPDX-License-Identifier: BSD-3-Clause
// Of the threads of a process that wait, one looks for all: who that is, and how the others sleep.
//
// Words: the *server* is the one thread that looks whether waits are over, its own and those of the
// others. These *sit*: each sleeps on the word of its own seat, and is woken by name, either told
// that its wait is over, or made the server by one whose own wait is.
//
//   waiter                                   server
//   ------                                   ------
//   door: free -> served: it is the server   collect(): whoever has sat down joins the row
//   else: door -> its seat                   tell(): seat of the row whose wait is over -> told
//   sleep while its seat says `sits`         leave(): a seat of the row -> serves, or,
//                                              if nobody sits, door: served -> free
//
// The door is one word, so nobody sits down without a server: a waiter that finds a server puts its
// seat there by the same compare-and-swap that would fail if the server had left, and a server
// leaves by one that fails if somebody has sat down. Seats lie on the stacks of their waiters, so
// there is room for any number. A seat is its waiter's again as soon as its word has changed.
//
// A template over the atomics of light tasks (ult/atomics.hpp), so that the tests can run it
// through all interleavings. No allocation, no lock. Any thread may enter; what is said to be the
// server's may be called by the thread that serves, and by no other.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/cacheline.hpp"

namespace mh::threads {

enum class Seated : std::uint32_t { sits, told, serves };

template <class A>
struct alignas(kCacheLine) Seat {
  // Changed once, by the server (release); partner: the load in Election::await().
  typename A::template Atomic<std::uint32_t> word{static_cast<std::uint32_t>(Seated::sits)};
  // Neighbours in the row. `older` is the waiter's until it has sat down, both are the server's
  // from then on.
  Seat* older = nullptr;
  Seat* newer = nullptr;
};

template <class A>
class alignas(kCacheLine) Election {
 public:
  // True: nobody served, the caller does now.
  bool try_serve() {
    std::uintptr_t seen = door_.load(std::memory_order_relaxed);
    return seen == kFree && take_free_door();
  }

  // As try_serve(); if false, the caller sits, and has to call await().
  bool enter(Seat<A>& seat) {
    std::uintptr_t seen = door_.load(std::memory_order_relaxed);
    for (;;) {
      if (seen == kFree) {
        if (take_free_door()) return true;
        seen = door_.load(std::memory_order_relaxed);
        continue;
      }
      seat.older = seat_at(seen);
      // release: pairs with collect(), which reads the seat.
      if (door_.compare_exchange_strong(seen, reinterpret_cast<std::uintptr_t>(&seat),
                                        std::memory_order_release, std::memory_order_relaxed)) {
        return false;
      }
    }
  }

  // Sleeps until the wait is over (told), or the caller is the server (serves).
  static Seated await(Seat<A>& seat) {
    for (;;) {
      // acquire: pairs with release_seat(). Sees what the server did in this waiter's place, or
      // the row.
      const std::uint32_t word = seat.word.load(std::memory_order_acquire);
      if (word != kSits) return static_cast<Seated>(word);
      A::sleep(seat.word, kSits, 0);
    }
  }

  // --- of the server ---

  // Somebody sits. One load.
  [[nodiscard]] bool has_waiters() const {
    return newest_ != nullptr || door_.load(std::memory_order_relaxed) != kServed;
  }

  // Those who have sat down since join the row. How many they are.
  std::uint32_t collect() {
    if (door_.load(std::memory_order_relaxed) == kServed) return 0;
    // acquire: pairs with enter().
    Seat<A>* seat = seat_at(door_.exchange(kServed, std::memory_order_acquire));
    Seat<A>* const before = newest_;
    std::uint32_t count = 0;
    while (seat != nullptr) {  // the newest first
      Seat<A>* const next = seat->older;
      insert_after(before, *seat);
      seat = next;
      ++count;
    }
    return count;
  }

  // Goes through the row from the oldest on. Whose `is_over(seat)` is woken, until `may_tell()` is
  // false; it is asked before each.
  template <class MayTell, class IsOver>
  void tell(MayTell&& may_tell, IsOver&& is_over) {
    for (Seat<A>* seat = oldest_; seat != nullptr && may_tell();) {
      Seat<A>& looked_at = *seat;
      seat = seat->newer;
      if (is_over(looked_at)) release_seat(looked_at, Seated::told);
    }
  }

  // The caller serves no longer. The next server is whoever sat down last: its message is the least
  // likely to be there already.
  void leave() {
    for (;;) {
      collect();
      if (newest_ != nullptr) return release_seat(*newest_, Seated::serves);
      std::uintptr_t seen = kServed;
      // release: pairs with take_free_door(); the next server sees the empty row.
      if (door_.compare_exchange_strong(seen, kFree, std::memory_order_release,
                                        std::memory_order_relaxed)) {
        return;
      }
    }
  }

 private:
  static constexpr std::uintptr_t kFree = 0;
  static constexpr std::uintptr_t kServed = 1;  // nobody has sat down since; else the newest seat
  static constexpr auto kSits = static_cast<std::uint32_t>(Seated::sits);
  static_assert(alignof(Seat<A>) > kServed);

  static Seat<A>* seat_at(std::uintptr_t door) {
    return door == kServed ? nullptr : reinterpret_cast<Seat<A>*>(door);
  }

  bool take_free_door() {
    std::uintptr_t seen = kFree;
    // acquire: pairs with leave().
    return door_.compare_exchange_strong(seen, kServed, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  void insert_after(Seat<A>* before, Seat<A>& seat) {
    seat.older = before;
    seat.newer = before != nullptr ? before->newer : std::exchange(oldest_, &seat);
    if (before != nullptr) before->newer = &seat;
    (seat.newer != nullptr ? seat.newer->older : newest_) = &seat;
  }

  // Out of the row; its waiter may be gone with it as soon as the word is written.
  void release_seat(Seat<A>& seat, Seated as) {
    (seat.older != nullptr ? seat.older->newer : oldest_) = seat.newer;
    (seat.newer != nullptr ? seat.newer->older : newest_) = seat.older;
    // release: pairs with await().
    seat.word.store(static_cast<std::uint32_t>(as), std::memory_order_release);
    A::wake(&seat.word);
  }

  // By every waiter.
  typename A::template Atomic<std::uintptr_t> door_{kFree};
  // The row, by the server.
  alignas(kCacheLine) Seat<A>* oldest_ = nullptr;
  Seat<A>* newest_ = nullptr;
};

}  // namespace mh::threads
