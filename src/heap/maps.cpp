// SPDX-License-Identifier: BSD-3-Clause
#include "heap/maps.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "heap/calls.hpp"

namespace mh::heap {
namespace {

constinit char text[4096];

// Returns the value of a hexadecimal digit; 16 or more if the character is none.
unsigned digit(int character) {
  const auto value = static_cast<unsigned>(character);
  if (value - '0' < 10) return value - '0';
  return value - 'a' < 6 ? value - 'a' + 10 : 16;
}

}  // namespace

Maps::Maps() : file_(call::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}

Maps::~Maps() {
  if (file_ >= 0) call::close(file_);
}

// Returns the next character of /proc/self/maps, or -1 at the end.
int Maps::get() {
  if (at_ == end_) {
    ssize_t got = 0;
    do {
      got = call::read(file_, text, sizeof text);
    } while (got < 0 && errno == EINTR);
    at_ = 0;
    end_ = got > 0 ? static_cast<std::size_t>(got) : 0;
    if (end_ == 0) return last_ = -1;
  }
  return last_ = static_cast<unsigned char>(text[at_++]);
}

std::uint64_t Maps::number(unsigned base) {
  std::uint64_t value = 0;
  while (digit(get()) < base) value = value * base + digit(last_);
  return value;
}

// Reads a line such as "7f01e000-7f021000 r-xp 0000a000 08:01 1234    /lib/libc.so.6".
bool Maps::next(MapsEntry& mapping) {
  if (!readable()) return false;
  mapping.start = number(16);
  mapping.end = number(16);
  mapping.protection = get() == 'r' ? PROT_READ : 0;
  if (get() == 'w') mapping.protection |= PROT_WRITE;
  if (get() == 'x') mapping.protection |= PROT_EXEC;
  mapping.shared = get() == 's';
  get();
  mapping.offset = number(16);
  number(16);
  number(16);
  mapping.inode = number(10);
  while (last_ != '\n' && last_ >= 0) get();
  return last_ >= 0;
}

}  // namespace mh::heap
