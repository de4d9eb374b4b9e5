// SPDX-License-Identifier: BSD-3-Clause
// What a transfer has to know of a datatype: its size, and whether its elements lie without gaps
// and in order from the first byte on, so that `count` of them are simply count * size bytes.
//
// Found out once per datatype from the standard's own inquiry calls and cached until MPI_Type_free.
// A type that is not committed is of no bytes here, and not cached: whoever has nothing to move
// leaves the call to the library, which refuses the type. Any thread.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"
#include "mpi/datatype/elements.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/datatype/packing.hpp"
#include "mpi/handle_cache.hpp"

namespace mh::mpi::datatypes {

struct Info {
  std::uint64_t size;  // bytes of one element of this type
  bool contiguous;
};

namespace detail {
inline HandleCache<> cache;
Info inspect(MPI_Datatype type);
bool is_committed(MPI_Datatype type);

inline Info unpack(std::uint64_t word) { return {word >> 1U, (word & 1U) != 0}; }
inline std::uint64_t pack(Info info) { return info.size << 1U | (info.contiguous ? 1U : 0U); }
}  // namespace detail

// Of `count` elements of a type that has been asked about before, else kUnknown bytes; without a
// call, so that a wrapper may ask on its shortest way.
inline constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
struct Known {
  std::uint64_t bytes;
  bool contiguous;
};
template <class Count>
[[gnu::always_inline]] inline Known known(Count count, MPI_Datatype type) {
  std::uint64_t word = 0;
  if (count < 0 || !detail::cache.find(bits_of(type), word)) return {kUnknown, false};
  const Info info = detail::unpack(word);
  return {info.size * static_cast<std::uint64_t>(count), info.contiguous};
}

inline Info info(MPI_Datatype type) {
  std::uint64_t word = 0;
  if (detail::cache.find(bits_of(type), word)) [[likely]]
    return detail::unpack(word);
  return detail::inspect(type);
}

// Whether the library takes operations of this type: it is one, and committed.
inline bool is_usable(MPI_Datatype type) {
  std::uint64_t word = 0;
  return detail::cache.find(bits_of(type), word) || detail::is_committed(type);
}

// The communicator of this rank alone, with errors returned, on which the library is asked whether
// a type is committed: no inquiry call says so. Until then, and after stop(), all types are.
void ask_on(MPI_Comm self);
void stop();

// MPI_Type_free: the handle may come back as another type.
inline void forget(MPI_Datatype type) {
  detail::cache.drop(bits_of(type));
  packing::forget(type);
  layouts::forget(type);
  elements::forget(type);
}

}  // namespace mh::mpi::datatypes
