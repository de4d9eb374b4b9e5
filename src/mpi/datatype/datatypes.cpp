// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatype/datatypes.hpp"

#include <optional>

#include "mpi/datatype/contents.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::datatypes {
namespace {

// Written while no other call can ask: by MPI_Init and MPI_Finalize.
std::optional<MPI_Comm> asked;

// Elements repeated `count` times follow each other without gaps, and the first begins at the
// buffer.
bool tiles(MPI_Datatype type, std::uint64_t size) {
  const Bounds bounds = bounds_of(type);
  const Bounds true_bounds = true_bounds_of(type);
  const auto wanted = static_cast<MPI_Count>(size);
  return bounds.lower == 0 && true_bounds.lower == 0 && bounds.extent == wanted &&
         true_bounds.extent == wanted;
}

bool contiguous(MPI_Datatype type);

// A tiling type can still hold its bytes in another order (an indexed type with swapped blocks), so
// the constructor is asked as well. Only those that keep the order by their nature are accepted;
// any other is not contiguous, which costs speed and never correctness.
bool keeps_order(MPI_Datatype type) {
  const Contents contents(type);
  if (!contents.readable()) return false;
  if (contents.is_predefined()) return true;
  if (contents.types() != 1 || !contiguous(contents.type(0))) return false;
  switch (contents.combiner()) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_CONTIGUOUS:
    case MPI_COMBINER_RESIZED:
    case MPI_COMBINER_SUBARRAY:  // one that tiles is the whole array, in its order
      return true;
    case MPI_COMBINER_VECTOR:
      return contents.number(0) <= 1 || contents.number(1) == contents.number(2);
    case MPI_COMBINER_HVECTOR:
      return contents.number(0) <= 1 ||
             contents.place(0, 2) ==
                 contents.number(1) * static_cast<std::int64_t>(size_of(contents.type(0)));
    default:
      return false;
  }
}

bool contiguous(MPI_Datatype type) {
  const std::uint64_t size = size_of(type);
  return size != 0 && tiles(type, size) && keeps_order(type);
}

}  // namespace

// A message to nobody: its arguments are checked, nothing is sent or read.
bool detail::is_committed(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return false;
  const char byte = 0;
  return !asked || real.Send(&byte, 1, type, MPI_PROC_NULL, 0, *asked) == MPI_SUCCESS;
}

void ask_on(MPI_Comm self) { asked = self; }
void stop() { asked.reset(); }

Info detail::inspect(MPI_Datatype type) {
  if (!is_committed(type)) return {0, false};
  const Info found{size_of(type), contiguous(type)};
  cache.fill(bits_of(type), pack(found));
  return found;
}

}  // namespace mh::mpi::datatypes
