// SPDX-License-Identifier: BSD-3-Clause
// Elects a thread that polls for all waiting threads of a process; the other threads sleep.
//
// The *server* is the thread that tests the conditions of all waits, its own and those of the other
// threads. The other threads *sit*: each sleeps on the word of its own seat. The server keeps two
// lists: the *row* of the seats whose waits go on, and the *ready* seats, whose waits are over. The
// server wakes a particular thread. It either tells the thread that its wait is over, or makes the
// thread the next server when the server's own wait is over.
//
//   waiter                                   server
//   ------                                   ------
//   door: free -> served: it is the server   collect(): new seats join the row
//   else: door -> its seat                   look(): seats of the row whose waits are over -> ready
//   sleep while its seat says `sits`         tell_*(): a ready seat -> told
//                                            leave(): a seat of the row -> serves; row empty:
//                                              all ready seats -> told, door: served -> free
//
// The door is a single word, so no thread sits without a server. A waiter adds its seat by a
// compare-and-swap that fails if the server has left. A server leaves by a compare-and-swap that
// fails if a thread has sat down. Seats lie on the stacks of their waiters, so their number is not
// limited. As soon as the word of a seat has changed, the server no longer touches the seat.
//
// A template over the atomics of a process (base/atomics.hpp), so that the tests can run all
// interleavings. No allocation, no lock. Threads: any thread may enter; the functions of the server
// are called by the serving thread only.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"

namespace mh::threads {

enum class Seated : std::uint32_t { sits, told, serves };

template <class A>
struct alignas(kCacheLine) Seat {
  // A value of Seated, on which the waiter of this seat sleeps. The server changes it once
  // (release); pairs with the load in Election::await().
  typename A::template Atomic<std::uint32_t> word{static_cast<std::uint32_t>(Seated::sits)};
  // Neighbours in a list of the server (SeatRow). The waiter writes `older` until it has sat down;
  // from then on the server writes both.
  Seat* older = nullptr;
  Seat* newer = nullptr;
};

// A doubly linked list of seats, the oldest first: the row by when their threads have sat down, the
// ready seats by when their waits were found to be over. Used by the server only.
template <class A>
class SeatRow {
 public:
  [[nodiscard]] Seat<A>* oldest() const { return oldest_; }
  [[nodiscard]] Seat<A>* newest() const { return newest_; }

  // Inserts `seat` behind `before`, as the next newer seat; as the oldest seat if `before` is null.
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
  // Makes the caller the server if no thread serves. Returns true if the caller is now the server.
  bool try_serve() {
    std::uintptr_t seen = door_.load(std::memory_order_relaxed);
    return seen == kFree && take_free_door();
  }

  // Makes the caller the server if no thread serves, and returns true. Otherwise leaves `seat` to
  // the server and returns false; the caller must then call await(seat).
  bool enter(Seat<A>& seat) {
    std::uintptr_t seen = door_.load(std::memory_order_relaxed);
    for (;;) {
      if (seen == kFree) {
        if (take_free_door()) return true;
        seen = door_.load(std::memory_order_relaxed);
        continue;
      }
      seat.older = seat_at(seen);
      // release: pairs with the acquire in collect(), by which the server reads the seat.
      if (door_.compare_exchange_strong(seen, reinterpret_cast<std::uintptr_t>(&seat),
                                        std::memory_order_release, std::memory_order_relaxed)) {
        return false;
      }
    }
  }

  // Sleeps until the server says in the seat's word that the caller's wait is over (told), or that
  // the caller is the next server (serves).
  static Seated await(Seat<A>& seat) {
    for (;;) {
      // acquire: pairs with the release in release_seat(). The waiter sees what the server has done
      // for its wait or, if it is the next server, the two lists of seats.
      const std::uint32_t word = seat.word.load(std::memory_order_acquire);
      if (word != kSits) return static_cast<Seated>(word);
      A::sleep(seat.word, kSits, 0);
    }
  }

  // --- functions of the server ---

