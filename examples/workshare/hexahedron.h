// SPDX-License-Identifier: BSD-3-Clause
// The faces and the volume of a hexahedron, from the positions of its eight corners.
//
// Corner c lies at the high end of x, y, z if bit 0, 1, 2 of c is set. A face may be warped; its
// area vector is half of the vector product of its diagonals.
#ifndef WORKSHARE_HEXAHEDRON_H
#define WORKSHARE_HEXAHEDRON_H

enum { HEX_CORNERS = 8 };

struct vector {
  double x, y, z;
};

static inline struct vector plus(struct vector a, struct vector b) {
  return (struct vector){a.x + b.x, a.y + b.y, a.z + b.z};
}

static inline struct vector minus(struct vector a, struct vector b) {
  return (struct vector){a.x - b.x, a.y - b.y, a.z - b.z};
}

static inline struct vector times(double factor, struct vector a) {
  return (struct vector){factor * a.x, factor * a.y, factor * a.z};
}

static inline double dot(struct vector a, struct vector b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}

// Sets the area of each corner to a quarter of the sum of the area vectors of the three faces that
// meet there. Area vectors point outwards. Returns the volume of the hexahedron.
double hexahedron_areas(const struct vector corners[HEX_CORNERS], struct vector areas[HEX_CORNERS]);

#endif
