// SPDX-License-Identifier: BSD-3-Clause
// A hexahedral element of eight nodes with trilinear shape functions. The problem is -div grad u =
// f in the unit cube, where u is given on the border. The exact u is known, so a program can check
// its solution.
//
// Corner c of an element lies at the high end of x, y, z if bit 0, 1, 2 of c is set. Integrals use
// two Gauss points along each axis.
#ifndef WORKSHARE_ELEMENT_H
#define WORKSHARE_ELEMENT_H

enum { CORNERS = 8, POINTS = 8, DIMENSIONS = 3 };

// The values of the shape functions and of their derivatives at the Gauss points of the reference
// cube [0, 1]^3.
struct shapes {
  double value[POINTS][CORNERS];
  double slope[POINTS][CORNERS][DIMENSIONS];
};

void shapes_fill(struct shapes* shapes);

// Computes one row of an element's matrix: writes row `corner` to `row`, and returns the element's
// part of the right side for this corner. Each row is computed without the others, so rows can be
// computed in any order and in parallel.
double element_row(const struct shapes* shapes, double corners[CORNERS][DIMENSIONS], int corner,
                   double row[CORNERS]);

double problem_solution(const double position[DIMENSIONS]);

#endif
