// SPDX-License-Identifier: BSD-3-Clause
#include "base/say.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>

namespace mh {

// Formats a line. Line breaks in the text become spaces.
static std::string line_of(fmt::string_view format, fmt::format_args args) {
  std::string line = "manyhands: ";
  fmt::vformat_to(std::back_inserter(line), format, args);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  return line;
}

void vprint_message(fmt::string_view format, fmt::format_args args) noexcept {
  const int errno_of_the_program = errno;
  try {
    const std::string line = line_of(format, args);
    // A line that cannot be written is lost: the program may have closed stderr.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {
    // A lack of memory for a message must not end the program.
  }
  errno = errno_of_the_program;
}

}  // namespace mh
