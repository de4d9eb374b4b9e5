// SPDX-License-Identifier: BSD-3-Clause
#include "molecule.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include "sto_3g.hpp"

namespace hf {
namespace {

constexpr double kAngstromsOfBohr = 0.52917721092;
const std::map<std::string, int> kElements{{"H", 1}, {"Be", 4}, {"C", 6}, {"N", 7}, {"O", 8}};

}  // namespace

Molecule read_molecule(const std::string& path) {
  std::ifstream file(path);
  std::size_t count = 0;
  constexpr auto kLine = std::numeric_limits<std::streamsize>::max();
  file >> count;
  file.ignore(kLine, '\n').ignore(kLine, '\n');
  Molecule molecule;
  std::string element;
  std::array<double, 3> place{};
  while (molecule.size() < count && file >> element >> place[0] >> place[1] >> place[2]) {
    const auto known = kElements.find(element);
    if (known == kElements.end()) return {};
    for (double& x : place) x /= kAngstromsOfBohr;
    molecule.push_back({known->second, place});
  }
  return molecule.size() == count ? molecule : Molecule{};
}

Shells shells_of(const Molecule& molecule) {
  Shells shells;
  for (const Atom& atom : molecule) {
    for (const BasisShell& basis : sto_3g(atom.number)) {
      libint2::Shell::Contraction contraction;
      contraction.l = basis.angular;
      contraction.pure = false;
      contraction.coeff.assign(basis.coefficients.begin(), basis.coefficients.end());
      libint2::svector<double> exponents(basis.exponents.begin(), basis.exponents.end());
      shells.emplace_back(exponents, libint2::svector<libint2::Shell::Contraction>{contraction},
                          atom.place);
    }
  }
  return shells;
}

std::vector<long> first_functions(const Shells& shells) {
  std::vector<long> first{0};
  for (const auto& shell : shells) first.push_back(first.back() + static_cast<long>(shell.size()));
  return first;
}

int electrons(const Molecule& molecule) {
  int count = 0;
  for (const Atom& atom : molecule) count += atom.number;
  return count;
}

double nuclear_repulsion(const Molecule& molecule) {
  double energy = 0;
  for (std::size_t i = 0; i < molecule.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      double square = 0;
      for (std::size_t k = 0; k < 3; ++k) {
        square += std::pow(molecule[i].place[k] - molecule[j].place[k], 2);
      }
      energy += molecule[i].number * molecule[j].number / std::sqrt(square);
    }
  }
  return energy;
}

}  // namespace hf
