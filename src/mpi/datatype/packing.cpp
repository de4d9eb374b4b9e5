// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatype/packing.hpp"

#include <limits>

#include "mpi/datatype/layouts.hpp"

namespace mh::mpi::packing {
namespace {

bool is_ours(const layout::Layout* layout) {
  return layout != nullptr && !layout->contiguous() && layout->blocks() != 0;
}

}  // namespace

void learn_type(MPI_Datatype type) {
  const layout::LayoutPtr layout = layouts::of(type);
  detail::layouts.fill(bits_of(type),
                       is_ours(layout.get()) ? reinterpret_cast<std::uint64_t>(layout.get()) : 0);
}

void leave_type(MPI_Datatype type, const layout::Layout* layout) {
  const MPI_Count most = layout == nullptr
                             ? std::numeric_limits<MPI_Count>::max()
                             : static_cast<MPI_Count>((least_bytes(*layout) - 1) / layout->size());
  detail::left.type.store(type, std::memory_order_relaxed);
  detail::left.most.store(most, std::memory_order_relaxed);
}

void forget_type(MPI_Datatype type) {
  detail::layouts.drop(bits_of(type));
  if (detail::left.type.load(std::memory_order_relaxed) == type) {
    detail::left.most.store(-1, std::memory_order_relaxed);
  }
}

}  // namespace mh::mpi::packing
