// SPDX-License-Identifier: BSD-3-Clause
// Integrals over shells of basis functions: the one-electron matrices, bounds, and the two-electron
// part of the Fock matrix, block by block.
#pragma once

#include <Eigen/Dense>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "molecule.hpp"

namespace libint2 {
class Engine;  // its header takes most of a minute to compile
}

namespace hf {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

enum class OneElectron : std::uint8_t { overlap, kinetic, attraction };
Matrix one_electron(OneElectron kind, const Molecule& molecule, const Shells& shells);
// Returns the Schwarz bound of each pair of shells, the largest sqrt |(ij|ij)| over the functions
// of the two shells. Then |(ij|kl)| <= bound(i, j) * bound(k, l).
Matrix schwarz_bounds(const Shells& shells);

// Consecutive rows of a matrix; `first` is the number of the first row.
struct Rows {
  long first = 0;
  Matrix values;
  [[nodiscard]] double operator()(long row, long column) const {
    return values(row - first, column);
  }
  double& operator()(long row, long column) { return values(row - first, column); }
};
// Rows of the density matrix, and the contributions to the same rows of the Fock matrix.
struct Panel {
  Rows density;
  Rows fock;
};
// The rows of the density that TwoElectron::add() reads for a quartet of shells (ij|kl), and the
// rows of the Fock matrix to which it adds: those of the shells i, j and k. The functions of shell
// l are columns only.
struct Panels {
  Panel& i;
  Panel& j;
  Panel& k;
};

class TwoElectron {
 public:
  explicit TwoElectron(const Shells& shells);  // `shells` must outlive this object
  ~TwoElectron();

  // Returns whether every integral (ij|kl) with this pair of shells i, j is too small to be
  // computed, by the Schwarz bounds.
  [[nodiscard]] bool is_null(std::size_t i, std::size_t j) const;
  // Adds the contributions of the quartets (ij|kl) to `panels`, for all l with (k, l) not after (i,
  // j). The sum over all pairs (i, j) and all k, made symmetric, is the two-electron part of the
  // Fock matrix.
  void add(std::size_t i, std::size_t j, std::size_t k, const Panels& panels);

 private:
  using Quartet = std::array<std::size_t, 4>;
  void add_quartet(const Quartet& shells, const Panels& panels);

  const Shells& shells_;
  std::vector<long> first_;
  Matrix bounds_;
  double largest_bound_;
  std::unique_ptr<libint2::Engine> engine_;
};

}  // namespace hf
