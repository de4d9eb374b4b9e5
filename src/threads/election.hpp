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
//   else: door -> its seat                   look(): seats of the row whose waits are over -> ready
//   sleep while its seat says `sits`         tell_*(): a ready seat -> told
//                                            leave(): a seat of the row -> serves, or, if there is
//                                              none: all ready ones -> told, door: served -> free
//
// The door is one word, so nobody sits down without a server: a waiter that finds a server puts its
// seat there by the same compare-and-swap that would fail if the server had left, and a server
// leaves by one that fails if somebody has sat down. Seats lie on the stacks of their waiters, so
// there is room for any number. A seat is its waiter's again as soon as its word has changed.
//
// A template over the atomics of a process (base/atomics.hpp), so that the tests can run it
// through all interleavings. No allocation, no lock. Any thread may enter; what is said to be the
// server's may be called by the thread that serves, and by no other.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"

namespace mh::threads {

enum class Seated : std::uint32_t { sits, told, serves };

template <class A>
struct alignas(kCacheLine) Seat {
  // Changed once, by the server (release); partner: the load in Election::await().
  typename A::template Atomic<std::uint32_t> word{static_cast<std::uint32_t>(Seated::sits)};
  // Neighbours in a row. `older` is the waiter's until it has sat down, both are the server's from
  // then on.
  Seat* older = nullptr;
  Seat* newer = nullptr;
};

// Seats by age.
template <class A>
class Row {
 public:
  [[nodiscard]] Seat<A>* oldest() const { return oldest_; }
  [[nodiscard]] Seat<A>* newest() const { return newest_; }

  // Behind `before`; null: as the oldest.
  void insert_after(Seat<A>* before, Seat<A>& seat) {
    seat.older = before;
    seat.newer = before != nullptr ? before->newer : oldest_;
    (seat.older != nullptr ? seat.older->newer : oldest_) = &seat;
    (seat.newer != nullptr ? seat.newer->older : newest_) = &seat;
  }
  void remove(Seat<A>& seat) {
    (seat.older != nullptr ? seat.older->newer : oldest_) = seat.newer;
    (seat.newer != nullptr ? seat.newer->older : newest_) = seat.older;
  }

 private:
  Seat<A>* oldest_ = nullptr;
  Seat<A>* newest_ = nullptr;
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
    return row_.oldest() != nullptr || has_ready() ||
           door_.load(std::memory_order_relaxed) != kServed;
  }
  // ... whose wait is over.
  [[nodiscard]] bool has_ready() const { return ready_.oldest() != nullptr; }

  // Those who have sat down since join the row.
  void collect() {
    if (door_.load(std::memory_order_relaxed) == kServed) return;
    // acquire: pairs with enter().
    Seat<A>* seat = seat_at(door_.exchange(kServed, std::memory_order_acquire));
    Seat<A>* const before = row_.newest();
    while (seat != nullptr) {  // the newest first
      Seat<A>* const next = seat->older;
      row_.insert_after(before, *seat);
      seat = next;
    }
  }

  // Asks `is_over(seat)` for each of the row; it is not asked again once it was true. True: of
  // some.
  template <class IsOver>
  bool look(IsOver&& is_over) {
    bool any = false;
    for (Seat<A>* seat = row_.oldest(); seat != nullptr;) {
      Seat<A>& looked_at = *seat;
      seat = seat->newer;
      if (!is_over(looked_at)) continue;
      row_.remove(looked_at);
      ready_.insert_after(ready_.newest(), looked_at);
      any = true;
    }
    return any;
  }

  // One that is ready is told. There must be one.
  void tell_oldest() { release_seat(ready_, *ready_.oldest(), Seated::told); }
  void tell_newest() { release_seat(ready_, *ready_.newest(), Seated::told); }

  // The caller serves no longer. The next server is whoever sat down last: its message is the least
  // likely to be there already. `before_telling()` is called for each that is told instead.
  template <class BeforeTelling>
  void leave(BeforeTelling&& before_telling) {
    for (;;) {
      collect();
      if (row_.newest() != nullptr) return release_seat(row_, *row_.newest(), Seated::serves);
      for (; has_ready(); tell_oldest()) before_telling();
      std::uintptr_t seen = kServed;
      // release: pairs with take_free_door(); the next server sees the empty rows.
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

  // Its waiter may be gone with the seat as soon as the word is written.
  static void release_seat(Row<A>& row, Seat<A>& seat, Seated as) {
    row.remove(seat);
    // release: pairs with await().
    seat.word.store(static_cast<std::uint32_t>(as), std::memory_order_release);
    A::wake(&seat.word);
  }

  // By every waiter.
  typename A::template Atomic<std::uintptr_t> door_{kFree};
  // By the server: who waits, and whose wait is over.
  alignas(kCacheLine) Row<A> row_;
  Row<A> ready_;
};

}  // namespace mh::threads
