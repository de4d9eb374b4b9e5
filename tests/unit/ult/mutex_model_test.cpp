// SPDX-License-Identifier: BSD-3-Clause
// Explores the steps of Mutex under all interleavings (checker.hpp). Several users share an object
// that has a Mutex, and the last user destroys both.
#include <cstdint>
#include <utility>

#include "manyhands/ult/sync.hpp"
#include "ult/model.hpp"
#include "ult/mutex_steps.hpp"

namespace mh::ult::check {
namespace {

using detail::MutexWord;

// A word of the Mutex. An access after the end of the Mutex is a failure.
class Word {
 public:
  explicit Word(const bool& ended) : ended_(ended) {}
  void store(std::uint32_t value, std::memory_order order) {
    word_.store(value, order);
    used();
  }
  std::uint32_t exchange(std::uint32_t value, std::memory_order order) {
    const std::uint32_t was = word_.exchange(value, order);
    used();
    return was;
  }
  bool compare_exchange_strong(std::uint32_t& expected, std::uint32_t value,
                               std::memory_order order) {
    const bool done = word_.compare_exchange_strong(expected, value, order);
    used();
    return done;
  }
  void lock() {
    while (exchange(1, std::memory_order_acquire) != 0) {
      Explorer::now().await([this] { return word_.load() == 0; });
    }
  }
  void unlock() { store(0, std::memory_order_release); }

 private:
  void used() const { require(!ended_, "a step after the end of the mutex"); }
  Flag word_{0};
  const bool& ended_;
};

struct Waiter : detail::Waiting {
  Flag up{0};
};

template <std::uint32_t kUsers>
struct SharedObject {
  bool ended = false;
  Word word{ended}, guard{ended};
  detail::WaitQueue queue;
  std::uint32_t users = kUsers;  // the Mutex protects it
  bool inside = false;           // a user holds the Mutex

  void lock() {
    if (MutexWord::take(word)) return;
    Waiter me;
    if (detail::take_or_queue(word, guard, queue, &me)) return;
    Explorer::now().await([&me] { return me.up.load() == 1; });
  }
  void unlock() {
    if (MutexWord::give(word)) return;
    detail::Waiting* next = detail::hand_over(word, guard, queue);
    require(next != nullptr, "the word promised a waiter");
    if (next != nullptr) static_cast<Waiter*>(next)->up.store(1, std::memory_order_release);
  }
  void leave() {
    lock();
    require(!std::exchange(inside, true), "two users hold the mutex at a time");
    Explorer::now().step();
    inside = false;
    const std::uint32_t left = --users;
    unlock();
    if (left == 0) ended = true;
  }
  Threads threads() {
    return Threads(kUsers, [this] { leave(); });
  }
  void at_end() const { require(ended, "a user was left"); }
};

TEST(MutexModel, the_last_of_two_users_may_destroy_it) {
  expect_holds(explore<SharedObject<2>>(preempted(5)), 100);
}

// The second user holds the Mutex at the start.
struct HeldObject : SharedObject<3> {
  HeldObject() { MutexWord::take(word); }
  void leave_first() {
    --users;
    unlock();
  }
  Threads threads() {
    return {[this] { leave(); }, [this] { leave_first(); }, [this] { leave(); }};
  }
};

TEST(MutexModel, the_last_of_three_users_may_destroy_it) {
  expect_holds(explore<HeldObject>(preempted(2)), 1000);
}

}  // namespace
}  // namespace mh::ult::check
