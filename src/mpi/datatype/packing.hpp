// SPDX-License-Identifier: BSD-3-Clause
// Selects the calls of MPI_Pack and MPI_Unpack for which the layout engine (src/layout) is faster
// than the library.
//
// The packed stream of the supported MPI libraries is that of the engine (tests/mpi/layouts). The
// first call with a type goes to the library; the type is read only if that call succeeds, so a
// wrong or uncommitted handle gets the library's error. The library also gets every call with
// doubtful arguments: a buffer that is too small, negative numbers, an unknown communicator,
// MPI_BOTTOM. The library also gets short streams, types without gaps, block sizes with which the
// library is as fast, and all calls of a program that has loaded an accelerator runtime.
// MPI_Pack_external stays the library's: its byte order differs. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cacheline.hpp"
#include "layout/layout.hpp"
#include "mpi/abi.hpp"
#include "mpi/handle_cache.hpp"

namespace mh::mpi::packing {

// Returns the least length of a packed stream, in bytes, from which the layout engine packs faster
// than the library. `block`: the mean length of the type's blocks in bytes. Open MPI is as fast as
// the engine with blocks of 25 to 63 bytes, and faster with a few longer blocks; MPICH is slower
// with blocks of any length (docs/decisions/layout).
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
// Maps the handle of a type to the address of its layout, which layouts::of() keeps until the type
// is freed; 0 if MPI_Pack and MPI_Unpack with the type are left to the library.
inline HandleCache<> layouts;

// The last type with which a call was left to the library, and the largest count of such a call.
// The shortest calls take 12 ns in all, so is_left() looks at these two fields alone. relaxed: the
// two need not match, since leaving a call to the library is never wrong.
struct LeftCall {
  std::atomic<MPI_Datatype> type{};
  std::atomic<MPI_Count> most{-1};
};
inline LeftCall left;
}  // namespace detail

// True if a call with `count` elements is known to go to the library. Calls no function.
template <class Count>
bool is_left(MPI_Datatype type, Count count) {
  return type == detail::left.type.load(std::memory_order_relaxed) &&
         count <= detail::left.most.load(std::memory_order_relaxed);
}

// The knowledge about a type: its entry in detail::layouts. `known`: the type has an entry.
// `layout` is null if MPI_Pack and MPI_Unpack with the type are left to the library.
struct PackedLayout {
  bool known;
  const layout::Layout* layout;
};
inline PackedLayout find_layout(MPI_Datatype type) {
  std::uint64_t address = 0;
  if (!detail::layouts.find(bits_of(type), address)) return {.known = false, .layout = nullptr};
  return {.known = true, .layout = reinterpret_cast<const layout::Layout*>(address)};
}

// Reads the layout of a type that the library has just accepted in MPI_Pack or MPI_Unpack, for
// later calls.
void learn_type(MPI_Datatype type);
// Records that calls with this type are left to the library: those whose packed stream is shorter
// than least_bytes() of `layout`, or all calls if `layout` is null.
void leave_type(MPI_Datatype type, const layout::Layout* layout);
// Drops what is cached about a type. Called by MPI_Type_free, after which the library may give the
// handle to another type.
void forget_type(MPI_Datatype type);

}  // namespace mh::mpi::packing
