// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/parked_types.hpp"

#include <mutex>
#include <vector>

#include "mpi/datatype/datatypes.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/pending_requests.hpp"

namespace mh::mpi::parked_types {
namespace {

std::mutex g_mutex;
std::vector<MPI_Datatype> g_parked;  // guarded by it

}  // namespace

void park(MPI_Datatype type) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_parked.push_back(type);
}

void free_unused() {
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_parked, [](MPI_Datatype type) {
    if (pending_requests.uses(type)) return false;
    datatypes::forget(type);
    next.Type_free(&type);
    return true;
  });
}

void stop() {
  const std::lock_guard<std::mutex> hold(g_mutex);
  for (MPI_Datatype type : g_parked) next.Type_free(&type);
  g_parked.clear();
}

}  // namespace mh::mpi::parked_types
