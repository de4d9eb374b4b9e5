// SPDX-License-Identifier: BSD-3-Clause
// Words to the user: one line on stderr, prefix "manyhands: ", written with one write(2) so that
// the lines of many ranks do not mix. Not for hot paths. Never throws, never fails the caller.
#pragma once

#include <fmt/core.h>

#include <atomic>

namespace mh {

void vsay(fmt::string_view format, fmt::format_args args) noexcept;

// say("{} of {} ranks", 3, 4) -> "manyhands: 3 of 4 ranks\n"; line breaks inside become spaces. Any
// thread.
template <class... T>
void say(fmt::format_string<T...> format, T&&... args) noexcept {
  vsay(format, fmt::make_format_args(args...));
}

// True for the first caller in this process: `static Once once; if (once()) say(...)`.
class Once {
 public:
  // relaxed: only the atomicity of the exchange matters, nothing is published by it.
  bool operator()() { return !taken_.exchange(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace mh
