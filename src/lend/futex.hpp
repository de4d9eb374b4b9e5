// SPDX-License-Identifier: BSD-3-Clause
// Sleeping on a word that other processes share. The operating system's futex, not the private
// kind.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace mh::lend {

// Sleeps while `word` is `value`, for at most `nanoseconds`; may return early for no reason.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                       std::int64_t nanoseconds) {
  static_assert(sizeof word == sizeof value && std::atomic<std::uint32_t>::is_always_lock_free);
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec limit{.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

// Wakes so many sleepers at most.
inline void futex_wake(std::atomic<std::uint32_t>& word, std::uint32_t sleepers = 1) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, sleepers, nullptr, nullptr, 0);
}

}  // namespace mh::lend
