// SPDX-License-Identifier: BSD-3-Clause
// A blast wave in a box of gas: the slab of elements and nodes of one rank, and its loops.
//
// Positions, velocities and masses belong to nodes, all other values to elements. The nodes between
// two slabs are stored by both ranks, with the same values. The force on a node is the sum over the
// layer of elements below the node, plus the sum over the layer above. At the edge of a slab the
// neighbour sends the sum over its own layer. A step computes the *forces* of elements on their
// corners, then the *motion* of nodes, then *material*: energy, volume, pressure and viscosity of
// elements. An element loses the energy that its forces give to its nodes, so energy is conserved
// but for rounding.
#ifndef WORKSHARE_BLAST_H
#define WORKSHARE_BLAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hexahedron.h"
#include "mesh.h"

// The lower or upper side of a slab. The forces on the nodes of its outermost plane are summed over
// the elements of one layer, by node.
struct edge {
  int neighbour;                 // MPI_PROC_NULL at a wall
  struct vector *mine, *theirs;  // sums over this rank's layer, over the neighbour's layer
};

struct blast {
  const struct mesh* mesh;
  int dearer;  // percent of the elements' work that is done again
  int elements, nodes;
  // The following arrays have a value for each node of the slab.
  struct vector *position, *velocity, *mean_velocity;  // the mean over the last step
  double* node_mass;
  struct edge low, high;  // the two sides of the slab
  // The following arrays have a value for each element of the slab; `force` has eight.
  struct vector* force;          // of the element on each of its corners
  double *energy, *next_energy;  // internal energy per mass
  double* push;                  // pressure plus viscosity
  double *signal, *size;         // speed of sound and shocks; edge of a cube of the same volume
  double element_mass;
  double loops_s;  // seconds in loops that can be shared
};

// Makes the gas at rest, with the energy of the blast around one corner of the box. This rank
// repeats `dearer` percent of its work on elements in each step. Returns false when memory is
// short; the caller must call blast_free() in this case, too.
bool blast_create(const struct mesh* mesh, int dearer, struct blast* blast);
void blast_free(struct blast* blast);

// Two collective functions with shared loops. blast_time_step() returns the time step that the
// Courant number `courant` allows. blast_advance() advances the gas by `time_step`.
double blast_time_step(struct blast* blast, double courant);
void blast_advance(struct blast* blast, double time_step);

// Three functions return this rank's kinetic plus internal energy, its number of element updates in
// a step, and its part of the hash of the result.
double blast_energy(const struct blast* blast);
double blast_work(const struct blast* blast);
uint64_t blast_hash(const struct blast* blast);

#endif
