// SPDX-License-Identifier: BSD-3-Clause
// Who waits for the end of a task: one word, one exchange by the task and one by whoever joins it.
//
//   the task, at its end             who joins
//   --------------------             ---------
//   was = word.exchange(ended)       if word is not ended:
//   if was names somebody:             if word.cas(nobody, me) succeeds:
//     wake that one                      block until word is ended
//
// Either the exchange finds the name, or the compare-and-swap finds `ended`. Each is released by
// one side and acquired by the other: the joiner sees what the task wrote.
#pragma once

#include <atomic>
#include <cstdint>

namespace mh::ult {

template <class A>
class JoinWord {
 public:
  // Others are names: addresses, or addresses with their lowest bit set.
  static constexpr std::uintptr_t kNobody = 0;
  static constexpr std::uintptr_t kEnded = 2;
  static constexpr std::uintptr_t kDetached = 4;

  // Before the task is published; also to name somebody before anyone can run the task.
  void set(std::uintptr_t name) { word_.store(name, std::memory_order_relaxed); }
  // The task. Who waits: kNobody, kDetached or a name. The record belongs to that one afterwards.
  std::uintptr_t end() { return word_.exchange(kEnded, std::memory_order_acq_rel); }
  [[nodiscard]] bool ended() const { return word_.load(std::memory_order_acquire) == kEnded; }
  // Who joins. False: the task has ended.
  bool enlist(std::uintptr_t name) {
    std::uintptr_t nobody = kNobody;
    return word_.compare_exchange_strong(nobody, name, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
  }
  // False: the task has ended, and its record belongs to the caller.
  bool detach() { return word_.exchange(kDetached, std::memory_order_acq_rel) != kEnded; }

 private:
  typename A::template Atomic<std::uintptr_t> word_{kNobody};
};

}  // namespace mh::ult
