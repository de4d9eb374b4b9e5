// SPDX-License-Identifier: BSD-3-Clause
// Computes the table of libs/tasks/sim/beryllium.hpp: for a straight chain of beryllium atoms in
// STO-3G, the Schwarz bounds of all pairs of shells, and the time of an integral by its shells.
//
//   make -C examples/hartree-fock ... SOURCES="$PWD/bench/tasks/beryllium.cpp molecule.cpp integrals.cpp"
//   beryllium [SPACING]
//
// SPACING is the distance of neighbours in angstroms; 2.22 is that of the metal. An atom has the
// shells 1s, 2s and 2p. Prints log10 of the bounds, a line for each distance in atoms and each
// shell of the first atom. The last line has the nanoseconds for the integrals of a quartet (four
// shells), of which 0 to 4 are p shells: the medians of 21 rounds. Threads: one.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <libint2.hpp>
#include <vector>

#include "integrals.hpp"
#include "molecule.hpp"

namespace {

constexpr long kShells = 3;  // of an atom
constexpr int kReach = 12;   // atoms
constexpr double kAngstromsOfBohr = 0.52917721092;

hf::Molecule chain(int atoms, double spacing) {
  hf::Molecule molecule;
  for (int i = 0; i < atoms; ++i) {
    molecule.push_back({4, {0, 0, spacing * i / kAngstromsOfBohr}});
  }
  return molecule;
}

void print_bounds(const hf::Shells& shells) {
  const hf::Matrix bounds = hf::schwarz_bounds(shells);
  for (int distance = 0; distance <= kReach; ++distance) {
    for (long a = 0; a < kShells; ++a) {
      std::printf("    {");
      for (long b = 0; b < kShells; ++b) {
        const double bound = std::max(bounds(a, kShells * distance + b), 1e-30);
        std::printf("%s%.2fF", b == 0 ? "" : ", ", std::log10(bound));
      }
      std::printf("},\n");
    }
  }
}

// Returns the nanoseconds in which libint2 computes the integrals of a quartet, four shells. The
// first `many` of them are 2p, the others are 2s.
double quartet_ns(libint2::Engine& engine, const hf::Shells& shells, std::size_t many) {
  const auto shell = [&](std::size_t atom, bool p) { return shells[kShells * atom + (p ? 2 : 1)]; };
  const auto a = shell(0, many > 0);
  const auto b = shell(1, many > 1);
  const auto c = shell(2, many > 2);
  const auto d = shell(1, many > 3);
  constexpr int kTimes = 2'000;
  std::vector<double> rounds;
  for (int round = 0; round < 21; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) engine.compute(a, b, c, d);
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    rounds.push_back(taken.count() / kTimes);
  }
  std::ranges::nth_element(rounds, rounds.begin() + 10);
  return rounds[10];
}

}  // namespace

int main(int count, char** words) {
  libint2::initialize();
  const double spacing = count > 1 ? std::atof(words[1]) : 2.22;
  const hf::Shells shells = hf::shells_of(chain(kReach + 1, spacing));
  print_bounds(shells);
  libint2::Engine engine(libint2::Operator::coulomb, 3, 1);
  engine.set_precision(0);
  for (std::size_t many = 0; many <= 4; ++many) {
    std::printf("%.0f, ", quartet_ns(engine, shells, many));
  }
  std::printf("\n");
  libint2::finalize();
  return 0;
}
