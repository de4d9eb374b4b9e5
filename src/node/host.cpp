// SPDX-License-Identifier: BSD-3-Clause
#include "node/host.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/fd.hpp"

namespace mh::node {
namespace {

// FNV-1a over several texts. A text that cannot be read makes the hash unknown.
class TextHash {
 public:
  void add(const char* text, ssize_t length) {
    if (length <= 0) known_ = false;
    for (const char letter :
         std::string_view(text, static_cast<std::size_t>(std::max<ssize_t>(length, 0))))
      hash_ = (hash_ ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
    hash_ *= 0x100000001b3ULL;  // the end of a text counts
  }
  [[nodiscard]] std::uint64_t value() const { return known_ ? hash_ : 0; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
  bool known_ = true;
};

}  // namespace

std::uint64_t host_identity() {
  std::array<char, 256> text{};
  TextHash hash;
  const Fd boot(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  hash.add(text.data(), boot.valid() ? ::read(boot.get(), text.data(), text.size()) : -1);
  const bool has_name = ::gethostname(text.data(), text.size() - 1) == 0;
  hash.add(text.data(), has_name ? static_cast<ssize_t>(std::string_view(text.data()).size()) : -1);
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net", "/proc/self/ns/ipc",
                            "/proc/self/ns/uts", "/proc/self/ns/user", "/proc/self/ns/mnt"})
    hash.add(text.data(), ::readlink(space, text.data(), text.size()));
  return hash.value();
}

}  // namespace mh::node
