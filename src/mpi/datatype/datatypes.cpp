// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatype/datatypes.hpp"

#include "mpi/datatype/contents.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::datatypes {
namespace {

std::uint64_t size_of(MPI_Datatype type) {
  MPI_Count size = 0;
  real.Type_size_x(type, &size);
  return size > 0 ? static_cast<std::uint64_t>(size) : 0;
}

// Elements repeated `count` times follow each other without gaps, and the first begins at the
// buffer.
bool tiles(MPI_Datatype type, std::uint64_t size) {
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  MPI_Count true_lower = 0;
  MPI_Count true_extent = 0;
  real.Type_get_extent_x(type, &lower, &extent);
  real.Type_get_true_extent_x(type, &true_lower, &true_extent);
  const auto wanted = static_cast<MPI_Count>(size);
  return lower == 0 && true_lower == 0 && extent == wanted && true_extent == wanted;
}

bool contiguous(MPI_Datatype type);

// A tiling type can still hold its bytes in another order (an indexed type with swapped blocks), so
// the constructor is asked as well. Only those that keep the order by their nature are accepted;
// any other is not contiguous, which costs speed and never correctness.
bool keeps_order(MPI_Datatype type) {
  const Contents contents(type);
  if (!contents.readable()) return false;
  if (contents.is_predefined()) return true;
  switch (contents.combiner()) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_CONTIGUOUS:
    case MPI_COMBINER_RESIZED:
    case MPI_COMBINER_SUBARRAY:  // one that tiles is the whole array, in its order
      return contents.types() == 1 && contiguous(contents.type(0));
    case MPI_COMBINER_VECTOR:
      return contents.types() == 1 && contiguous(contents.type(0)) &&
             (contents.number(0) <= 1 || contents.number(1) == contents.number(2));
    case MPI_COMBINER_HVECTOR:
      return contents.types() == 1 && contiguous(contents.type(0)) &&
             (contents.number(0) <= 1 ||
              contents.place(0, 2) ==
                  contents.number(1) * static_cast<std::int64_t>(size_of(contents.type(0))));
    default:
      return false;
  }
}

bool contiguous(MPI_Datatype type) {
  const std::uint64_t size = size_of(type);
  return size != 0 && tiles(type, size) && keeps_order(type);
}

}  // namespace

Info detail::inspect(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return {0, false};
  const Info found{size_of(type), contiguous(type)};
  cache.fill(bits_of(type), pack(found));
  return found;
}

}  // namespace mh::mpi::datatypes
