// SPDX-License-Identifier: BSD-3-Clause
// The basic elements of a datatype: which predefined type they are of, if all are of one. An
// accumulate needs such a datatype.
//
// A predefined type is recognised by its name, which is the same in all libraries, and by its size.
// The library itself computes with types whose names do not determine the representation (MPI_CHAR,
// extensions). Found once per type and cached until MPI_Type_free. Thread-safe.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"
#include "mpi/handle_cache.hpp"
#include "rma/reduce.hpp"

namespace mh::mpi::elements {

struct Element {
  mh::rma::Type type = mh::rma::Type::other;
  bool uniform = false;     // all elements are of one kind; else the other fields are undefined
  bool padded = false;      // with a gap inside (MPI_DOUBLE_INT): larger than its MPI size
  bool named = false;       // the type is a predefined type with a standard name
  std::uint32_t bytes = 0;  // from one element to the next in an array
};

namespace detail {
inline HandleCache<64> cache;
Element inspect(MPI_Datatype type);

inline std::uint64_t pack(const Element& element) {
  return static_cast<std::uint64_t>(element.type) | (element.uniform ? 1U << 8U : 0U) |
         (element.padded ? 1U << 9U : 0U) | (element.named ? 1U << 10U : 0U) |
         static_cast<std::uint64_t>(element.bytes) << 16U;
}
inline Element unpack(std::uint64_t word) {
  return {.type = static_cast<mh::rma::Type>(word & 0xffU),
          .uniform = (word >> 8U & 1U) != 0,
          .padded = (word >> 9U & 1U) != 0,
          .named = (word >> 10U & 1U) != 0,
          .bytes = static_cast<std::uint32_t>(word >> 16U)};
}
}  // namespace detail

inline Element of(MPI_Datatype type) {
  std::uint64_t word = 0;
  if (detail::cache.find(bits_of(type), word)) [[likely]]
    return detail::unpack(word);
  return detail::inspect(type);
}

// Returns the predefined type of the elements of a type whose elements are all of one kind
// (Element::uniform).
MPI_Datatype basic_of(MPI_Datatype type);

// Called before MPI_Type_set_name. A predefined type is known by its name, and the program may
// rename it on some ranks only.
void remember_name(MPI_Datatype type);

// Drops the cached element of a type. Called by MPI_Type_free, after which the library may give the
// handle to another type.
inline void forget_type(MPI_Datatype type) { detail::cache.drop(bits_of(type)); }

}  // namespace mh::mpi::elements