  // True if another thread sits and relies on the caller, the server. Costs one atomic load.
  [[nodiscard]] bool has_waiters() const {
    return row_.oldest() != nullptr || has_ready() ||
           door_.load(std::memory_order_relaxed) != kServed;
  }
  // True if the wait of a sitting thread is over, and the server has not told the thread yet.
  [[nodiscard]] bool has_ready() const { return ready_.oldest() != nullptr; }

  // Adds to the row, the list of seats whose waits go on, the seats of threads that have sat down
  // since the last call of collect().
  void collect() {
    if (door_.load(std::memory_order_relaxed) == kServed) return;
    // acquire: pairs with the release in enter(), so the server sees the contents of the seats.
    Seat<A>* seat = seat_at(door_.exchange(kServed, std::memory_order_acquire));
    Seat<A>* const before = row_.newest();
    while (seat != nullptr) {  // the newest first
      Seat<A>* const next = seat->older;
      row_.insert_after(before, *seat);
      seat = next;
    }
  }

  // Calls `is_over(seat)` for each seat whose wait goes on, and never again for a seat after it has
  // returned true. Returns true if any wait is over; its seat is then ready.
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

  // Each wakes the thread of a ready seat, because the wait of that thread is over. tell_oldest()
  // takes the seat that has been ready longest, tell_newest() the seat that became ready last. A
  // ready seat must exist.
  void tell_oldest() { release_seat(ready_, *ready_.oldest(), Seated::told); }
  void tell_newest() { release_seat(ready_, *ready_.newest(), Seated::told); }

  // The caller stops serving. The thread that sat down last among those whose waits go on is the
  // next server: its message is the least likely to have come. If there is none, all ready threads
  // are told instead that their waits are over, and `before_telling()` is called before each of
  // them is told.
  template <class BeforeTelling>
  void leave(BeforeTelling&& before_telling) {
    for (;;) {
      collect();
      if (row_.newest() != nullptr) return release_seat(row_, *row_.newest(), Seated::serves);
      for (; has_ready(); tell_oldest()) before_telling();
      std::uintptr_t seen = kServed;
      // release: pairs with the acquire in take_free_door(); the next server sees the lists of
      // seats, which are empty now.
      if (door_.compare_exchange_strong(seen, kFree, std::memory_order_release,
                                        std::memory_order_relaxed)) {
        return;
      }
    }
  }

 private:
  static constexpr std::uintptr_t kFree = 0;
  // The value of door_ while a thread serves and no thread has sat down since collect(). Values
  // other than kFree and kServed are the address of the newest seat.
  static constexpr std::uintptr_t kServed = 1;
  static constexpr auto kSits = static_cast<std::uint32_t>(Seated::sits);
  static_assert(alignof(Seat<A>) > kServed);

  static Seat<A>* seat_at(std::uintptr_t door) {
    return door == kServed ? nullptr : reinterpret_cast<Seat<A>*>(door);
  }

  bool take_free_door() {
    std::uintptr_t seen = kFree;
    // acquire: pairs with the release in leave(), so the new server sees the lists of seats as the
    // last server left them, empty.
    return door_.compare_exchange_strong(seen, kServed, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  // Removes `seat` from its list and wakes its waiter, which finds the word `as`. The waiter may
  // destroy the seat as soon as the word is written.
  static void release_seat(SeatRow<A>& row, Seat<A>& seat, Seated as) {
    row.remove(seat);
    // release: pairs with the acquire in await().
    seat.word.store(static_cast<std::uint32_t>(as), std::memory_order_release);
    A::wake(&seat.word);
  }

  // kFree, kServed, or the seat of the thread that has sat down last since collect(). Written by
  // every waiter.
  typename A::template Atomic<std::uintptr_t> door_{kFree};
  // The lists of the server, used by no other thread: seats whose waits go on, and seats whose
  // waits are over.
  alignas(kCacheLine) SeatRow<A> row_;
  SeatRow<A> ready_;
};

}  // namespace mh::threads
