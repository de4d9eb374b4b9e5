// SPDX-License-Identifier: BSD-3-Clause
// The size of a datatype, and whether its elements are contiguous: without gaps and in order from
// the first byte, so that `count` elements are count * size bytes.
//
// Found once per datatype by the standard's inquiry calls, and cached until MPI_Type_free. A type
// that is not committed counts as 0 bytes and is not cached. A call of 0 bytes goes to the library,
// which refuses the type. Thread-safe.
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

// known(), below, returns the size of `count` elements of a type that is in the cache; kUnknown
// bytes for any other type. It calls no function, so that a wrapper may look the size up on its
// shortest path.
inline constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
struct KnownSize {
  std::uint64_t bytes;
  bool contiguous;
};
template <class Count>
[[gnu::always_inline]] inline KnownSize known(Count count, MPI_Datatype type) {
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

// True if the library accepts operations with this type: it is valid and committed.
inline bool is_usable(MPI_Datatype type) {
  std::uint64_t word = 0;
  return detail::cache.find(bits_of(type), word) || detail::is_committed(type);
}

// Sets the communicator for commit probes: `self` contains this rank alone and returns errors.
// There is no inquiry call that tells whether a type is committed, so is_usable() sends with the
// type to MPI_PROC_NULL on `self`. Before this call, and after stop_commit_probes(), all types
// count as committed.
void probe_commits_on(MPI_Comm self);
void stop_commit_probes();

// Drops the cached size of a type. Called by MPI_Type_free, after which the library may give the
// handle to another type.
inline void forget_type(MPI_Datatype type) {
  detail::cache.drop(bits_of(type));
  packing::forget_type(type);
  layouts::forget_type(type);
  elements::forget_type(type);
}

}  // namespace mh::mpi::datatypes
