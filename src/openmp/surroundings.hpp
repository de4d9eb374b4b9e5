// SPDX-License-Identifier: BSD-3-Clause
// What a loop body can see of the thread that runs it, and how a helper takes it over from the
// thread whose loop it is: how floating-point numbers are rounded, flushed and trapped, the locale,
// errno. The floating-point exceptions that its iterations raise are the owner's in the end.
//
// Limits: what else belongs to a thread stays the helper's own (docs/openmp.md).
#pragma once

#include <locale.h>

#include <cerrno>
#include <cstdint>

namespace mh::openmp {

// Of the calling thread. <cfenv> reads and writes all of it, which takes ten times as long.
class FloatingPoint {
 public:
  static FloatingPoint now() {
    FloatingPoint state;
    asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(state.vector_), "=m"(state.x87_));
    return state;
  }

  // The calling thread computes like the one whose state this is; no exception is raised yet.
  void adopt() const {
    const std::uint32_t vector = vector_ & ~kRaised;
    asm volatile("fnclex\n\tfldcw %1\n\tldmxcsr %0" : : "m"(vector), "m"(x87_));
  }

  // The exceptions that were raised so far in the calling thread.
  static std::uint32_t raised() {
    std::uint32_t vector = 0;
    std::uint16_t x87 = 0;
    asm volatile("stmxcsr %0\n\tfnstsw %1" : "=m"(vector), "=m"(x87));
    return (vector | x87) & kRaised;
  }

  // They are raised in the calling thread as well, without a trap.
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

struct Surroundings {
  FloatingPoint floating_point;
  locale_t locale;
  int error;

  // Of the calling thread.
  static Surroundings now() {
    return {
        .floating_point = FloatingPoint::now(), .locale = ::uselocale(locale_t{}), .error = errno};
  }
};

// The calling thread takes those for its own while this lives.
class Adopted {
 public:
  explicit Adopted(const Surroundings& others)
      : own_floating_point_(FloatingPoint::now()), own_locale_(::uselocale(others.locale)) {
    errno = others.error;
    others.floating_point.adopt();
  }
  ~Adopted() {
    own_floating_point_.adopt();
    ::uselocale(own_locale_);
  }
  Adopted(const Adopted&) = delete;
  Adopted& operator=(const Adopted&) = delete;

 private:
  FloatingPoint own_floating_point_;
  locale_t own_locale_;
};

}  // namespace mh::openmp
