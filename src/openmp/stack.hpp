// SPDX-License-Identifier: BSD-3-Clause
// How large the stacks of threads must be that run iterations of the program's loops.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace mh::openmp {

// Where the main thread's stack has no limit. Address space: memory is what a loop uses of it.
inline constexpr std::size_t kStackWithoutLimit = 256U << 20U;

// The largest of what the main thread has (`ulimit -s`) and what the user asks for on behalf of
// OpenMP's own threads (OMP_STACKSIZE, and what run times call it).
std::size_t stack_for_loops();

// A size as OMP_STACKSIZE has it: "512M", "20000" of `unit` bytes. Nothing: it is not one.
std::optional<std::size_t> stack_size(std::string_view text, std::size_t unit);

}  // namespace mh::openmp
