// SPDX-License-Identifier: BSD-3-Clause
// The integrals over one element, and the problem that is solved. See element.h.
#include "element.h"

#include <math.h>

static const double kPi = 3.14159265358979323846;

// --- the problem: u = sin(pi x) exp(y) z^2

double problem_solution(const double position[DIMENSIONS]) {
  return sin(kPi * position[0]) * exp(position[1]) * position[2] * position[2];
}

// Returns the right side f of -div grad u = f for the exact solution u: -(d2/dx2 + d2/dy2 + d2/dz2)
// u.
static double problem_source(const double position[DIMENSIONS]) {
  const double z = position[2];
  return sin(kPi * position[0]) * exp(position[1]) * ((kPi * kPi - 1.0) * z * z - 2.0);
}

// --- shape functions

static int bit(int corner, int axis) { return (corner >> axis) & 1; }

// Returns the value at t, from 0 to 1, of the one-dimensional shape function of a corner: t for a
// corner at the high end of the axis, otherwise 1 - t.
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

// --- integrals over an element

struct map {
  double inverse[DIMENSIONS][DIMENSIONS];  // of the Jacobian, d position[i] / d t[j]
  double determinant;
};

// Computes column j of the Jacobian of the map from the reference cube to the element: d position /
// d t[j], from the slopes of the shape functions.
static void fill_column(const double slope[CORNERS][DIMENSIONS], int j,
                        double corners[CORNERS][DIMENSIONS], double column[DIMENSIONS]) {
  double x = 0.0, y = 0.0, z = 0.0;
  for (int c = 0; c < CORNERS; ++c) {
    x += corners[c][0] * slope[c][j];
    y += corners[c][1] * slope[c][j];
    z += corners[c][2] * slope[c][j];
  }
  column[0] = x;
  column[1] = y;
  column[2] = z;
}

static void cross(const double a[DIMENSIONS], const double b[DIMENSIONS], double out[DIMENSIONS]) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

// Computes the map of an element at a Gauss point: inverts the Jacobian. For columns u, v, w, the
// rows of the inverse are v x w, w x u and u x v, divided by u . (v x w).
static void fill_map(const double slope[CORNERS][DIMENSIONS], double corners[CORNERS][DIMENSIONS],
                     struct map* map) {
  double u[DIMENSIONS], v[DIMENSIONS], w[DIMENSIONS];
  fill_column(slope, 0, corners, u);
  fill_column(slope, 1, corners, v);
  fill_column(slope, 2, corners, w);
  cross(v, w, map->inverse[0]);
  cross(w, u, map->inverse[1]);
  cross(u, v, map->inverse[2]);
  const double* first = map->inverse[0];
  map->determinant = u[0] * first[0] + u[1] * first[1] + u[2] * first[2];
  const double scale = 1.0 / map->determinant;
  for (int i = 0; i < DIMENSIONS; ++i) {
    for (int j = 0; j < DIMENSIONS; ++j) map->inverse[i][j] *= scale;
  }
}

// Computes `out` = J^-1 J^-T slope, where J is the Jacobian and `slope` belongs to a shape function
// a. For a shape function b, `out` . slope of b is then gradient of a . gradient of b.
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
    const double(*slopes)[DIMENSIONS] = shapes->slope[point];
    struct map map;
    double pulled[DIMENSIONS];
    fill_map(slopes, corners, &map);
    pull_gradient_back(&map, slopes[corner], pulled);
    const double weight = map.determinant / POINTS;
    for (int c = 0; c < CORNERS; ++c) {
      const double* slope = slopes[c];
      row[c] += weight * (pulled[0] * slope[0] + pulled[1] * slope[1] + pulled[2] * slope[2]);
    }
    const double* value = shapes->value[point];
    load += weight * value[corner] * source_at_point(value, corners);
  }
  return load;
}
