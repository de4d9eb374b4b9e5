// SPDX-License-Identifier: BSD-3-Clause
// Messages to the user: a line on stderr with the prefix "manyhands: ", written by a single
// write(2) so that lines of many ranks do not mix. Any thread; not for hot paths. Never throws and
// never fails the caller.
#pragma once

#include <fmt/core.h>

#include <atomic>

namespace mh {

void vprint_message(fmt::string_view format, fmt::format_args args) noexcept;

// print_message("{} of {} ranks", 3, 4) writes "manyhands: 3 of 4 ranks\n". Line breaks become
// spaces.
template <class... T>
void print_message(fmt::format_string<T...> format, T&&... args) noexcept {
  vprint_message(format, fmt::make_format_args(args...));
}

// True for the first caller in this process: `static Once once; if (once()) print_message(...)`.
class Once {
 public:
  // relaxed: only the atomicity of the exchange matters; the flag publishes no other data.
  bool operator()() { return !taken_.exchange(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace mh
