// SPDX-License-Identifier: BSD-3-Clause
// Result types: the one error channel of Manyhands, inside the library and at its C++ interfaces.
//
// Nothing in Manyhands throws across a public boundary or ends the host program. A function that
// can fail returns Status or Result<T>; the category says what the caller may do about it. Outputs
// are written on success only, and the function that first decides that something failed describes
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

namespace mh {

enum class Code : std::uint8_t {
  ok,           // done
  full,         // no slot or memory now; the same call may succeed later
  retry,        // not at this moment; the same call succeeds soon, whatever the caller does
  refused,      // the operating system forbids it (EPERM, EACCES, seccomp)
  fault,        // an address is not ordinary memory (EFAULT: device memory, special mappings)
  gone,         // the other process no longer exists
  mismatch,     // the two sides are not of one build, job or protocol
  unsupported,  // this system lacks the facility
  misuse,       // the call is not allowed here or with these arguments
  system,       // any other failure; see sys_errno
};

struct [[nodiscard]] Status {
  Code code = Code::ok;
  int sys_errno = 0;  // errno at the decision, 0 where none applies

  [[nodiscard]] constexpr bool ok() const { return code == Code::ok; }
  explicit constexpr operator bool() const { return ok(); }
};

// Category of a failed system call.
Status from_errno(int sys_errno);
// A short phrase for messages: "operation not permitted", never a sentence.
[[gnu::visibility("default")]] const char* describe(Code code);

template <class T>
class [[nodiscard]] Result {
 public:
  // Not explicit, so that a return reads as the value or the failure itself.
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
