// SPDX-License-Identifier: BSD-3-Clause
// Which calls of the OpenMP run time the code of a region can reach, though it may not have made
// them when it was watched.
//
// The machine code of the region is looked through, and of every function of its object that it
// calls directly. Functions are told apart by the table that exception handling needs, which
// stripped programs have too. Whatever looks like a call is taken for one: what is found too much
// keeps a region from being shared, no more.
//
// Limits: calls through pointers and into other objects are not followed; encounter.hpp says what
// becomes of what they reach. An object without the table, a region that reaches more than kMost
// bytes of code, and one in an object of another architecture than x86-64 and aarch64 are taken to
// reach all that their object imports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "openmp/sites.hpp"

namespace mh::openmp {

// Of the region that was compiled to `code`: none if all that it can reach is permitted.
Obstacle obstacle_within_reach(const void* code);

namespace reach {

inline constexpr std::size_t kMost = 4U << 20U;

// What an instruction refers to.
enum class Target : std::uint8_t {
  code,  // a function that it calls, or jumps to
  place  // where the loader has put the address of one
};
using Visit = std::function<void(Target, std::uintptr_t)>;

// Looks through machine code that runs at `address`.
void x86_64(std::span<const std::uint8_t> code, std::uintptr_t address, const Visit& visit);
void aarch64(std::span<const std::uint8_t> code, std::uintptr_t address, const Visit& visit);

}  // namespace reach
}  // namespace mh::openmp
