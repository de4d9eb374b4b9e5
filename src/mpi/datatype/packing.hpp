// SPDX-License-Identifier: BSD-3-Clause
// Which calls of MPI_Pack and MPI_Unpack the layout engine does, because it is faster.
//
// The packed stream of the MPI libraries at hand is that of the engine (tests/mpi/layouts). A
// type's first call is the library's own: only if it succeeds is the type read, so a handle that is
// wrong or not committed gets the library's error. Whatever else looks odd (no room, negative
// numbers, an unknown communicator, MPI_BOTTOM) is left to the library as well, and so are short
// streams, types without gaps, those of blocks that the library is as quick with, and all of a
// program that has loaded an accelerator's run time. MPI_Pack_external
// stays the library's: its bytes are in another order. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"
#include "layout/layout.hpp"
#include "mpi/abi.hpp"
#include "mpi/handle_cache.hpp"

namespace mh::mpi::packing {

// The shortest stream (bytes) that the engine is faster with, of blocks that are so long on
// average. Open MPI is as fast with blocks of less than a line, and quick with few that are longer;
// MPICH with none: docs/decisions/layout.
constexpr std::uint64_t least_bytes([[maybe_unused]] std::uint64_t block) {
#if defined(MH_ABI_OPENMPI)
  if (block <= 24) return 2048;
  return block < kCacheLine ? ~std::uint64_t{0} : 8192;
#else
  return 512;
#endif
}
inline std::uint64_t least_bytes(const layout::Layout& layout) {
  return least_bytes(layout.size() / layout.blocks());
}

namespace detail {
// By type: the address of its layout, which layouts::of() keeps until the type is freed, or 0 where
// its streams are the library's.
inline HandleCache<> layouts;

// The last type that was left to the library, and up to which count: the shortest calls take 12 ns.
// Relaxed, and the two need not fit together: to leave a call to the library is never wrong.
struct Left {
  std::atomic<MPI_Datatype> type{};
  std::atomic<MPI_Count> most{-1};
};
inline Left left;
}  // namespace detail

// True if a call with so many elements is known to be the library's. Without a call of its own.
template <class Count>
bool is_left(MPI_Datatype type, Count count) {
  return type == detail::left.type.load(std::memory_order_relaxed) &&
         count <= detail::left.most.load(std::memory_order_relaxed);
}

// What is known of a type: nothing yet, or its layout, null where its streams are the library's.
struct Known {
  bool known;
  const layout::Layout* layout;
};
inline Known find(MPI_Datatype type) {
  std::uint64_t address = 0;
  if (!detail::layouts.find(bits_of(type), address)) return {.known = false, .layout = nullptr};
  return {.known = true, .layout = reinterpret_cast<const layout::Layout*>(address)};
}

// The library has accepted a call with this type.
void learn(MPI_Datatype type);
// A call with this type was left to the library; likewise shorter ones from now on.
void leave(MPI_Datatype type, const layout::Layout* layout);
// MPI_Type_free: the handle may come back as another type.
void forget(MPI_Datatype type);

}  // namespace mh::mpi::packing
