// SPDX-License-Identifier: BSD-3-Clause
// Puts a profiled call into the table of entries, in front of the present entry.
//
// Used by one thread, while the table is filled. Each call has two names (MPI_X, PMPI_X), and each
// name has a function below it.
#pragma once

#include <cstdint>

#include "mpi/front/table.h"
#include "mpi/next.hpp"

namespace mh::mpi::profile {

// The functions that a profiled call goes on to.
struct Mpi {
  static inline Next below;
};
struct Pmpi {
  static inline Next below;
};

// `fallback`: the function that the front calls where the table has no entry.
template <class Function>
void cover_one(mh_function& entry, Function& below, Function profiled, Function fallback) {
  const auto as_entry = reinterpret_cast<mh_function>(profiled);
  if (entry == as_entry) return;  // this entry was not filled again
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
