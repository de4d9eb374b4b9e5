// SPDX-License-Identifier: BSD-3-Clause
// Puts a profiled call into the front's table of entries: the new entry times the call and then
// calls the entry that stood there before. The new entry *covers* that entry, which is the function
// *below*.
//
// Used by one thread, while it fills the table. Each call has two names (MPI_X, PMPI_X), and each
// name has a function below it.
#pragma once

#include <cstdint>

#include "mpi/front/table.h"
#include "mpi/next.hpp"

namespace mh::mpi::profile {

// The functions to which a profiled call goes on, by the name (MPI_X or PMPI_X) under which the
// program called.
struct Mpi {
  static inline Next below;
};
struct Pmpi {
  static inline Next below;
};

// Puts the function `profiled` into the front's table in place of `entry`, and writes to `below`
// the function to which it goes on, that is, the old entry. `fallback`: written to `below` where
// the table has no entry; the front itself would call it.
template <class Function>
void cover_one(mh_function& entry, Function& below, Function profiled, Function fallback) {
  const auto as_entry = reinterpret_cast<mh_function>(profiled);
  if (entry == as_entry) return;  // refill_table() has not replaced this entry
  below = entry != nullptr ? reinterpret_cast<Function>(entry) : fallback;
  entry = as_entry;
}

template <auto call, auto mpi, auto pmpi>
void cover(mh_table& table, std::uint32_t index) {
  if (real.*call == nullptr) return;
  cover_one(table.mpi[index], Mpi::below.*call, mpi, next.*call);
  cover_one(table.pmpi[index], Pmpi::below.*call, pmpi, real.*call);
}

}  // namespace mh::mpi::profile
