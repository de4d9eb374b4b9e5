// SPDX-License-Identifier: BSD-3-Clause
// Deferred operations: short operations of one origin on one target, collected in a list and
// carried out together later.
//
// If only the kernel reaches the target's memory, each operation would take a system call of a
// microsecond. A list takes one active message, in which the target carries it out. If the target
// does not take the message, successive puts of the list share one system call. The list holds puts
// and accumulates without a result, contiguous in both buffers, in the order of the calls. Plain
// data: the target reads a copy (control.hpp). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rma/operation.hpp"

namespace mh::rma {

struct DeferredOperation {
  std::uint64_t address;  // in the target
  std::uint16_t bytes;
  std::uint16_t element;
  Op op;
  Type type;
  bool atomic;
};

struct DeferredList {
  // The most bytes of a deferred operation; deferring a longer operation gains nothing.
  static constexpr std::uint64_t kMost = 512;
  static constexpr std::uint32_t kOperations = 128;
  static constexpr std::uint32_t kBytes = 8192;

  [[nodiscard]] static bool is_short(std::uint64_t bytes) { return bytes <= kMost; }
  [[nodiscard]] bool has_space(std::uint64_t bytes) const {
    return entries < kOperations && bytes <= kBytes - used;
  }

  // Adds an operation on the bytes at `address` of the target to the list, with a copy of its bytes
  // at `origin`. Precondition: has_space(what.bytes).
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
  void copy_from(const DeferredList& other) {
    entries = other.entries;
    used = other.used;
    std::memcpy(entry, other.entry, entries * sizeof(DeferredOperation));
    std::memcpy(data, other.data, used);
  }

  std::uint32_t entries = 0;
  std::uint32_t used = 0;  // bytes of `data`
  DeferredOperation entry[kOperations];
  std::byte data[kBytes];  // origin bytes of the operations, back to back
};

}  // namespace mh::rma
