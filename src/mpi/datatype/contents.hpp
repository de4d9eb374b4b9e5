// SPDX-License-Identifier: BSD-3-Clause
// How a datatype was made: the constructor call and its arguments (MPI_Type_get_envelope,
// MPI_Type_get_contents, and their large-count forms where the library has them).
//
// Component types are freed with the contents where the standard asks for it. Limits: a type made
// with large counts is readable only where the library has the large inquiry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/abi.hpp"

namespace mh::mpi {

// Bytes of an element's data; 0 also where the library does not say.
std::uint64_t size_of(MPI_Datatype type);
struct Bounds {
  MPI_Count lower = 0;
  MPI_Count extent = 0;
};
Bounds bounds_of(MPI_Datatype type);
Bounds true_bounds_of(MPI_Datatype type);

inline constexpr int kDeepestType = 64;  // levels of a type that are read

class Contents {
 public:
  explicit Contents(MPI_Datatype type);
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents();

  [[nodiscard]] bool readable() const { return readable_; }
  [[nodiscard]] int combiner() const { return combiner_; }
  // Of the library's own, so it must not be freed and is not made of others.
  [[nodiscard]] bool is_predefined() const;

  // Arguments that are counts, lengths or displacements in elements: the i-th one. A large-count
  // constructor keeps displacements in bytes behind them in the same array.
  [[nodiscard]] std::int64_t number(std::size_t i) const {
    return is_large_ ? counts_[i] : integers_[i];
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(std::size_t first, std::size_t count) const;
  // Displacements and strides in bytes; `before`: numbers the constructor has before them.
  [[nodiscard]] std::int64_t place(std::size_t i, std::size_t before) const {
    return is_large_ ? counts_[before + i] : addresses_[i];
  }
  [[nodiscard]] std::vector<std::int64_t> places(std::size_t count, std::size_t before) const;
  // Arguments that are plain integers in both forms, in an array of `numbers` counts: those before
  // (`i` counts from the front) and those behind them.
  [[nodiscard]] int front(std::size_t i) const { return integers_[i]; }
  [[nodiscard]] int behind(std::size_t i, std::size_t numbers) const {
    return integers_[is_large_ ? i : i + numbers];
  }
  // A number that stands behind `front` plain integers.
  [[nodiscard]] std::vector<std::int64_t> numbers_behind(std::size_t front, std::size_t first,
                                                         std::size_t count) const {
    return numbers((is_large_ ? 0 : front) + first, count);
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

  bool readable_ = false;
  bool is_large_ = false;
  int combiner_ = MPI_COMBINER_NAMED;
  std::vector<int> integers_;
  std::vector<MPI_Aint> addresses_;
  std::vector<MPI_Count> counts_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace mh::mpi
