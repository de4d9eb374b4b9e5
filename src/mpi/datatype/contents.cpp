// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatype/contents.hpp"

#include "mpi/next.hpp"

namespace mh::mpi {
namespace {

bool is_predefined_combiner(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
         combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

}  // namespace

std::uint64_t size_of(MPI_Datatype type) {
  MPI_Count size = 0;
  real.Type_size_x(type, &size);
  return size > 0 ? static_cast<std::uint64_t>(size) : 0;
}

TypeBounds bounds_of(MPI_Datatype type) {
  TypeBounds found;
  real.Type_get_extent_x(type, &found.lower, &found.extent);
  return found;
}

TypeBounds true_bounds_of(MPI_Datatype type) {
  TypeBounds found;
  real.Type_get_true_extent_x(type, &found.lower, &found.extent);
  return found;
}

bool Contents::is_predefined() const { return is_predefined_combiner(combiner_); }

Contents::Contents(MPI_Datatype type) {
  Sizes sizes;
  is_readable_ = read_envelope(type, sizes, combiner_) &&
                 (sizes.counts == 0 || real.Type_get_contents_c != nullptr);
  is_large_ = sizes.counts != 0;
  if (!is_readable_ || is_predefined()) return;
  integers_.resize(static_cast<std::size_t>(sizes.integers));
  addresses_.resize(static_cast<std::size_t>(sizes.addresses));
  counts_.resize(static_cast<std::size_t>(sizes.counts));
  types_.resize(static_cast<std::size_t>(sizes.types));
  is_readable_ = read_arguments(type, sizes);
  if (!is_readable_) types_.clear();
}

Contents::~Contents() {
  // MPI_Type_get_contents returns new handles of component types, except for predefined ones. They
  // must be freed.
  for (MPI_Datatype type : types_) {
    Sizes sizes;
    int combiner = MPI_COMBINER_NAMED;
    read_envelope(type, sizes, combiner);
    if (!is_predefined_combiner(combiner)) real.Type_free(&type);
  }
}

bool Contents::read_envelope(MPI_Datatype type, Sizes& sizes, int& combiner) {
  if (real.Type_get_envelope_c != nullptr) {
    return real.Type_get_envelope_c(type, &sizes.integers, &sizes.addresses, &sizes.counts,
                                    &sizes.types, &combiner) == MPI_SUCCESS;
  }
  int integers = 0;
  int addresses = 0;
  int types = 0;
  const int result = real.Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  sizes = {integers, addresses, 0, types};
  return result == MPI_SUCCESS;
}

bool Contents::read_arguments(MPI_Datatype type, const Sizes& sizes) {
  if (is_large_) {
    return real.Type_get_contents_c(type, sizes.integers, sizes.addresses, sizes.counts,
                                    sizes.types, integers_.data(), addresses_.data(),
                                    counts_.data(), types_.data()) == MPI_SUCCESS;
  }
  return real.Type_get_contents(type, static_cast<int>(sizes.integers),
                                static_cast<int>(sizes.addresses), static_cast<int>(sizes.types),
                                integers_.data(), addresses_.data(), types_.data()) == MPI_SUCCESS;
}

std::vector<std::int64_t> Contents::numbers(std::size_t first, std::size_t count) const {
  std::vector<std::int64_t> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = number(first + i);
  return made;
}

std::vector<std::int64_t> Contents::displacements(std::size_t count, std::size_t before) const {
  std::vector<std::int64_t> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = displacement(i, before);
  return made;
}

}  // namespace mh::mpi
