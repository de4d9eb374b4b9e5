// SPDX-License-Identifier: BSD-3-Clause
#include "node/host.hpp"

#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include "base/kernel_file.hpp"

namespace mh::node {
namespace {

// Returns the target of a symbolic link, such as a namespace in /proc/self/ns; empty if it cannot
// be read.
std::string link_text(const char* path) {
  std::array<char, 64> text{};
  const ssize_t length = ::readlink(path, text.data(), text.size());
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

std::uint64_t host_identity() {
  std::string all;
  for (const char* file : {"/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/hostname"}) {
    const std::string line = first_line(file);
    if (line.empty()) return 0;
    all += line + '\n';
  }
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net", "/proc/self/ns/ipc",
                            "/proc/self/ns/uts", "/proc/self/ns/user", "/proc/self/ns/mnt"}) {
    const std::string text = link_text(space);
    if (text.empty()) return 0;
    all += text + '\n';
  }
  return std::hash<std::string>()(all);
}

}  // namespace mh::node
