// SPDX-License-Identifier: BSD-3-Clause
// The slow paths of the locks, barrier, semaphore and event of manyhands/ult/sync.hpp: queueing,
// sleeping, waking.
#include "manyhands/ult/sync.hpp"

#include <sched.h>

#include <mutex>

#include "base/atomics.hpp"
#include "base/clock.hpp"
#include "ult/mutex_steps.hpp"
#include "ult/worker.hpp"

namespace mh::ult {
namespace detail {
namespace {
constexpr unsigned kSpins = 64;  // polls before sched_yield(); about a microsecond
}

void back_off(unsigned turn) noexcept {
  if (turn < kSpins) {
    spin_pause();
  } else {
    ::sched_yield();
  }
}

void sleep(Waiting& waiting) noexcept {
  while (waiting.woken.load(std::memory_order_acquire) == 0) {
    if (waiting.task != nullptr) {
      ult::wait();
    } else {
      RealAtomics::sleep(waiting.woken, 0, 0);
    }
  }
}

void wake(Waiting* waiting) noexcept {
  TaskRecord* task = waiting->task;
  auto* word = &waiting->woken;
  if (task != nullptr) {
    const Telling mark(this_thread_worker());
    word->store(1, std::memory_order_release);
    signal(task);
  } else {
    word->store(1, std::memory_order_release);
    RealAtomics::wake(word);
  }
}

void wake_all(Waiting* list) noexcept {
  while (list != nullptr) {
    Waiting* next = list->next;
    wake(list);
    list = next;
  }
}

}  // namespace detail

void Mutex::lock_queued() noexcept {
  detail::Waiting me{.task = detail::self()};
  if (!detail::take_or_queue(word_, guard_, queue_, &me)) detail::sleep(me);
}

void Mutex::hand_over() noexcept { detail::wake(detail::hand_over(word_, guard_, queue_)); }

bool Barrier::wait() noexcept {
  detail::Waiting me{.task = detail::self()};
  guard_.lock();
  if (++arrived_ < count_) {
    queue_.push(&me);
    guard_.unlock();
    detail::sleep(me);
    return false;
  }
  arrived_ = 0;
  detail::Waiting* all = queue_.pop_all();
  guard_.unlock();
  detail::wake_all(all);
  return true;
}

void Semaphore::acquire() noexcept {
  detail::Waiting me{.task = detail::self()};
  {
    const std::lock_guard guard(guard_);
    if (count_ != 0) {
      --count_;
      return;
    }
    queue_.push(&me);
  }
  detail::sleep(me);
}

bool Semaphore::try_acquire() noexcept {
  const std::lock_guard guard(guard_);
  if (count_ == 0) return false;
  --count_;
  return true;
}

void Semaphore::release(std::uint32_t count) noexcept {
  while (count-- != 0) {
    detail::Waiting* next = nullptr;
    {
      const std::lock_guard guard(guard_);
      next = queue_.pop();
      if (next == nullptr) ++count_;
    }
    if (next != nullptr) detail::wake(next);
  }
}

// True: the state is `busy`, and the caller stores the next state. False: the event is set.
// acquire: pairs with the releases in set() and wait(), which publish the queue and what a setter
// wrote.
bool Event::lock_unless_set() noexcept {
  for (unsigned turn = 0;; detail::back_off(turn++)) {
    State expected = State::unset;
    if (state_.compare_exchange_strong(expected, State::busy, std::memory_order_acquire)) {
      return true;
    }
    if (expected == State::set) return false;
  }
}

void Event::set() noexcept {
  if (!lock_unless_set()) return;
  detail::Waiting* all = queue_.pop_all();
  // The last access to the event: another task or thread may now destroy it.
  state_.store(State::set, std::memory_order_release);
  detail::wake_all(all);
}

void Event::wait() noexcept {
  detail::Waiting me{.task = detail::self()};
  if (!lock_unless_set()) return;
  queue_.push(&me);
  state_.store(State::unset, std::memory_order_release);
  detail::sleep(me);
}

}  // namespace mh::ult
