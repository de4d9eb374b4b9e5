// SPDX-License-Identifier: BSD-3-Clause
// What machine code refers to: the functions that it calls or jumps to, and the places of the
// loader that it reads addresses from.
//
// Instructions of x86-64 are told apart by their lengths alone, as compilers write them: one after
// another, without data in between. Limit: instructions of user programs up to AVX-512.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>

namespace mh::openmp::instructions {

enum class Target : std::uint8_t {
  code,  // it goes there
  place  // it reads what lies there
};
using Visit = std::function<void(Target, std::uintptr_t)>;

// Looks through code that runs at `address`. False where it comes to something that is no
// instruction.
bool x86_64(std::span<const std::uint8_t> code, std::uintptr_t address, const Visit& visit);

// The bytes of the instruction that the code begins with, 0: it is none.
std::size_t length(std::span<const std::uint8_t> code);

template <class Value>
Value read(const std::uint8_t* from) {
  Value value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace mh::openmp::instructions
