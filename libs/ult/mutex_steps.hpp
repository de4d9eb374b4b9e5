// SPDX-License-Identifier: BSD-3-Clause
// The slow steps of Mutex: queueing and handing over. The steps are templates over the word and the
// guard, so that the tests run them on the checker (tests/unit/ult/checker.hpp).
#pragma once

#include <mutex>

#include "manyhands/ult/sync.hpp"

namespace mh::ult::detail {

// The word is kAwaited if and only if the queue has a waiter; only the holder of the guard sees it
// otherwise. Therefore an unlock() without a waiter is one compare-and-swap, its last access to the
// Mutex: the next holder may destroy the Mutex. An unlock() with a waiter releases the guard before
// it wakes the new holder.

// True: the caller holds the Mutex. False: `me` is in the queue, and the caller must sleep.
template <class Word, class Guard>
bool take_or_queue(Word& word, Guard& guard, WaitQueue& queue, Waiting* me) {
  const std::lock_guard guarded(guard);
  // acquire: pairs with the release in MutexWord::give(). relaxed: the caller's own unlock()
  // publishes what it writes.
  if (word.exchange(MutexWord::kAwaited, std::memory_order_acquire) == MutexWord::kFree) {
    word.store(MutexWord::kHeld, std::memory_order_relaxed);
    return true;
  }
  queue.push(me);
  return false;
}

// Called by the holder, if the word is kAwaited. Returns the first waiter, the new holder, which
// the caller must wake.
template <class Word, class Guard>
Waiting* hand_over(Word& word, Guard& guard, WaitQueue& queue) {
  const std::lock_guard guarded(guard);
  Waiting* next = queue.pop();
  // relaxed: the release and acquire of the waiter's `woken` order what the Mutex protects.
  if (queue.empty()) word.store(MutexWord::kHeld, std::memory_order_relaxed);
  return next;
}

}  // namespace mh::ult::detail
