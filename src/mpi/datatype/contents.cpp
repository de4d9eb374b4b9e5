// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatype/contents.hpp"

#include "mpi/next.hpp"

namespace mh::mpi {
namespace {

bool predefined(int combiner) {
  switch (combiner) {
    case MPI_COMBINER_NAMED:
    case MPI_COMBINER_F90_REAL:
    case MPI_COMBINER_F90_COMPLEX:
    case MPI_COMBINER_F90_INTEGER:
      return true;
    default:
      return false;
  }
}

// A component type is ours to free unless it is the library's own.
void give_back(MPI_Datatype type) {
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = MPI_COMBINER_NAMED;
  const bool large = real.Type_get_envelope_c != nullptr;
  if (large) {
    MPI_Count sizes[4] = {};
    real.Type_get_envelope_c(type, &sizes[0], &sizes[1], &sizes[2], &sizes[3], &combiner);
  } else {
    real.Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  }
  if (!predefined(combiner)) real.Type_free(&type);
}

}  // namespace

bool Contents::is_predefined() const { return predefined(combiner_); }

Contents::Contents(MPI_Datatype type) {
  Sizes sizes;
  readable_ = read_envelope(type, sizes);
  if (!readable_ || is_predefined()) return;
  integers_.resize(static_cast<std::size_t>(sizes.integers));
  addresses_.resize(static_cast<std::size_t>(sizes.addresses));
  counts_.resize(static_cast<std::size_t>(sizes.counts));
  types_.resize(static_cast<std::size_t>(sizes.types));
  readable_ = read_arguments(type, sizes);
  if (!readable_) types_.clear();
}

Contents::~Contents() {
  for (const MPI_Datatype type : types_) give_back(type);
}

bool Contents::read_envelope(MPI_Datatype type, Sizes& sizes) {
  if (real.Type_get_envelope_c != nullptr) {
    const int result = real.Type_get_envelope_c(type, &sizes.integers, &sizes.addresses,
                                                &sizes.counts, &sizes.types, &combiner_);
    is_large_ = sizes.counts != 0;
    return result == MPI_SUCCESS && (!is_large_ || real.Type_get_contents_c != nullptr);
  }
  int integers = 0;
  int addresses = 0;
  int types = 0;
  const int result = real.Type_get_envelope(type, &integers, &addresses, &types, &combiner_);
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

std::vector<std::int64_t> Contents::places(std::size_t count, std::size_t before) const {
  std::vector<std::int64_t> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = place(i, before);
  return made;
}

}  // namespace mh::mpi
