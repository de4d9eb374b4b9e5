// SPDX-License-Identifier: BSD-3-Clause
// Integrals of a straight chain of beryllium atoms in the basis STO-3G, 2.22 angstroms apart. The
// file has the bounds of pairs of shells (groups of an atom's basis functions), and the times to
// compute the integrals of four shells (quartets). Data of the simulated Hartree-Fock application
// (workload.hpp); constant.
//
// `bench/tasks/beryllium.cpp` computes the numbers with libint2 (28 November 2026, AMD EPYC Zen 4).
// An atom has the shells 1s, 2s and 2p.
#pragma once

#include <cstdint>

namespace mh::tasks::sim {

inline constexpr std::uint32_t kShellsOfAtom = 3;
inline constexpr std::uint32_t kReach = 12;  // in atoms; bounds of shells beyond are zero
inline constexpr float kNoBound = -30;       // a logarithm

// The Schwarz bounds of pairs of shells, as log10 sqrt |(ab|ab)|. The indices: the distance of the
// two atoms in the chain, shell a of the left atom, shell b of the right atom.
inline constexpr float kBounds[kReach + 1][kShellsOfAtom][kShellsOfAtom] = {
    {{0.18F, -0.55F, -0.92F}, {-0.55F, -0.19F, -0.52F}, {-0.92F, -0.52F, -0.17F}},
    {{-6.32F, -1.45F, -1.23F}, {-1.45F, -0.70F, -0.61F}, {-1.23F, -0.61F, -0.58F}},
    {{-23.37F, -3.66F, -3.20F}, {-3.66F, -1.99F, -1.77F}, {-3.20F, -1.77F, -1.56F}},
    {{-30.00F, -7.27F, -6.65F}, {-7.27F, -3.95F, -3.59F}, {-6.65F, -3.59F, -3.26F}},
    {{-30.00F, -12.31F, -11.56F}, {-12.31F, -6.61F, -6.14F}, {-11.56F, -6.14F, -5.68F}},
    {{-30.00F, -18.75F, -17.91F}, {-18.75F, -10.03F, -9.46F}, {-17.91F, -9.46F, -8.90F}},
    {{-30.00F, -26.60F, -25.68F}, {-26.60F, -14.21F, -13.56F}, {-25.68F, -13.56F, -12.92F}},
    {{-30.00F, -30.00F, -30.00F}, {-30.00F, -19.14F, -18.43F}, {-30.00F, -18.43F, -17.72F}},
    {{-30.00F, -30.00F, -30.00F}, {-30.00F, -24.84F, -24.07F}, {-30.00F, -24.07F, -23.30F}},
    {{-30.00F, -30.00F, -30.00F}, {-30.00F, -30.00F, -30.00F}, {-30.00F, -30.00F, -29.65F}},
    {{-30.00F, -30.00F, -30.00F}, {-30.00F, -30.00F, -30.00F}, {-30.00F, -30.00F, -30.00F}},
    {{-30.00F, -30.00F, -30.00F}, {-30.00F, -30.00F, -30.00F}, {-30.00F, -30.00F, -30.00F}},
    {{-30.00F, -30.00F, -30.00F}, {-30.00F, -30.00F, -30.00F}, {-30.00F, -30.00F, -30.00F}},
};

// The time to compute one quartet of shells in nanoseconds, by the number of its p shells.
inline constexpr float kQuartetNs[] = {3931, 5908, 5843, 6998, 14177};

inline bool is_p(std::uint32_t shell) { return shell % kShellsOfAtom == 2; }
inline float shell_bound(std::uint32_t a, std::uint32_t b) {
  if (a > b) return shell_bound(b, a);
  const std::uint32_t distance = b / kShellsOfAtom - a / kShellsOfAtom;
  if (distance > kReach) return kNoBound;
  return kBounds[distance][a % kShellsOfAtom][b % kShellsOfAtom];
}

}  // namespace mh::tasks::sim
