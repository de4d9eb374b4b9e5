// SPDX-License-Identifier: BSD-3-Clause
// Areas and volume of a hexahedron. See hexahedron.h.
#include "hexahedron.h"

enum { FACES = 6, FACE_CORNERS = 4 };

// The corners of each face of a hexahedron, in the order in which the vector product of the face's
// diagonals points outwards.
static const int kFaces[FACES][FACE_CORNERS] = {{0, 4, 6, 2}, {1, 3, 7, 5}, {0, 1, 5, 4},
                                                {2, 6, 7, 3}, {0, 2, 3, 1}, {4, 5, 7, 6}};

static struct vector cross(struct vector a, struct vector b) {
  return (struct vector){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// Adds a quarter of a face's area vector to the area of each of its corners. Returns the face's
// part of the hexahedron's volume.
static double add_face(const struct vector* corners, const int* face, struct vector* areas) {
  const struct vector a = corners[face[0]], b = corners[face[1]];
  const struct vector c = corners[face[2]], d = corners[face[3]];
  const struct vector quarter = times(0.125, cross(minus(c, a), minus(d, b)));
  for (int i = 0; i < FACE_CORNERS; ++i) areas[face[i]] = plus(areas[face[i]], quarter);
  return dot(plus(plus(a, b), plus(c, d)), quarter) / 3.0;
}

double hexahedron_areas(const struct vector corners[HEX_CORNERS],
                        struct vector areas[HEX_CORNERS]) {
  double volume = 0.0;
  for (int c = 0; c < HEX_CORNERS; ++c) areas[c] = (struct vector){0.0, 0.0, 0.0};
  for (int face = 0; face < FACES; ++face) volume += add_face(corners, kFaces[face], areas);
  return volume;
}
