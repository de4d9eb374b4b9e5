// SPDX-License-Identifier: BSD-3-Clause
// The word in which a task and its joiner meet. The task does one exchange, the joiner one
// compare-and-swap.
//
//   the task, at its end             the joiner
//   --------------------             ----------
//   was = word.exchange(ended)       if word is not ended:
//   if was is a joiner's name:         if word.cas(nobody, me) succeeds:
//     wake the joiner                    block until word is ended
//
// Either the exchange finds the joiner's name, or the compare-and-swap finds `ended`. Both are
// acquire and release, so the joiner sees everything that the task wrote.
#pragma once

#include <atomic>
#include <cstdint>

namespace mh::ult {

template <class A>
class JoinWord {
 public:
  // The values of the word that mean no joiner. All other values are names of joiners: addresses,
  // or addresses with the lowest bit set.
  static constexpr std::uintptr_t kNobody = 0;
  static constexpr std::uintptr_t kEnded = 2;
  static constexpr std::uintptr_t kDetached = 4;

  // Stores the joiner's name, or kNobody. Call while no other thread can run the task: before it is
  // published, or after claiming it. relaxed: publishing or running the task orders the store.
  void set(std::uintptr_t name) { word_.store(name, std::memory_order_relaxed); }
  // Called by the task's worker, at the task's end. Returns kNobody, kDetached or the joiner's
  // name. Unless the task is detached, the record then belongs to its joiner.
  std::uintptr_t end() { return word_.exchange(kEnded, std::memory_order_acq_rel); }
  [[nodiscard]] bool ended() const { return word_.load(std::memory_order_acquire) == kEnded; }
  // Called by the joiner with its name (a light task or a thread). True: the joiner must now block
  // until the task's end. False: the task has ended already.
  bool enlist(std::uintptr_t name) {
    std::uintptr_t nobody = kNobody;
    return word_.compare_exchange_strong(nobody, name, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
  }
  // Gives up the right to join. False: the task has ended already, and its record belongs to the
  // caller, who must release it.
  bool detach() { return word_.exchange(kDetached, std::memory_order_acq_rel) != kEnded; }

 private:
  typename A::template Atomic<std::uintptr_t> word_{kNobody};
};

}  // namespace mh::ult
