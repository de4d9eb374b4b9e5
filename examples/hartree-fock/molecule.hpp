// SPDX-License-Identifier: BSD-3-Clause
// A molecule, and its basis functions in the form of libint2.
#pragma once

#include <libint2/shell.h>

#include <array>
#include <string>
#include <vector>

namespace hf {

struct Atom {
  int number;                   // atomic number
  std::array<double, 3> place;  // in bohr
};
using Molecule = std::vector<Atom>;
using Shells = std::vector<libint2::Shell>;

// Reads a molecule from an .xyz file, in angstroms. Returns no atoms if the file is missing or the
// STO-3G table lacks an element.
Molecule read_molecule(const std::string& path);
Shells shells_of(const Molecule& molecule);
// Returns the number of the first basis function of each shell, and at the end the number of all
// functions.
std::vector<long> first_functions(const Shells& shells);
int electrons(const Molecule& molecule);
// Returns the repulsion of the nuclei, in hartree.
double nuclear_repulsion(const Molecule& molecule);

}  // namespace hf
