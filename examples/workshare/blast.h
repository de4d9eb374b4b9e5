// SPDX-License-Identifier: BSD-3-Clause
// A blast wave in a box of gas: the slab of elements and nodes of one rank, and its loops.
//
// Positions, velocities and forces belong to nodes, all other values to elements. Both ranks store
// the nodes between them, with the same values. The force on a node is the sum over the layer of
// elements below the node, plus the sum over the layer above. At the edge of a slab the neighbour
// sends one of the two sums. A step computes *forces* of elements, sums at nodes and their motion,
// then *material*: energy, volume, pressure and viscosity of elements. An element loses the energy
// that its forces give to its nodes, so energy is conserved but for rounding.
#ifndef WORKSHARE_BLAST_H
#define WORKSHARE_BLAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hexahedron.h"
#include "mesh.h"

// The side of a slab at a neighbour: sums of forces, by node of the plane.
struct edge {
  int neighbour;  // MPI_PROC_NULL at a wall
  struct vector *mine, *theirs;
};

struct blast {
  const struct mesh* mesh;
  int dearer;  // percent of the elements' work that is repeated
  int elements, nodes;
  // by node
  struct vector *position, *velocity, *mean_velocity;  // the mean over the last step
  double* node_mass;
  struct edge low, high;  // of the slab
  // by element
  struct vector* force;          // on each of its corners
  double *energy, *next_energy;  // per mass
  double* push;                  // pressure and viscosity
  double *signal, *size;         // speed of sound and shocks; edge of a cube of the same volume
  double element_mass;
  double loops_s;  // seconds in loops that can be shared
};

// Makes the gas at rest, with the energy of the blast around one corner of the box. Returns false
// when memory is short. Then, too, the caller must call blast_free().
bool blast_create(const struct mesh* mesh, int dearer, struct blast* blast);
void blast_free(struct blast* blast);

// Collective, with shared loops. blast_time_step() returns the time step that `courant` allows.
double blast_time_step(struct blast* blast, double courant);
void blast_advance(struct blast* blast, double time_step);

// Return this rank's kinetic and inner energy, the element updates of a step, and its part of the
// hash.
double blast_energy(const struct blast* blast);
double blast_work(const struct blast* blast);
uint64_t blast_hash(const struct blast* blast);

#endif
