// SPDX-License-Identifier: BSD-3-Clause
// A cache of values that belong to MPI handles, with lookups of about two nanoseconds.
//
// The cache is direct-mapped, from a handle to a word that can be computed again at any time. The
// caller must drop an entry when its handle is freed, because libraries reuse handle values. Any
// thread may call all functions; a lost race between two threads costs a second computation.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace mh::mpi {

// Returns the bits of an MPI handle, which is an int in MPICH's ABI and a pointer in the others.
template <class Handle>
std::uint64_t bits_of(Handle handle) {
  return (std::uint64_t)handle;  // NOLINT(google-readability-casting): int or pointer, by ABI
}
template <class Handle>
Handle handle_of(std::uint64_t bits) {
  return (Handle)bits;  // NOLINT(google-readability-casting): int or pointer, by ABI
}

// Returns the index of a handle in a table of `size` elements, a power of two. Handles differ in
// their low bits (MPICH) or in the bits above the alignment (pointers). A multiplicative hash
// spreads both.
constexpr std::size_t place_in(std::size_t size, std::uint64_t handle) {
  return (static_cast<std::uint32_t>(handle) * 0x9e3779b9U) >> (32 - std::countr_zero(size));
}

template <std::size_t kEntries = 256>
class HandleCache {
 public:
  // True if the cache has the handle; sets `value`. The function does not return an optional, which
  // compilers keep in memory, because every MPI call looks up a handle.
  [[nodiscard]] bool find(std::uint64_t handle, std::uint64_t& value) const {
    const CachedHandle& entry = entries_[place_in(kEntries, handle)];
    // A seqlock with the handle in place of a sequence number: fill() removes the handle before it
    // changes the value. If the handle is the same before and after the value is read, the value
    // belongs to the handle. The acquire pairs with the release in fill(); the fence orders the
    // second read of the handle after the read of the value.
    if (entry.handle.load(std::memory_order_acquire) != handle + 1) return false;
    value = entry.value.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    return entry.handle.load(std::memory_order_relaxed) == handle + 1;
  }

  void fill(std::uint64_t handle, std::uint64_t value) {
    CachedHandle& entry = entries_[place_in(kEntries, handle)];
    if (entry.handle.exchange(kBusy, std::memory_order_acquire) == kBusy)
      return;  // another thread is filling the entry
    // release: pairs with the acquire fence in find(). A thread that sees the new value in find()
    // no longer sees the old handle when it reads the handle again.
    std::atomic_thread_fence(std::memory_order_release);
    entry.value.store(value, std::memory_order_relaxed);
    entry.handle.store(handle + 1, std::memory_order_release);
  }

  void drop(std::uint64_t handle) {
    std::uint64_t stored = handle + 1;
    CachedHandle& entry = entries_[place_in(kEntries, handle)];
    entry.handle.compare_exchange_strong(stored, 0, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kBusy = ~0ULL;
  struct CachedHandle {
    std::atomic<std::uint64_t> handle{0};  // handle + 1; 0: empty; kBusy: fill() is at work
    std::atomic<std::uint64_t> value{0};
  };

  std::array<CachedHandle, kEntries> entries_;
};

}  // namespace mh::mpi
