// SPDX-License-Identifier: BSD-3-Clause
// The notes about a task's stack for ThreadSanitizer, AddressSanitizer and Valgrind. Without these
// notes the tools report a stack switch as a race, an overflow or lost memory.
//
// A build without sanitizers only registers stacks with Valgrind. The registration costs a few
// instructions for each mapped stack, and nothing for a switch.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MH_ULT_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define MH_ULT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MH_ULT_TSAN 1
#endif
#if defined(__SANITIZE_ADDRESS__)
#define MH_ULT_ASAN 1
#endif

#ifdef MH_ULT_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifdef MH_ULT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define MH_ULT_VALGRIND 1
#endif

namespace mh::ult {

class SanitizerFibre {
 public:
  // Call for a newly mapped task stack, with its lowest address and its size.
  void create(std::byte* low, std::size_t bytes) {
    describe(low, bytes);
#ifdef MH_ULT_TSAN
    tsan_ = __tsan_create_fiber(0);
#endif
#ifdef MH_ULT_VALGRIND
    valgrind_ = VALGRIND_STACK_REGISTER(low, low + bytes);
#endif
  }
  void destroy() {
    forget_frames();
#ifdef MH_ULT_TSAN
    __tsan_destroy_fiber(tsan_);
#endif
#ifdef MH_ULT_VALGRIND
    VALGRIND_STACK_DEREGISTER(valgrind_);
#endif
  }

  // Call when the stack passes from an ended context to a new one, while nothing runs on the stack.
  // Otherwise the sanitizers count the frames of the first context as frames of the second.
  void renew() {
    forget_frames();
#ifdef MH_ULT_TSAN
    __tsan_destroy_fiber(tsan_);
    tsan_ = __tsan_create_fiber(0);
#endif
  }

  // Call on a worker's thread: describes the stack of that thread, which the system has made, to
  // the sanitizers.
  void adopt(std::byte* low, std::size_t bytes) {
    describe(low, bytes);
#ifdef MH_ULT_TSAN
    tsan_ = __tsan_get_current_fiber();
#endif
  }

  // Call on the old stack, right before a switch to the stack of `next`. `last`: no switch comes
  // back to the current frames; the next context on this stack begins anew. The function must be
  // inlined, because ThreadSanitizer counts calls and returns of each stack.
  [[gnu::always_inline]] void depart([[maybe_unused]] SanitizerFibre& next,
                                     [[maybe_unused]] bool last) {
#ifdef MH_ULT_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &asan_, next.low_, next.bytes_);
#endif
#ifdef MH_ULT_TSAN
    __tsan_switch_to_fiber(next.tsan_, 0);
#endif
  }
  // Call on the new stack, right after the switch. `first`: the context on this stack has just
  // begun, so there is no earlier switch to complete.
  void arrive([[maybe_unused]] bool first) {
#ifdef MH_ULT_ASAN
    __sanitizer_finish_switch_fiber(first ? nullptr : asan_, nullptr, nullptr);
#endif
  }

 private:
  void forget_frames() {
#ifdef MH_ULT_ASAN
    __asan_unpoison_memory_region(low_, bytes_);
#endif
  }
  void describe([[maybe_unused]] std::byte* low, [[maybe_unused]] std::size_t bytes) {
#ifdef MH_ULT_ASAN
    low_ = low;
    bytes_ = bytes;
#endif
  }

#ifdef MH_ULT_TSAN
  void* tsan_ = nullptr;
#endif
#ifdef MH_ULT_ASAN
  void* asan_ = nullptr;
  std::byte* low_ = nullptr;
  std::size_t bytes_ = 0;
#endif
#ifdef MH_ULT_VALGRIND
  unsigned valgrind_ = 0;
#endif
};

}  // namespace mh::ult
