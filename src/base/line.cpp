// SPDX-License-Identifier: BSD-3-Clause
#include "base/line.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace mh {

void print_line(std::string_view text) noexcept {
  const int errno_of_the_program = errno;
  try {
    std::string line = "manyhands: ";
    line += text;
    std::replace(line.begin(), line.end(), '\n', ' ');
    line += '\n';
    // A line that cannot be written is lost: the program may have closed stderr.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {
    // A lack of memory for a message must not end the program: the message is lost.
  }
  errno = errno_of_the_program;
}

}  // namespace mh
