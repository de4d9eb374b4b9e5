// SPDX-License-Identifier: BSD-3-Clause
// Reads how a datatype was made: the constructor call and its arguments (MPI_Type_get_envelope,
// MPI_Type_get_contents, and their large-count forms if the library has them).
//
// Frees component types if the standard requires it. One thread per object. Limit: a type made with
// large counts is readable only if the library has the large-count inquiry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/abi.hpp"

namespace mh::mpi {

// Returns the size (MPI_Type_size) of an element in bytes: its data without gaps. 0 if the
// library's call fails.
std::uint64_t size_of(MPI_Datatype type);
struct TypeBounds {
  MPI_Count lower = 0;
  MPI_Count extent = 0;
};
TypeBounds bounds_of(MPI_Datatype type);
TypeBounds true_bounds_of(MPI_Datatype type);

inline constexpr int kDeepestType = 64;  // levels of a type that are read

class Contents {
 public:
  explicit Contents(MPI_Datatype type);
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents();

  [[nodiscard]] bool is_readable() const { return is_readable_; }
  [[nodiscard]] int combiner() const { return combiner_; }
  // True for a predefined type, which must not be freed and has no component types.
  [[nodiscard]] bool is_predefined() const;

  // The i-th integer argument of the constructor: a count, a length or a displacement in elements.
  // In a large-count constructor the displacements in bytes follow in the same array.
  [[nodiscard]] std::int64_t number(std::size_t i) const {
    return is_large_ ? counts_[i] : integers_[i];
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(std::size_t first, std::size_t count) const;
  // Displacement or stride number `i` in bytes. `before`: how many numbers the constructor's
  // arguments have ahead of the displacements, for constructors with large counts.
  [[nodiscard]] std::int64_t displacement(std::size_t i, std::size_t before) const {
    return is_large_ ? counts_[before + i] : addresses_[i];
  }
  [[nodiscard]] std::vector<std::int64_t> displacements(std::size_t count,
                                                        std::size_t before) const;
  // Arguments that are of type int even in a constructor with large counts, such as the order of an
  // array. Function int_argument() returns integer `i` of all arguments. Function
  // int_after_counts() returns integer `i` after an array of `numbers` counts, which are integers,
  // too, unless the constructor has large counts.
  [[nodiscard]] int int_argument(std::size_t i) const { return integers_[i]; }
  [[nodiscard]] int int_after_counts(std::size_t i, std::size_t numbers) const {
    return integers_[is_large_ ? i : i + numbers];
  }
  // Returns `count` of the constructor's counts, from count number `first` on. If the constructor
  // has no large counts, they are in one array with `ints` other integers, which come first.
  [[nodiscard]] std::vector<std::int64_t> numbers_after_ints(std::size_t ints, std::size_t first,
                                                             std::size_t count) const {
    return numbers((is_large_ ? 0 : ints) + first, count);
  }

  [[nodiscard]] std::size_t types() const { return types_.size(); }
  [[nodiscard]] MPI_Datatype type(std::size_t i) const { return types_[i]; }

 private:
  struct Sizes {
    MPI_Count integers = 0;
    MPI_Count addresses = 0;
    MPI_Count counts = 0;
    MPI_Count types = 0;
  };
  static bool read_envelope(MPI_Datatype type, Sizes& sizes, int& combiner);
  bool read_arguments(MPI_Datatype type, const Sizes& sizes);

  bool is_readable_ = false;
  bool is_large_ = false;
  int combiner_ = MPI_COMBINER_NAMED;
  std::vector<int> integers_;
  std::vector<MPI_Aint> addresses_;
  std::vector<MPI_Count> counts_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace mh::mpi
