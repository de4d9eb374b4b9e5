// SPDX-License-Identifier: BSD-3-Clause
#include "base/say.hpp"

#include <fmt/format.h>

#include <cerrno>

#include "base/line.hpp"

namespace mh {

void vprint_message(fmt::string_view format, fmt::format_args args) noexcept {
  const int errno_of_the_program = errno;
  try {
    print_line(fmt::vformat(format, args));
  } catch (...) {
    // A lack of memory for a message must not end the program: the message is lost.
  }
  errno = errno_of_the_program;
}

}  // namespace mh
