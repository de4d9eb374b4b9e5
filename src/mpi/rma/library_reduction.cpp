// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rma/library_reduction.hpp"

#include "mpi/job/config.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::rma {

bool LibraryReduction::is_defined() const {
  struct alignas(64) Element {  // of any predefined type
    std::byte bytes[64];
  };
  const Element from{};
  Element to{};
  return real.Reduce(&from, &to, 1, type, op, 0, config.self_comm) == MPI_SUCCESS;
}

void LibraryReduction::reduce(const void* context, void* target, const void* origin,
                              std::size_t elements) {
  const auto* self = static_cast<const LibraryReduction*>(context);
  real.Reduce_local(origin, target, static_cast<int>(elements), self->type, self->op);
}

}  // namespace mh::mpi::rma
