// SPDX-License-Identifier: BSD-3-Clause
// The layout behind an MPI datatype (layout/layout.hpp), read once and cached until MPI_Type_free.
//
// Each level of a type is read back from the library and built again; bounds are the library's own
// at every level, and size and true bounds of the whole are compared with what the library says. A
// type that cannot be read, or whose numbers differ, has no layout: such messages stay the
// library's. So have the pairs with a gap inside (MPI_SHORT_INT), which not every MPI packs alike.
// Any thread.
#pragma once

#include "layout/layout.hpp"
#include "mpi/abi.hpp"

namespace mh::mpi::layouts {

// Null if there is none. The layout lives as long as anyone holds it, also after MPI_Type_free.
layout::LayoutPtr of(MPI_Datatype type);

// Null also if a descriptor in place of such data would end within a basic element (signature.hpp).
layout::LayoutPtr of_describable(MPI_Datatype type);

// As if basic elements with a gap inside had none: each is as many bytes as it lies apart from the
// next. The stream is not MPI's, but two such layouts of one signature have the same. Null if there
// is none. Not cached.
layout::LayoutPtr padded_of(MPI_Datatype type);

// MPI_Type_free: the handle may come back as another type.
void forget(MPI_Datatype type);

}  // namespace mh::mpi::layouts
