// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatype/signature.hpp"

#include <algorithm>

#include "mpi/datatype/contents.hpp"

namespace mh::mpi {
namespace {

// The first bytes of a packed stream, which ends_element() fills with the basic elements of a type,
// one after the other: how many of these bytes are still empty.
struct UnfilledBytes {
  std::uint64_t left;
  bool fits = true;  // no element reaches beyond the range
  [[nodiscard]] bool is_open() const { return left != 0 && fits; }
};

void fill_bytes(UnfilledBytes& rest, MPI_Datatype type, std::uint64_t copies, int depth);

void fill_basic(UnfilledBytes& rest, std::uint64_t size, std::uint64_t copies) {
  const std::uint64_t used = std::min(copies, rest.left / size) * size;
  rest.left -= used;
  rest.fits = rest.left == 0 || used == copies * size;
}

void fill_once(UnfilledBytes& rest, const Contents& made, std::uint64_t size, int depth) {
  if (made.combiner() == MPI_COMBINER_STRUCT) {
    for (std::size_t i = 0; i < made.types() && rest.is_open(); ++i) {
      fill_bytes(rest, made.type(i), static_cast<std::uint64_t>(made.number(1 + i)), depth + 1);
    }
  } else if (const std::uint64_t child = made.types() == 1 ? size_of(made.type(0)) : 0;
             child != 0) {
    fill_bytes(rest, made.type(0), size / child, depth + 1);
  } else {
    rest.fits = false;
  }
}

void fill_bytes(UnfilledBytes& rest, MPI_Datatype type, std::uint64_t copies, int depth) {
  const std::uint64_t size = size_of(type);
  if (size == 0 || copies == 0) return;
  const Contents made(type);
  rest.fits = made.is_readable() && depth <= kDeepestType && type != MPI_PACKED;
  if (!rest.fits) return;
  if (made.is_predefined()) return fill_basic(rest, size, copies);
  for (; copies > 0 && rest.is_open(); --copies) fill_once(rest, made, size, depth);
}

}  // namespace

bool ends_element(MPI_Datatype type, std::uint64_t bytes) {
  UnfilledBytes rest{.left = bytes};
  fill_bytes(rest, type, bytes, 0);
  return rest.fits && rest.left == 0;
}

}  // namespace mh::mpi
