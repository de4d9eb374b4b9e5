// SPDX-License-Identifier: BSD-3-Clause
// The mesh: the unit cube cut into bricks, and the division of its layers over ranks.
//
// Words: an *element* is a brick with eight nodes. A *layer* is all elements of one z, a *plane*
// all nodes of one z. A rank has consecutive layers and the plane at the low side of each; the last
// rank has the topmost plane as well. The *rows* of a rank are its nodes, x running fastest, then
// y, then z. A *ghosted* vector has one more plane at each end, for the neighbours' values.
#ifndef WORKSHARE_MESH_H
#define WORKSHARE_MESH_H

#include <stdbool.h>
#include <stddef.h>

enum { X, Y, Z, AXES };

struct mesh {
  int rank, ranks;
  int elements[AXES], nodes[AXES];
  int first, layers, planes;  // the first layer and the first plane have the same number
  int plane_rows, rows;
};

struct node {
  int at[AXES];  // coordinates in the whole mesh
};

// Divides the mesh. The last rank gets `imbalance` percent more layers than the mean, but every
// other rank keeps at least one layer. Returns false if there are fewer layers than ranks, or if a
// rank has more rows than an int can count; rank 0 then prints an error with the name `program`.
bool mesh_create(const char* program, const int* elements, int imbalance, int rank, int ranks,
                 struct mesh* mesh);

// Returns the number of layers that `rank` would have if the last rank had `imbalance` percent more
// than the mean.
int mesh_layers_of(const struct mesh* mesh, int imbalance, int rank);

static inline struct node mesh_node(const struct mesh* mesh, int row) {
  const int in_plane = row % mesh->plane_rows;
  return (struct node){
      {in_plane % mesh->nodes[X], in_plane / mesh->nodes[X], mesh->first + row / mesh->plane_rows}};
}

static inline bool mesh_on_border(const struct mesh* mesh, struct node node) {
  for (int axis = 0; axis < AXES; ++axis) {
    if (node.at[axis] == 0 || node.at[axis] == mesh->elements[axis]) return true;
  }
  return false;
}

static inline void mesh_position(const struct mesh* mesh, struct node node, double* position) {
  for (int axis = 0; axis < AXES; ++axis) {
    position[axis] = (double)node.at[axis] / mesh->elements[axis];
  }
}

// Returns the index of a node in a ghosted vector, which has one more plane at each end. The node
// is one of this rank's, or in the adjacent plane of a neighbour.
static inline int mesh_ghosted(const struct mesh* mesh, struct node node) {
  const int plane = node.at[Z] - mesh->first + 1;
  return plane * mesh->plane_rows + node.at[Y] * mesh->nodes[X] + node.at[X];
}

static inline size_t mesh_ghosted_length(const struct mesh* mesh) {
  return ((size_t)mesh->planes + 2) * (size_t)mesh->plane_rows;
}

#endif
