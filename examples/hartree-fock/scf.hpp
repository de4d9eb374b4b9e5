// SPDX-License-Identifier: BSD-3-Clause
// The self-consistent field of a molecule with closed shells: makes the next density matrix from a
// Fock matrix, with DIIS (Pulay, 1980). integrals.hpp computes the two-electron part of the Fock
// matrix.
#pragma once

#include <deque>

#include "integrals.hpp"

namespace hf {

class Scf {
 public:
  Scf(const Molecule& molecule, const Shells& shells);

  // Returns the density matrix D = C C^T, where the columns of C are the occupied orbitals.
  [[nodiscard]] const Matrix& density() const { return density_; }
  // Makes the next density from the two-electron part of the Fock matrix, which was computed from
  // density(). Returns whether the energy has converged.
  bool step(const Matrix& two_electron);
  // Returns the energy of the molecule in hartree, the repulsion of the nuclei included.
  [[nodiscard]] double energy() const { return energy_; }

 private:
  [[nodiscard]] Matrix extrapolated(const Matrix& fock);
  void diagonalise(const Matrix& fock);

  Matrix overlap_;
  Matrix core_;
  double repulsion_;
  long occupied_;
  Matrix density_;
  double energy_ = 0;
  std::deque<Matrix> focks_;
  std::deque<Matrix> errors_;
};

}  // namespace hf
