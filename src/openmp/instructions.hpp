// SPDX-License-Identifier: BSD-3-Clause
// Decodes machine code and finds its references: the functions that the code calls or jumps to, and
// the slots of the global offset table that it reads. Finds the fences of the code as well.
//
// The decoder finds x86-64 instructions by their lengths alone. The code must have them one after
// another without data in between, as compilers write them. Thread-safe. Limit: instructions of
// user programs up to AVX-512.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>

namespace mh::openmp::instructions {

enum class ReferenceKind : std::uint8_t {
  code,  // a jump or call target
  // memory at an address relative to the instruction, which is read, written or computed, such as a
  // slot of the global offset table
  slot,
  // a call or jump to a function whose address is in memory at the target, for example in a slot
  through_slot,
  // a call or jump to a function whose address is in a register, or in other memory (target 0)
  through_pointer,
  // no reference (target 0) but a fence, an instruction that only orders accesses to memory, as
  // GCC compiles `omp flush`
  fence
};
using ReferenceVisitor = std::function<void(ReferenceKind, std::uintptr_t)>;

// Calls visit(kind, target) for all references of `code`, which runs at `address`. Returns false at
// a byte sequence that is not an instruction.
bool x86_64(std::span<const std::uint8_t> code, std::uintptr_t address,
            const ReferenceVisitor& visit);

// Returns the length in bytes of the first instruction of `code`; 0 if the bytes are not an
// instruction.
std::size_t length(std::span<const std::uint8_t> code);

template <class Value>
Value load_value(const std::uint8_t* from) {
  Value value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace mh::openmp::instructions
