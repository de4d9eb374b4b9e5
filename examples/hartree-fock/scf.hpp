// SPDX-License-Identifier: BSD-3-Clause
// The self-consistent field of a closed shell makes the next density from a Fock matrix, with DIIS
// (Pulay, 1980). integrals.hpp has the two-electron part of the Fock matrix.
#pragma once

#include <deque>

#include "integrals.hpp"

namespace hf {

class Scf {
 public:
  Scf(const Molecule& molecule, const Shells& shells);

  // Returns the density of the occupied orbitals: D = C C^T.
  [[nodiscard]] const Matrix& density() const { return density_; }
  // Makes the next density from the `two_electron` part of the current density. Returns whether the
  // energy has converged.
  bool step(const Matrix& two_electron);
  // Returns the energy in hartree, nuclei included.
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
