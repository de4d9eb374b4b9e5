// SPDX-License-Identifier: BSD-3-Clause
// The division of the mesh over ranks. See mesh.h.
#include "mesh.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

// Returns the number of the first layer of part `part`, if `layers` layers are divided into `parts`
// equal parts.
static int even_split(int layers, int parts, int part) {
  return (int)((long)layers * part / parts);
}

// Returns the number of layers of the last rank, `imbalance` percent above the mean. Every other
// rank keeps at least one layer.
static int heavy_layers(int layers, int imbalance, int ranks) {
  const double wanted = (double)layers / ranks * (1.0 + imbalance / 100.0);
  const int most = layers - (ranks - 1);
  return wanted >= most ? most : (int)lround(wanted);
}

static int first_layer(int layers, int imbalance, int ranks, int rank) {
  if (rank == ranks) return layers;
  if (imbalance == 0 || ranks == 1) return even_split(layers, ranks, rank);
  return even_split(layers - heavy_layers(layers, imbalance, ranks), ranks - 1, rank);
}

int mesh_layers_of(const struct mesh* mesh, int imbalance, int rank) {
  const int layers = mesh->elements[Z];
  return first_layer(layers, imbalance, mesh->ranks, rank + 1) -
         first_layer(layers, imbalance, mesh->ranks, rank);
}

// Returns whether on every rank the elements of a ghosted vector (the rank's planes and one of each
// of two neighbours) are few enough for an index of type int.
static bool is_countable(const struct mesh* mesh, int imbalance) {
  const double plane = (double)mesh->nodes[X] * mesh->nodes[Y];
  for (int rank = 0; rank < mesh->ranks; ++rank) {
    if (plane * (mesh_layers_of(mesh, imbalance, rank) + 3) > INT_MAX) return false;
  }
  return true;
}

static bool can_be_divided(const char* program, const struct mesh* mesh, int imbalance) {
  if (mesh->elements[Z] < mesh->ranks) {
    if (mesh->rank == 0) {
      fprintf(stderr,
              "%s: %d ranks but only %d layers of elements: "
              "use fewer ranks or a larger --nz\n",
              program, mesh->ranks, mesh->elements[Z]);
    }
    return false;
  }
  if (is_countable(mesh, imbalance)) return true;
  if (mesh->rank == 0) {
    fprintf(stderr,
            "%s: a rank would have more than 2^31-1 nodes: "
            "use fewer elements, more ranks or less --imbalance\n",
            program);
  }
  return false;
}

bool mesh_create(const char* program, const int* elements, int imbalance, int rank, int ranks,
                 struct mesh* mesh) {
  *mesh = (struct mesh){.rank = rank, .ranks = ranks};
  for (int axis = 0; axis < AXES; ++axis) {
    mesh->elements[axis] = elements[axis];
    mesh->nodes[axis] = elements[axis] + 1;
  }
  if (!can_be_divided(program, mesh, imbalance)) return false;
  mesh->first = first_layer(elements[Z], imbalance, ranks, rank);
  mesh->layers = mesh_layers_of(mesh, imbalance, rank);
  mesh->planes = mesh->layers + (rank == ranks - 1 ? 1 : 0);
  mesh->plane_rows = mesh->nodes[X] * mesh->nodes[Y];
  mesh->rows = mesh->planes * mesh->plane_rows;
  return true;
}
