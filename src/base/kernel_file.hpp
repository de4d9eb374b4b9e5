// SPDX-License-Identifier: BSD-3-Clause
// Reads files in which the kernel answers with a line (/proc, /sys). Thread-safe.
#pragma once

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

}  // namespace mh
