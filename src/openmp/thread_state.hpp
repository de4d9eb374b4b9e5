// SPDX-License-Identifier: BSD-3-Clause
// The state of a thread that the body of a loop can see: rounding, flushing and traps of
// floating-point numbers, the locale, errno. A helper adopts the owner's state; afterwards the
// owner raises the floating-point exceptions of the helper's iterations. Each object belongs to one
// thread.
//
// Limit: all other state of a thread stays the helper's own (docs/openmp.md).
#pragma once

#include <locale.h>

#include <cerrno>
#include <cstdint>

namespace mh::openmp {

// Floating-point state of the calling thread, read from its control registers. The functions of
// <cfenv> read and write the whole environment, which takes ten times as long.
class FloatingPoint {
 public:
  static FloatingPoint now() {
    FloatingPoint state;
    asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(state.vector_), "=m"(state.x87_));
    return state;
  }

  // Gives the calling thread this state, with all floating-point exception flags cleared.
  void adopt() const {
    const std::uint32_t vector = vector_ & ~kRaised;
    asm volatile("fnclex\n\tfldcw %1\n\tldmxcsr %0" : : "m"(vector), "m"(x87_));
  }

  // Returns the flags of the exceptions raised so far in the calling thread.
  static std::uint32_t raised() {
    std::uint32_t vector = 0;
    std::uint16_t x87 = 0;
    asm volatile("stmxcsr %0\n\tfnstsw %1" : "=m"(vector), "=m"(x87));
    return (vector | x87) & kRaised;
  }

  // Sets the given floating-point exception flags in the calling thread, without a trap.
  static void raise(std::uint32_t exceptions) {
    std::uint32_t vector = 0;
    asm volatile("stmxcsr %0" : "=m"(vector));
    vector |= exceptions;
    asm volatile("ldmxcsr %0" : : "m"(vector));
  }

 private:
  static constexpr std::uint32_t kRaised = 0x3f;
  std::uint32_t vector_ = 0;
  std::uint16_t x87_ = 0;
};

struct ThreadState {
  FloatingPoint floating_point;
  locale_t locale;
  int error;

  static ThreadState now() {
    return {
        .floating_point = FloatingPoint::now(), .locale = ::uselocale(locale_t{}), .error = errno};
  }
};

// Gives the calling thread, a helper, the state of another thread (`others`) while this object
// lives.
class AdoptedThreadState {
 public:
  explicit AdoptedThreadState(const ThreadState& others)
      : own_floating_point_(FloatingPoint::now()), own_locale_(::uselocale(others.locale)) {
    errno = others.error;
    others.floating_point.adopt();
  }
  ~AdoptedThreadState() {
    own_floating_point_.adopt();
    ::uselocale(own_locale_);
  }
  AdoptedThreadState(const AdoptedThreadState&) = delete;
  AdoptedThreadState& operator=(const AdoptedThreadState&) = delete;

 private:
  FloatingPoint own_floating_point_;
  locale_t own_locale_;
};

}  // namespace mh::openmp
