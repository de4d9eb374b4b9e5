// SPDX-License-Identifier: BSD-3-Clause
// Reads files in which the kernel answers with a line (/proc, /sys). Thread-safe.
#pragma once

#include <sys/types.h>

#include <charconv>
#include <cstddef>
#include <fstream>
#include <string>

namespace mh {

// Returns the file's first line without the line break; an empty text if the file cannot be read.
inline std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns the parent of a process; 0 for init, for a process outside this PID namespace, and for a
// process that does not exist.
inline pid_t parent_of(pid_t pid) {
  const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t bracket = stat.rfind(')');
  constexpr std::size_t kToParent = 4;  // skips ") S "
  if (bracket == std::string::npos || bracket + kToParent >= stat.size()) return 0;
  const char* const digits = stat.data() + bracket + kToParent;
  pid_t parent = 0;
  std::from_chars(digits, stat.data() + stat.size(), parent);
  return parent;
}

}  // namespace mh
