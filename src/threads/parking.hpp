// SPDX-License-Identifier: BSD-3-Clause
// Waits of light tasks: each task leaves a seat and gives its thread away, and a thread without
// work, the *poller*, tests the conditions of all tasks.
//
//   task                                    poller
//   ----                                    ------
//   sit(): arrivals -> its seat             enter(): true if no other thread looks
//   other tasks run on its thread           poll(): the arrivals join the row; for a seat whose
//   while its seat says `sits`                wait is over: seat -> told, wake task, seat -> left
//   the task waits for `left`, and goes     leave()
//
// Unlike a thread of an election (election.hpp), a waiting task never tests the conditions of
// others. A task may wake for another reason than wake(), and its seat lies on its stack. Therefore
// the poller's last access to a seat is the store of `left`.
//
// A template over the atomics of a process (base/atomics.hpp), so that the tests can run all
// interleavings. No allocation, no lock. Threads: any thread may call sit(); poll() and leave() are
// called by the poller only.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"

namespace mh::threads {

enum class Parked : std::uint32_t { sits, told, left };

template <class A>
class ParkedSeat {
 public:
  [[nodiscard]] bool is_told() const { return state() != Parked::sits; }
  [[nodiscard]] bool is_left() const { return state() == Parked::left; }

 private:
  template <class>
  friend class Parking;

  // acquire: pairs with the release in set(), which the poller calls (the thread that tests the
  // conditions of all tasks). The task sees what the poller has done for its wait.
  [[nodiscard]] Parked state() const {
    return static_cast<Parked>(word_.load(std::memory_order_acquire));
  }
  void set(Parked now) { word_.store(static_cast<std::uint32_t>(now), std::memory_order_release); }

  typename A::template Atomic<std::uint32_t> word_{static_cast<std::uint32_t>(Parked::sits)};
  // The seat that arrived just before this one, until the poller, which tests the conditions of all
  // tasks, has taken this seat. From then on the next seat in the poller's list.
  ParkedSeat* next_ = nullptr;
};

template <class A>
class alignas(kCacheLine) Parking {
 public:
  using Seat = ParkedSeat<A>;

  void sit(Seat& seat) {
    std::uintptr_t seen = arrivals_.load(std::memory_order_relaxed);
    do {
      seat.next_ = reinterpret_cast<Seat*>(seen);
      // release: pairs with the acquire in take_arrivals(), by which the poller reads the seat and
      // tests its condition.
    } while (!arrivals_.compare_exchange_strong(seen, reinterpret_cast<std::uintptr_t>(&seat),
                                                std::memory_order_release,
                                                std::memory_order_relaxed));
  }

  // Makes the caller the poller, which tests the conditions of all tasks, unless another thread is.
  // Returns true if the caller is now the poller; it is until it calls leave().
  bool enter() {
    // acquire: pairs with the release in leave(); the new poller sees the list of waiting seats
    // (row_) as the last poller left it.
    return has_poller_.load(std::memory_order_relaxed) == 0 &&
           has_poller_.exchange(1, std::memory_order_acquire) == 0;
  }
  void leave() { has_poller_.store(0, std::memory_order_release); }

  // Calls `is_over(seat)` for the seat of each waiting task, and never again for a seat after it
  // has returned true. For each finished wait it then calls `wake(seat)`, which must not use the
  // seat after it has returned. Returns the number of finished waits.
  template <class IsOver, class Wake>
  unsigned poll(IsOver&& is_over, Wake&& wake) {
    unsigned found = 0;
    bool has_arrivals = true;
    for (Seat** at = &row_; *at != nullptr || has_arrivals;) {
      if (*at == nullptr) {
        *at = take_arrivals();
        has_arrivals = false;
        continue;
      }
      Seat& seat = **at;
      if (!is_over(seat)) {
        at = &seat.next_;
        continue;
      }
      *at = seat.next_;
      seat.set(Parked::told);
      wake(seat);
      seat.set(Parked::left);
      ++found;
    }
    return found;
  }

 private:
  // Takes the seats of tasks that have sat down since the last call of this function. The result is
  // a list that begins with the oldest.
  Seat* take_arrivals() {
    if (arrivals_.load(std::memory_order_relaxed) == 0) return nullptr;
    // acquire: pairs with the release in sit(), so the calling thread, the poller, sees what the
    // tasks have written in their seats.
    auto* newest = reinterpret_cast<Seat*>(arrivals_.exchange(0, std::memory_order_acquire));
    Seat* first = nullptr;
    while (newest != nullptr) {
      Seat* const older = newest->next_;
      newest->next_ = first;
      first = newest;
      newest = older;
    }
    return first;
  }

  // The seat of the task that has sat down last; 0: none since the poller, which tests all
  // conditions, took the seats. Written by every waiting task.
  typename A::template Atomic<std::uintptr_t> arrivals_{0};
  // 1 while a thread is the poller, which tests the conditions of all tasks. Written by the
  // pollers.
  alignas(kCacheLine) typename A::template Atomic<std::uint32_t> has_poller_{0};
  Seat* row_ = nullptr;  // used by the poller only; the oldest first
};

}  // namespace mh::threads
