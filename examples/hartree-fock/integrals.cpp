// SPDX-License-Identifier: BSD-3-Clause
#include "integrals.hpp"

#include <algorithm>
#include <cmath>
#include <libint2.hpp>
#include <utility>

namespace hf {
namespace {

constexpr double kThreshold = 1e-13;  // quartets whose integrals are all smaller are neglected

std::size_t most_primitives(const Shells& shells) {
  std::size_t most = 0;
  for (const auto& shell : shells) most = std::max(most, shell.nprim());
  return most;
}
int largest_angular(const Shells& shells) {
  int largest = 0;
  for (const auto& shell : shells) largest = std::max(largest, shell.contr[0].l);
  return largest;
}
libint2::Operator operator_of(OneElectron kind) {
  if (kind == OneElectron::overlap) return libint2::Operator::overlap;
  return kind == OneElectron::kinetic ? libint2::Operator::kinetic : libint2::Operator::nuclear;
}
libint2::Engine engine_of(libint2::Operator kind, const Shells& shells) {
  libint2::Engine engine(kind, most_primitives(shells), largest_angular(shells));
  engine.set_precision(0);
  return engine;
}

}  // namespace

Matrix one_electron(OneElectron kind, const Molecule& molecule, const Shells& shells) {
  libint2::Engine engine = engine_of(operator_of(kind), shells);
  if (kind == OneElectron::attraction) {
    std::vector<std::pair<double, std::array<double, 3>>> charges;
    for (const Atom& atom : molecule) charges.emplace_back(atom.number, atom.place);
    engine.set_params(charges);
  }
  const auto first = first_functions(shells);
  Matrix matrix = Matrix::Zero(first.back(), first.back());
  for (std::size_t i = 0; i < shells.size(); ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      engine.compute(shells[i], shells[j]);
      const auto rows = static_cast<long>(shells[i].size());
      const auto columns = static_cast<long>(shells[j].size());
      const Eigen::Map<const Matrix> block(engine.results()[0], rows, columns);
      matrix.block(first[i], first[j], rows, columns) = block;
      matrix.block(first[j], first[i], columns, rows) = block.transpose();
    }
  }
  return matrix;
}

Matrix schwarz_bounds(const Shells& shells) {
  libint2::Engine engine = engine_of(libint2::Operator::coulomb, shells);
  const auto count = static_cast<long>(shells.size());
  Matrix bounds(count, count);
  for (long i = 0; i < count; ++i) {
    for (long j = 0; j <= i; ++j) {
      const auto& a = shells[static_cast<std::size_t>(i)];
      const auto& b = shells[static_cast<std::size_t>(j)];
      engine.compute(a, b, a, b);
      const double* values = engine.results()[0];
      const std::size_t all = a.size() * b.size() * a.size() * b.size();
      double largest = 0;
      for (std::size_t k = 0; values != nullptr && k < all; ++k) {
        largest = std::max(largest, std::abs(values[k]));
      }
      bounds(i, j) = bounds(j, i) = std::sqrt(largest);
    }
  }
  return bounds;
}

TwoElectron::TwoElectron(const Shells& shells)
    : shells_(shells),
      first_(first_functions(shells)),
      bounds_(schwarz_bounds(shells)),
      largest_bound_(bounds_.maxCoeff()),
      engine_(std::make_unique<libint2::Engine>(engine_of(libint2::Operator::coulomb, shells))) {}

TwoElectron::~TwoElectron() = default;

bool TwoElectron::is_null(std::size_t i, std::size_t j) const {
  return bounds_(static_cast<long>(i), static_cast<long>(j)) * largest_bound_ < kThreshold;
}

void TwoElectron::add(std::size_t i, std::size_t j, std::size_t k, const Panels& panels) {
  const double bound = bounds_(static_cast<long>(i), static_cast<long>(j));
  for (std::size_t l = 0; l <= (k == i ? j : k); ++l) {
    const double other = bounds_(static_cast<long>(k), static_cast<long>(l));
    if (bound * other >= kThreshold) add_quartet({i, j, k, l}, panels);
  }
}

void TwoElectron::add_quartet(const Quartet& quartet, const Panels& panels) {
  const auto [i, j, k, l] = quartet;
  engine_->compute(shells_[i], shells_[j], shells_[k], shells_[l]);
  const double* value = engine_->results()[0];
  if (value == nullptr) return;
  const Rows &density_i = panels.i.density, &density_j = panels.j.density;
  Rows &fock_i = panels.i.fock, &fock_j = panels.j.fock, &fock_k = panels.k.fock;
  // The integral of (ij|kl) is equal for eight permutations of the four shells. Only one of them is
  // computed, so its value counts `same` times: as often as the permutations differ.
  const double same = (i == j ? 1 : 2) * (k == l ? 1 : 2) * (i == k && j == l ? 1 : 2);
  for (long a = first_[i]; a < first_[i + 1]; ++a) {
    for (long b = first_[j]; b < first_[j + 1]; ++b) {
      for (long c = first_[k]; c < first_[k + 1]; ++c) {
        for (long d = first_[l]; d < first_[l + 1]; ++d) {
          const double v = same * *value++;
          fock_i(a, b) += panels.k.density(c, d) * v;
          fock_k(c, d) += density_i(a, b) * v;
          fock_i(a, c) -= 0.25 * density_j(b, d) * v;
          fock_j(b, d) -= 0.25 * density_i(a, c) * v;
          fock_i(a, d) -= 0.25 * density_j(b, c) * v;
          fock_j(b, c) -= 0.25 * density_i(a, d) * v;
        }
      }
    }
  }
}

}  // namespace hf
