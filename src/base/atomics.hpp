// SPDX-License-Identifier: BSD-3-Clause
// A template parameter of thread protocols, such as those of light tasks (libs/ult) and of waiting
// threads (src/threads): the atomics, fences and sleeps that the protocol uses.
//
// `RealAtomics` is the parameter in shipped code. The unit tests compile the headers of the
// protocols with another class, which runs the protocols through all interleavings with delayed
// stores (tests/unit/ult/checker.hpp).
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

  // The two halves of an asymmetric Dekker handshake: each of two threads stores a word, passes a
  // fence and loads the other's word, and at least one of them sees the other's store. The frequent
  // side passes light_fence() and pays nothing. The rare side passes heavy_fence(), in which the
  // operating system has every thread of the process pass a full fence. If prepare_fences() returns
  // false, the system has no heavy fence, and the caller must not rely on the handshake.
  static bool prepare_fences() { return ProcessFence::prepare(); }
  static void light_fence() { ProcessFence::pass_alone(); }
  static bool heavy_fence() { return ProcessFence::pass(); }

  // Puts the calling thread to sleep while `word` has this value, for `limit_ns` nanoseconds at
  // most; 0 means without limit. May return early, so the caller checks `word` again.
  static void sleep(Atomic<std::uint32_t>& word, std::uint32_t value, std::int64_t limit_ns) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const timespec limit{.tv_sec = limit_ns / kSecond, .tv_nsec = limit_ns % kSecond};
    ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, limit_ns == 0 ? nullptr : &limit,
              nullptr, 0);
  }
  // Wakes one thread that sleeps on `word`. The memory of the word may have been freed already: the
  // system uses its address only.
  static void wake(const Atomic<std::uint32_t>* word) {
    ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
};

}  // namespace mh
