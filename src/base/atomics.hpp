// SPDX-License-Identifier: BSD-3-Clause
// The policy parameter of thread protocols that are templates: atomics, two fences, and sleeping on
// a word.
//
// `RealAtomics` is the policy of shipped code. The tests compile the same headers with another
// policy, which runs them through all interleavings with delayed stores
// (tests/unit/ult/checker.hpp).
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

#include "base/biased_flag.hpp"

namespace mh {

struct RealAtomics {
  template <class T>
  using Atomic = std::atomic<T>;

  // The two halves of an asymmetric Dekker handshake. The frequent side passes light_fence() and
  // pays nothing. The rare side passes heavy_fence(), in which the operating system has every
  // thread of the process pass a full fence. If prepare_fences() returns false, the system has no
  // heavy fence, and the caller must not rely on the handshake.
  static bool prepare_fences() { return ProcessFence::prepare(); }
  static void light_fence() { ProcessFence::pass_alone(); }
  static bool heavy_fence() { return ProcessFence::pass(); }

  // Sleeps while `word` is `value`; limit_ns 0: without limit. May return early.
  static void sleep(Atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t limit_ns) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const timespec limit{.tv_sec = limit_ns / kSecond, .tv_nsec = limit_ns % kSecond};
    ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, limit_ns == 0 ? nullptr : &limit,
              nullptr, 0);
  }
  // Wakes a sleeper. `word` may be gone already: the system uses its address only.
  static void wake(const Atomic<std::uint32_t>* word) {
    ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
};

}  // namespace mh
