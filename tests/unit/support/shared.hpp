// SPDX-License-Identifier: BSD-3-Clause
// Zeroed memory that forked children share with the test, and a barrier in shared memory.
#pragma once

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

namespace mh::test {

class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes) {
    memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { ::munmap(memory_, bytes_); }
  [[nodiscard]] std::span<std::byte> span() const {
    return {static_cast<std::byte*>(memory_), bytes_};
  }

 private:
  void* memory_;
  std::size_t bytes_;
};

// A barrier for `parties` processes or threads, which can be used again and again.
struct Barrier {
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<std::uint32_t> phase{0};

  void wait(std::uint32_t parties) {
    const std::uint32_t now = phase.load(std::memory_order_acquire);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == parties) {
      arrived.store(0, std::memory_order_relaxed);
      phase.store(now + 1, std::memory_order_release);
      return;
    }
    while (phase.load(std::memory_order_acquire) == now) ::sched_yield();
  }
};

}  // namespace mh::test
