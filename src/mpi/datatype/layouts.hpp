// SPDX-License-Identifier: BSD-3-Clause
// The layout of an MPI datatype (layout/layout.hpp), read once and cached until MPI_Type_free.
//
// Each level of a type is read from the library and rebuilt. Bounds are the library's own at every
// level; size and true bounds of the whole must equal the library's. A type that cannot be read, or
// differs, has no layout, and its messages stay the library's. The same holds for the pairs with a
// gap inside (MPI_SHORT_INT), which MPI libraries pack differently. Thread-safe.
#pragma once

#include "layout/layout.hpp"
#include "mpi/abi.hpp"

namespace mh::mpi::layouts {

// Returns the layout of a datatype, or null if there is none. The layout lives as long as any such
// pointer, also after MPI_Type_free.
layout::LayoutPtr of(MPI_Datatype type);

// The layout of a datatype for rendezvous: null as from of(), and also if an RTS header received
// with this type would end within a basic element (signature.hpp).
layout::LayoutPtr of_rendezvous(MPI_Datatype type);

// Returns the layout that the type has if gaps inside basic elements (MPI_SHORT_INT) count as data.
// One-sided operations move such elements together with their gaps. The packed stream is not MPI's,
// but is equal for any two such layouts of one type signature. Null if the type has no layout. Not
// cached.
layout::LayoutPtr padded_of(MPI_Datatype type);

// Drops the cached layout of a type. Called by MPI_Type_free, after which the library may give the
// handle to another type.
void forget_type(MPI_Datatype type);

}  // namespace mh::mpi::layouts
