// SPDX-License-Identifier: BSD-3-Clause
// Moves large static arrays of the program (.data and .bss; Fortran COMMON and module arrays) into
// the heap's file.
//
// The arrays keep their addresses: their contents are written into the file, which is then mapped
// in their place. Limits: whole pages that stay writable, of the program itself (not of its
// libraries), before main(), in a process of one thread.
#pragma once

#include <link.h>

#include <cstddef>

#include "heap/file.hpp"

namespace mh::heap {

inline constexpr std::size_t kStaticThreshold = 1U << 20U;

// The part of a writable segment of the program that can be moved into the heap's file: `data` is
// the address at which zero-filled memory (.bss) begins.
struct Movable {
  Span span{};
  std::uint64_t data = 0;
};
Movable movable(const dl_phdr_info& info, const ElfW(Phdr) & segment, std::size_t page);

// Moves all large enough segments of the program into the heap's file, up to `most` bytes together,
// and returns the bytes moved. Calls `ready`, which makes the file, if there are such segments.
std::uint64_t move_statics(File& file, bool (*ready)(), std::uint64_t most);

}  // namespace mh::heap
