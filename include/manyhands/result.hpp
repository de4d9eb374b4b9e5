// SPDX-License-Identifier: BSD-3-Clause
// Status and Result, by which functions of Manyhands report failures, inside the library and in its
// C++ interfaces.
//
// Manyhands reports no failure by an exception, except std::bad_alloc and std::system_error where a
// header says so, and never ends the host program. A function that can fail returns Status or
// Result<T>. The code tells the caller how to react. The outputs of a function are valid on success
// only. The function that detects a failure sets the code.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace mh {

enum class Code : std::uint8_t {
  ok,           // success
  full,         // no slot or memory now; the same call may succeed later
  retry,        // not possible at this moment; the same call succeeds soon without other action
  refused,      // the operating system forbids it (EPERM, EACCES, seccomp)
  fault,        // an address is not ordinary memory (EFAULT: device memory, special mappings)
  gone,         // the other process no longer exists
  mismatch,     // the two sides differ in build, job or protocol
  unsupported,  // this system lacks the facility
  misuse,       // the call is not allowed here or with these arguments
  system,       // any other failure; see sys_errno
};

struct [[nodiscard]] Status {
  Code code = Code::ok;
  int sys_errno = 0;  // errno of the failed system call; 0: none

  [[nodiscard]] constexpr bool ok() const { return code == Code::ok; }
  explicit constexpr operator bool() const { return ok(); }
};

// Returns the Status that tells of a system call which failed with the errno `sys_errno`.
Status from_errno(int sys_errno);
// Returns a short phrase for a text to the user, such as "operation not permitted", never a
// sentence.
[[gnu::visibility("default")]] const char* describe(Code code);

template <class T>
class [[nodiscard]] Result {
 public:
  // These constructors are not explicit, so a function that returns a Result can return a value or
  // a Status directly.
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Status failure) : failure_(failure) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] Status status() const { return failure_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status failure_{};
};

}  // namespace mh
