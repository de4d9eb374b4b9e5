// SPDX-License-Identifier: BSD-3-Clause
// Waits of light tasks: each task leaves a seat and gives its thread away, and a thread without
// work, the *looker*, tests the conditions of all tasks.
//
//   task                                    looker
//   ----                                    ------
//   sit(): arrivals -> its seat             enter(): true if no other thread looks
//   other tasks run on its thread           look(): the arrivals join the row; for a seat whose
//   while its seat says `sits`                wait is over: seat -> told, wake task, seat -> left
//   the task waits for `left`, and goes     leave()
//
// Unlike a thread of an election (election.hpp), a waiting task never tests the conditions of
// others. A task may wake for another reason than wake(), and its seat lies on its stack. Therefore
// the looker's last access to a seat is the store of `left`.
//
// A template over the atomics of a process (base/atomics.hpp), so that the tests can run all
// interleavings. No allocation, no lock. Threads: any thread may call sit(); look() and leave() are
// called by the looker only.
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

  // acquire: pairs with the looker's set(). The task sees what the looker has done for its wait.
  [[nodiscard]] Parked state() const {
    return static_cast<Parked>(word_.load(std::memory_order_acquire));
  }
  void set(Parked now) { word_.store(static_cast<std::uint32_t>(now), std::memory_order_release); }

  typename A::template Atomic<std::uint32_t> word_{static_cast<std::uint32_t>(Parked::sits)};
  // The next older arrival until the looker has taken the seat; from then on the next seat of the
  // row.
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
      // release: pairs with take_arrivals(), which reads the seat.
    } while (!arrivals_.compare_exchange_strong(seen, reinterpret_cast<std::uintptr_t>(&seat),
                                                std::memory_order_release,
                                                std::memory_order_relaxed));
  }

  // True if the caller is now the looker, until it calls leave().
  bool enter() {
    // acquire: pairs with the release in leave(); the caller sees the row.
    return has_looker_.load(std::memory_order_relaxed) == 0 &&
           has_looker_.exchange(1, std::memory_order_acquire) == 0;
  }
  void leave() { has_looker_.store(0, std::memory_order_release); }

  // Calls `is_over(seat)` for each seat, and never again after it has returned true. For each
  // finished wait it then calls `wake(seat)`, which must not keep the seat. Returns the number of
  // finished waits.
  template <class IsOver, class Wake>
  unsigned look(IsOver&& is_over, Wake&& wake) {
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
  // Takes the seats that have come since the last call, the oldest first.
  Seat* take_arrivals() {
    if (arrivals_.load(std::memory_order_relaxed) == 0) return nullptr;
    // acquire: pairs with sit().
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

  // The newest arrival; 0: none. Written by every waiting task.
  typename A::template Atomic<std::uintptr_t> arrivals_{0};
  // 1 while a thread is the looker. Written by lookers.
  alignas(kCacheLine) typename A::template Atomic<std::uint32_t> has_looker_{0};
  Seat* row_ = nullptr;  // used by the looker only; the oldest first
};

}  // namespace mh::threads
