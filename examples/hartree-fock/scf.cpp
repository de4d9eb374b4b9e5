// SPDX-License-Identifier: BSD-3-Clause
#include "scf.hpp"

#include <cmath>

namespace hf {
namespace {

constexpr double kEnergyStays = 1e-11;  // largest change of a converged energy, hartree
constexpr double kErrorIsSmall = 1e-7;
constexpr std::size_t kRemembered = 8;  // most Fock matrices that DIIS combines

}  // namespace

Scf::Scf(const Molecule& molecule, const Shells& shells)
    : overlap_(one_electron(OneElectron::overlap, molecule, shells)),
      core_(one_electron(OneElectron::kinetic, molecule, shells) +
            one_electron(OneElectron::attraction, molecule, shells)),
      repulsion_(nuclear_repulsion(molecule)),
      occupied_(electrons(molecule) / 2) {
  diagonalise(core_);
}

bool Scf::step(const Matrix& two_electron) {
  const Matrix fock = core_ + two_electron;
  const double before = energy_;
  energy_ = repulsion_ + density_.cwiseProduct(core_ + fock).sum();
  const Matrix error = fock * density_ * overlap_ - overlap_ * density_ * fock;
  focks_.push_back(fock);
  errors_.push_back(error);
  if (focks_.size() > kRemembered) {
    focks_.pop_front();
    errors_.pop_front();
  }
  diagonalise(extrapolated(fock));
  return std::abs(energy_ - before) < kEnergyStays && error.norm() < kErrorIsSmall;
}

// Returns that linear combination of the Fock matrices of the last iterations whose error is
// smallest, as DIIS (Pulay, 1980) does. Returns `fock` in the first iteration.
Matrix Scf::extrapolated(const Matrix& fock) {
  const auto count = static_cast<long>(focks_.size());
  if (count < 2) return fock;
  Matrix products = Matrix::Constant(count + 1, count + 1, -1);
  products(count, count) = 0;
  for (long i = 0; i < count; ++i) {
    for (long j = 0; j < count; ++j) {
      const auto& a = errors_[static_cast<std::size_t>(i)];
      products(i, j) = a.cwiseProduct(errors_[static_cast<std::size_t>(j)]).sum();
    }
  }
  Eigen::VectorXd right = Eigen::VectorXd::Zero(count + 1);
  right(count) = -1;
  const Eigen::VectorXd weights = products.colPivHouseholderQr().solve(right);
  Matrix sum = Matrix::Zero(fock.rows(), fock.cols());
  for (long i = 0; i < count; ++i) sum += weights(i) * focks_[static_cast<std::size_t>(i)];
  return sum;
}

void Scf::diagonalise(const Matrix& fock) {
  const Eigen::GeneralizedSelfAdjointEigenSolver<Eigen::MatrixXd> solver(fock, overlap_);
  const auto orbitals = solver.eigenvectors().leftCols(occupied_);
  density_ = orbitals * orbitals.transpose();
}

}  // namespace hf
