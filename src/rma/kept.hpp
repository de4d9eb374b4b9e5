// SPDX-License-Identifier: BSD-3-Clause
// Short operations of one origin on one target, kept until something has to come after them.
//
// Where only the kernel reaches the target's memory, each would be a system call of a microsecond.
// A list of them is one active message, or a system call for all that follow each other without a
// lock. Puts and accumulates, contiguous at both ends, without a result; in the order of the calls.
// Plain data: the target sees a copy of it (control.hpp). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rma/operation.hpp"

namespace mh::rma {

struct KeptList {
  static constexpr std::uint64_t kMost = 512;  // bytes of an operation: longer ones gain nothing
  static constexpr std::uint32_t kOperations = 128;
  static constexpr std::uint32_t kBytes = 8192;

  struct Entry {
    std::uint64_t address;  // in the target
    std::uint16_t bytes;
    std::uint16_t element;
    Op op;
    Type type;
    bool atomic;
  };

  [[nodiscard]] static bool is_short(std::uint64_t bytes) { return bytes <= kMost; }
  [[nodiscard]] bool has_room(std::uint64_t bytes) const {
    return entries < kOperations && bytes <= kBytes - used;
  }

  // The caller has seen that there is room.
  void add(const Operation& what, std::uint64_t address, const void* origin) {
    entry[entries++] = {.address = address,
                        .bytes = static_cast<std::uint16_t>(what.bytes),
                        .element = static_cast<std::uint16_t>(what.element),
                        .op = what.op,
                        .type = what.type,
                        .atomic = what.atomic};
    std::memcpy(data + used, origin, what.bytes);
    used += static_cast<std::uint32_t>(what.bytes);
  }
  void clear() { entries = used = 0; }
  void copy_from(const KeptList& other) {
    entries = other.entries;
    used = other.used;
    std::memcpy(entry, other.entry, entries * sizeof(Entry));
    std::memcpy(data, other.data, used);
  }

  std::uint32_t entries = 0;
  std::uint32_t used = 0;  // bytes of `data`
  Entry entry[kOperations];
  std::byte data[kBytes];  // one operation's after the other
};

}  // namespace mh::rma
