// SPDX-License-Identifier: BSD-3-Clause
// Integrals over one element, and the problem. See element.h.
#include "element.h"

#include <math.h>

static const double kPi = 3.14159265358979323846;

// --- the problem: u = sin(pi x) exp(y) z^2

double problem_solution(const double position[DIMENSIONS]) {
  return sin(kPi * position[0]) * exp(position[1]) * position[2] * position[2];
}

// f = -(d2/dx2 + d2/dy2 + d2/dz2) u
static double problem_source(const double position[DIMENSIONS]) {
  const double z = position[2];
  return sin(kPi * position[0]) * exp(position[1]) * ((kPi * kPi - 1.0) * z * z - 2.0);
}

// --- shape functions

static int bit(int corner, int axis) { return (corner >> axis) & 1; }

// Along one axis: 1 - t at the low end, t at the high end.
static double hat(int high, double t) { return high ? t : 1.0 - t; }
static double hat_slope(int high) { return high ? 1.0 : -1.0; }

static double shape_slope(int corner, int along, const double t[DIMENSIONS]) {
  double product = hat_slope(bit(corner, along));
  for (int axis = 0; axis < DIMENSIONS; ++axis) {
    if (axis != along) product *= hat(bit(corner, axis), t[axis]);
  }
  return product;
}

static void fill_point(struct shapes* shapes, int point) {
  const double half = 0.5 / sqrt(3.0);
  double t[DIMENSIONS];
  for (int axis = 0; axis < DIMENSIONS; ++axis) t[axis] = 0.5 + (bit(point, axis) ? half : -half);
  for (int c = 0; c < CORNERS; ++c) {
    shapes->value[point][c] = hat(bit(c, 0), t[0]) * hat(bit(c, 1), t[1]) * hat(bit(c, 2), t[2]);
    for (int along = 0; along < DIMENSIONS; ++along) {
      shapes->slope[point][c][along] = shape_slope(c, along, t);
    }
  }
}

void shapes_fill(struct shapes* shapes) {
  for (int point = 0; point < POINTS; ++point) fill_point(shapes, point);
}

// --- integrals

struct map {
  double jacobian[DIMENSIONS][DIMENSIONS];  // d position[i] / d t[j]
  double inverse[DIMENSIONS][DIMENSIONS];
  double determinant;
};

static void fill_jacobian(const struct shapes* shapes, int point,
                          double corners[CORNERS][DIMENSIONS], struct map* map) {
  for (int i = 0; i < DIMENSIONS; ++i) {
    for (int j = 0; j < DIMENSIONS; ++j) {
      double sum = 0.0;
      for (int c = 0; c < CORNERS; ++c) sum += corners[c][i] * shapes->slope[point][c][j];
      map->jacobian[i][j] = sum;
    }
  }
}

// Cofactor (i, j): the indices that follow cyclically take care of the sign.
static double cofactor(double a[DIMENSIONS][DIMENSIONS], int i, int j) {
  const int i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
  return a[i1][j1] * a[i2][j2] - a[i1][j2] * a[i2][j1];
}

static void invert(struct map* map) {
  double determinant = 0.0;
  for (int j = 0; j < DIMENSIONS; ++j) {
    determinant += map->jacobian[0][j] * cofactor(map->jacobian, 0, j);
  }
  for (int i = 0; i < DIMENSIONS; ++i) {
    for (int j = 0; j < DIMENSIONS; ++j) {
      map->inverse[j][i] = cofactor(map->jacobian, i, j) / determinant;
    }
  }
  map->determinant = determinant;
}

// With J the Jacobian: `out` . slope of b = gradient of a . gradient of b, so out = J^-1 J^-T
// slope.
static void pull_gradient_back(const struct map* map, const double slope[DIMENSIONS],
                               double out[DIMENSIONS]) {
  double gradient[DIMENSIONS];
  for (int i = 0; i < DIMENSIONS; ++i) {
    gradient[i] = map->inverse[0][i] * slope[0] + map->inverse[1][i] * slope[1] +
                  map->inverse[2][i] * slope[2];
  }
  for (int i = 0; i < DIMENSIONS; ++i) {
    out[i] = map->inverse[i][0] * gradient[0] + map->inverse[i][1] * gradient[1] +
             map->inverse[i][2] * gradient[2];
  }
}

static double source_at_point(const double value[CORNERS], double corners[CORNERS][DIMENSIONS]) {
  double position[DIMENSIONS] = {0.0};
  for (int c = 0; c < CORNERS; ++c) {
    for (int axis = 0; axis < DIMENSIONS; ++axis) position[axis] += value[c] * corners[c][axis];
  }
  return problem_source(position);
}

double element_row(const struct shapes* shapes, double corners[CORNERS][DIMENSIONS], int corner,
                   double row[CORNERS]) {
  double load = 0.0;
  for (int c = 0; c < CORNERS; ++c) row[c] = 0.0;
  for (int point = 0; point < POINTS; ++point) {
    struct map map;
    double pulled[DIMENSIONS];
    fill_jacobian(shapes, point, corners, &map);
    invert(&map);
    pull_gradient_back(&map, shapes->slope[point][corner], pulled);
    const double weight = map.determinant / POINTS;
    for (int c = 0; c < CORNERS; ++c) {
      const double* slope = shapes->slope[point][c];
      row[c] += weight * (pulled[0] * slope[0] + pulled[1] * slope[1] + pulled[2] * slope[2]);
    }
    const double* value = shapes->value[point];
    load += weight * value[corner] * source_at_point(value, corners);
  }
  return load;
}
