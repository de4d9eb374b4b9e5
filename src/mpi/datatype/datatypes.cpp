// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatype/datatypes.hpp"

#include <optional>

#include "mpi/datatype/contents.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::datatypes {
namespace {

// The communicator on which is_committed() tests datatypes, if any (probe_commits_on()). Written
// only by MPI_Init and MPI_Finalize, while no other call reads it.
std::optional<MPI_Comm> g_probe_comm;

// True if repeated elements of the type follow each other without gaps, and the first begins at the
// buffer's address. `size`: MPI_Type_size of the type.
bool is_tiling(MPI_Datatype type, std::uint64_t size) {
  const TypeBounds bounds = bounds_of(type);
  const TypeBounds true_bounds = true_bounds_of(type);
  const auto wanted = static_cast<MPI_Count>(size);
  return bounds.lower == 0 && true_bounds.lower == 0 && bounds.extent == wanted &&
         true_bounds.extent == wanted;
}

bool is_contiguous(MPI_Datatype type);

// True if the bytes of a type without gaps are certainly in order, because all its constructors
// always keep the order. An indexed type with swapped blocks has no gaps, either, but has another
// order. Every type that is not certain counts as not contiguous, which costs speed and never
// correctness.
bool keeps_order(MPI_Datatype type) {
  const Contents contents(type);
  if (!contents.is_readable()) return false;
  if (contents.is_predefined()) return true;
  if (contents.types() != 1 || !is_contiguous(contents.type(0))) return false;
  // Counts as not contiguous, so that sends look at the signature of the type (signature.hpp).
  if (contents.type(0) == MPI_PACKED) return false;
  switch (contents.combiner()) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_CONTIGUOUS:
    case MPI_COMBINER_RESIZED:
    case MPI_COMBINER_SUBARRAY:  // a tiling subarray is the whole array in order
      return true;
    case MPI_COMBINER_VECTOR:
      return contents.number(0) <= 1 || contents.number(1) == contents.number(2);
    case MPI_COMBINER_HVECTOR:
      return contents.number(0) <= 1 ||
             contents.displacement(0, 2) ==
                 contents.number(1) * static_cast<std::int64_t>(size_of(contents.type(0)));
    default:
      return false;
  }
}

bool is_contiguous(MPI_Datatype type) {
  const std::uint64_t size = size_of(type);
  return size != 0 && is_tiling(type, size) && keeps_order(type);
}

}  // namespace

// Sends a message to MPI_PROC_NULL with the type. The library checks the arguments, and refuses a
// type that is not committed; it sends and reads nothing.
bool detail::is_committed(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return false;
  const char byte = 0;
  return !g_probe_comm || real.Send(&byte, 1, type, MPI_PROC_NULL, 0, *g_probe_comm) == MPI_SUCCESS;
}

void probe_commits_on(MPI_Comm self) { g_probe_comm = self; }
void stop_commit_probes() { g_probe_comm.reset(); }

Info detail::inspect(MPI_Datatype type) {
  if (!is_committed(type)) return {0, false};
  const Info found{size_of(type), is_contiguous(type)};
  cache.fill(bits_of(type), pack(found));
  return found;
}

}  // namespace mh::mpi::datatypes
