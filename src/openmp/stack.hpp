// SPDX-License-Identifier: BSD-3-Clause
// The size of the stacks of threads that run iterations of the program's loops, such as helpers.
// Thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace mh::openmp {

// The size of a stack for loops, in bytes, if the main thread's stack has no limit. It costs only
// address space: a loop commits the memory that it touches.
inline constexpr std::size_t kStackWithoutLimit = 256U << 20U;

// Returns the size in bytes of the stack of a thread that runs iterations of loops. It is the
// largest of the main thread's limit (`ulimit -s`) and the user's settings for OpenMP threads
// (OMP_STACKSIZE and the run times' own names).
std::size_t stack_for_loops();

// Parses a size as OMP_STACKSIZE has it: "512M", or "20000", which counts in `unit` bytes. Returns
// nothing if `text` is not a size.
std::optional<std::size_t> stack_size(std::string_view text, std::size_t unit);

}  // namespace mh::openmp
