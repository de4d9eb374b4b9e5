// SPDX-License-Identifier: BSD-3-Clause
// The time step of a blast wave. See blast.h.
#include "blast.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#include "loops.h"
#include "series.h"
#include "trials.h"

static const double kGamma = 1.4;
static const double kDensity = 1.0;
static const double kQuietEnergy = 1e-2, kBlastEnergy = 4.0, kBlastRadius = 0.3;
static const double kQuadratic = 2.0, kLinear = 0.3;  // factors of the viscosity

// --- corners of elements, and how often an element is computed

// Returns the number, within this rank's slab, of the node at corner `c` of an element.
static int corner_node(const struct mesh* mesh, int element, int c) {
  const int nx = mesh->elements[X], ny = mesh->elements[Y];
  const int x = element % nx + (c & 1), y = element / nx % ny + ((c >> 1) & 1);
  return (element / (nx * ny) + (c >> 2)) * mesh->plane_rows + y * mesh->nodes[X] + x;
}

static void take_corners(const struct mesh* mesh, int element, const struct vector* of_nodes,
                         struct vector* corners) {
  for (int c = 0; c < HEX_CORNERS; ++c) corners[c] = of_nodes[corner_node(mesh, element, c)];
}

// Returns how often the work on an element is done in a step, which makes a rank's elements dearer
// for --imbalance. Elements with repeated work are spread evenly over the slab.
static int turns_of(const struct blast* blast, int element) {
  const long long dearer = blast->dearer;
  return (int)(1 + (element + 1) * dearer / 100 - element * dearer / 100);
}

double blast_work(const struct blast* blast) {
  double work = 0.0;
  for (int element = 0; element < blast->elements; ++element) work += turns_of(blast, element);
  return work;
}

// --- forces of elements on their corners

// Sets the force of an element on each of its corners. The function is not inlined, because a
// compiler that sees the repeated work of one element may do it only once.
__attribute__((noinline)) static void push_corners(const struct blast* blast, int element) {
  struct vector corners[HEX_CORNERS], areas[HEX_CORNERS];
  struct vector* force = blast->force + (size_t)element * HEX_CORNERS;
  take_corners(blast->mesh, element, blast->position, corners);
  hexahedron_areas(corners, areas);
  for (int c = 0; c < HEX_CORNERS; ++c) force[c] = times(blast->push[element], areas[c]);
}

static void push_all(const struct blast* blast) {
  SHARED_FOR()
  for (int element = 0; element < blast->elements; ++element) {
    for (int turn = turns_of(blast, element); turn > 0; --turn) push_corners(blast, element);
  }
}

// Returns the sum of the forces that the elements of one layer exert on a node of the layer's lower
// (`plane` 0) or upper (1) plane. `in_plane` is the node's number within the plane.
static struct vector force_of_layer(const struct blast* blast, int layer, int plane, int in_plane) {
  const struct mesh* mesh = blast->mesh;
  const int nx = mesh->elements[X], ny = mesh->elements[Y];
  const int x = in_plane % mesh->nodes[X], y = in_plane / mesh->nodes[X];
  struct vector sum = {0.0, 0.0, 0.0};
  for (int c = 0; c < HEX_CORNERS / 2; ++c) {
    const int ex = x - (c & 1), ey = y - (c >> 1);  // the element whose corner c is the node
    if (ex < 0 || ex >= nx || ey < 0 || ey >= ny) continue;
    const size_t element = ((size_t)layer * (size_t)ny + (size_t)ey) * (size_t)nx + (size_t)ex;
    sum = plus(sum, blast->force[element * HEX_CORNERS + (size_t)(c + 4 * plane)]);
  }
  return sum;
}

static void sum_edges(const struct blast* blast) {
  const struct mesh* mesh = blast->mesh;
  SHARED_FOR()
  for (int node = 0; node < mesh->plane_rows; ++node) {
    blast->low.mine[node] = force_of_layer(blast, 0, 0, node);
    blast->high.mine[node] = force_of_layer(blast, mesh->layers - 1, 1, node);
  }
}

// The nodes between two slabs get forces from both. Sends the sums of this rank's forces on them to
// the neighbours, and receives the neighbours' sums for the same nodes.
static void exchange(const struct blast* blast) {
  const int count = 3 * blast->mesh->plane_rows;
  const struct edge* edges[] = {&blast->low, &blast->high};
  MPI_Request requests[4];
  MPI_Status statuses[4];
  for (int i = 0; i < 2; ++i) {
    MPI_Irecv(edges[i]->theirs, count, MPI_DOUBLE, edges[i]->neighbour, 1 - i, MPI_COMM_WORLD,
              &requests[i]);
    MPI_Isend(edges[i]->mine, count, MPI_DOUBLE, edges[i]->neighbour, i, MPI_COMM_WORLD,
              &requests[2 + i]);
  }
  MPI_Waitall(4, requests, statuses);
}

// --- motion of nodes

static struct vector force_on(const struct blast* blast, int node) {
  const struct mesh* mesh = blast->mesh;
  const int plane = node / mesh->plane_rows, in_plane = node % mesh->plane_rows;
  const bool lowest = plane == 0, highest = plane == mesh->layers;
  return plus(lowest ? blast->low.theirs[in_plane] : force_of_layer(blast, plane - 1, 1, in_plane),
              highest ? blast->high.theirs[in_plane] : force_of_layer(blast, plane, 0, in_plane));
}

static bool at_wall(const struct mesh* mesh, struct node node, int axis) {
  return node.at[axis] == 0 || node.at[axis] == mesh->elements[axis];
}

// Returns the force on a node without its components perpendicular to walls of the box, because the
// gas slides along walls.
static struct vector along_walls(const struct mesh* mesh, int node, struct vector force) {
  const struct node at = mesh_node(mesh, node);
  return (struct vector){at_wall(mesh, at, X) ? 0.0 : force.x, at_wall(mesh, at, Y) ? 0.0 : force.y,
                         at_wall(mesh, at, Z) ? 0.0 : force.z};
}

static void move_nodes(const struct blast* blast, double time_step) {
  SHARED_FOR()
  for (int node = 0; node < blast->nodes; ++node) {
    const struct vector force = along_walls(blast->mesh, node, force_on(blast, node));
    const struct vector gained = times(time_step / blast->node_mass[node], force);
    const struct vector mean = plus(blast->velocity[node], times(0.5, gained));
    blast->mean_velocity[node] = mean;
    blast->velocity[node] = plus(blast->velocity[node], gained);
    blast->position[node] = plus(blast->position[node], times(time_step, mean));
  }
}

// --- energy, pressure and viscosity of elements

// Returns the energy per time that the forces of an element give to its corners, which move with
// `velocities`.
static double power_of(const struct blast* blast, int element, const struct vector* velocities) {
  const struct vector* force = blast->force + (size_t)element * HEX_CORNERS;
  double power = 0.0;
  for (int c = 0; c < HEX_CORNERS; ++c) power += dot(force[c], velocities[c]);
  return power;
}

// Sets the pressure plus viscosity, the signal speed and the size of an element. `growth` is the
// rate at which the element's volume grows, divided by the volume.
static void set_push(const struct blast* blast, int element, double volume, double growth) {
  const double density = blast->element_mass / volume, size = cbrt(volume);
  const double pressure = (kGamma - 1.0) * density * blast->next_energy[element];
  const double sound = sqrt(kGamma * pressure / density);
  const double shock = growth < 0.0 ? -growth * size : 0.0;
  blast->push[element] = pressure + density * shock * (kQuadratic * shock + kLinear * sound);
  blast->signal[element] = sound + kQuadratic * shock;
  blast->size[element] = size;
}

// Computes energy, pressure, viscosity and size of an element after the nodes have moved. The
// function is not inlined, because a compiler that sees the repeated work of one element may do it
// only once. It reads nothing that it writes, so repeated calls give the same result.
__attribute__((noinline)) static void update(const struct blast* blast, int element,
                                             double time_step) {
  struct vector corners[HEX_CORNERS], areas[HEX_CORNERS], velocities[HEX_CORNERS];
  take_corners(blast->mesh, element, blast->position, corners);
  take_corners(blast->mesh, element, blast->mean_velocity, velocities);
  const double volume = hexahedron_areas(corners, areas);
  const double lost = time_step * power_of(blast, element, velocities) / blast->element_mass;
  double growth = 0.0;
  for (int c = 0; c < HEX_CORNERS; ++c) growth += dot(areas[c], velocities[c]);
  blast->next_energy[element] = blast->energy[element] - lost;
  set_push(blast, element, volume, growth / volume);
}

static void update_all(struct blast* blast, double time_step) {
  SHARED_FOR()
  for (int element = 0; element < blast->elements; ++element) {
    for (int turn = turns_of(blast, element); turn > 0; --turn) update(blast, element, time_step);
  }
  double* before = blast->energy;
  blast->energy = blast->next_energy;
  blast->next_energy = before;
}

// --- a time step

void blast_advance(struct blast* blast, double time_step) {
  double start = now_s();
  push_all(blast);
  sum_edges(blast);
  blast->loops_s += now_s() - start;
  exchange(blast);
  start = now_s();
  move_nodes(blast, time_step);
  update_all(blast, time_step);
  blast->loops_s += now_s() - start;
}

// The time step is a minimum over all elements. A minimum does not depend on the order of elements,
// so all builds of the program get the same time step.
double blast_time_step(struct blast* blast, double courant) {
  const double start = now_s();
  double shortest = INFINITY;
  SHARED_FOR(reduction(min : shortest))
  for (int element = 0; element < blast->elements; ++element) {
    const double crossing = blast->size[element] / blast->signal[element];
    if (crossing < shortest) shortest = crossing;
  }
  blast->loops_s += now_s() - start;
  MPI_Allreduce(MPI_IN_PLACE, &shortest, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  return courant * shortest;
}

// --- creation, energy and hash

static bool create_edge(const struct mesh* mesh, int neighbour, struct edge* edge) {
  const size_t count = (size_t)mesh->plane_rows;
  const bool wall = neighbour < 0 || neighbour >= mesh->ranks;
  edge->neighbour = wall ? MPI_PROC_NULL : neighbour;
  edge->mine = calloc(count, sizeof *edge->mine);
  edge->theirs = calloc(count, sizeof *edge->theirs);
  return edge->mine != NULL && edge->theirs != NULL;
}

static bool create_nodes(struct blast* blast) {
  const size_t nodes = (size_t)blast->nodes;
  blast->position = calloc(nodes, sizeof *blast->position);
  blast->velocity = calloc(nodes, sizeof *blast->velocity);
  blast->mean_velocity = calloc(nodes, sizeof *blast->mean_velocity);
  blast->node_mass = calloc(nodes, sizeof *blast->node_mass);
  return blast->position != NULL && blast->velocity != NULL && blast->mean_velocity != NULL &&
         blast->node_mass != NULL;
}

static bool create_elements(struct blast* blast) {
  const size_t elements = (size_t)blast->elements;
  blast->force = calloc(elements * HEX_CORNERS, sizeof *blast->force);
  blast->energy = calloc(elements, sizeof(double));
  blast->next_energy = calloc(elements, sizeof(double));
  blast->push = calloc(elements, sizeof(double));
  blast->signal = calloc(elements, sizeof(double));
  blast->size = calloc(elements, sizeof(double));
  return blast->force != NULL && blast->energy != NULL && blast->next_energy != NULL &&
         blast->push != NULL && blast->signal != NULL && blast->size != NULL;
}

// Returns the mass of a node: an eighth of the mass of each element around the node.
static double mass_of_node(const struct blast* blast, struct node node) {
  double mass = blast->element_mass;
  for (int axis = 0; axis < AXES; ++axis) {
    if (at_wall(blast->mesh, node, axis)) mass *= 0.5;
  }
  return mass;
}

static void place_node(struct blast* blast, int node) {
  const struct node at = mesh_node(blast->mesh, node);
  double position[AXES];
  mesh_position(blast->mesh, at, position);
  blast->position[node] = (struct vector){position[X], position[Y], position[Z]};
  blast->node_mass[node] = mass_of_node(blast, at);
}

static void heat_element(struct blast* blast, int element) {
  const struct vector low = blast->position[corner_node(blast->mesh, element, 0)];
  const struct vector high = blast->position[corner_node(blast->mesh, element, 7)];
  const struct vector centre = times(0.5, plus(low, high));
  const double distance = dot(centre, centre) / (kBlastRadius * kBlastRadius);
  blast->next_energy[element] = kQuietEnergy + kBlastEnergy * exp(-distance);
  blast->energy[element] = blast->next_energy[element];
  set_push(blast, element, blast->element_mass / kDensity, 0.0);
}

bool blast_create(const struct mesh* mesh, int dearer, struct blast* blast) {
  *blast = (struct blast){.mesh = mesh, .dearer = dearer};
  blast->nodes = (mesh->layers + 1) * mesh->plane_rows;
  blast->elements = mesh->layers * mesh->elements[X] * mesh->elements[Y];
  blast->element_mass = kDensity / mesh->elements[X] / mesh->elements[Y] / mesh->elements[Z];
  const bool ok = create_edge(mesh, mesh->rank - 1, &blast->low) &&
                  create_edge(mesh, mesh->rank + 1, &blast->high) && create_nodes(blast) &&
                  create_elements(blast);
  if (!ok) return false;
  for (int node = 0; node < blast->nodes; ++node) place_node(blast, node);
  for (int element = 0; element < blast->elements; ++element) heat_element(blast, element);
  return true;
}

static void free_edge(struct edge* edge) {
  free(edge->mine);
  free(edge->theirs);
}

void blast_free(struct blast* blast) {
  free_edge(&blast->low);
  free_edge(&blast->high);
  free(blast->position);
  free(blast->velocity);
  free(blast->mean_velocity);
  free(blast->node_mass);
  free(blast->force);
  free(blast->energy);
  free(blast->next_energy);
  free(blast->push);
  free(blast->signal);
  free(blast->size);
  *blast = (struct blast){0};
}

// Returns the number of this rank's nodes that its sums count. The nodes between two slabs are
// stored by the ranks of both slabs, and only the rank of the upper slab counts them.
static int own_nodes(const struct blast* blast) { return blast->mesh->rows; }

double blast_energy(const struct blast* blast) {
  double energy = 0.0;
  for (int element = 0; element < blast->elements; ++element) {
    energy += blast->element_mass * blast->energy[element];
  }
  for (int node = 0; node < own_nodes(blast); ++node) {
    const struct vector velocity = blast->velocity[node];
    energy += 0.5 * blast->node_mass[node] * dot(velocity, velocity);
  }
  return energy;
}

uint64_t blast_hash(const struct blast* blast) {
  const struct mesh* mesh = blast->mesh;
  const uint64_t layer = (uint64_t)mesh->elements[X] * (uint64_t)mesh->elements[Y];
  const uint64_t first_element = (uint64_t)mesh->first * layer;
  const uint64_t first_node = (uint64_t)mesh->first * (uint64_t)mesh->plane_rows;
  uint64_t sum = 0;
  for (int element = 0; element < blast->elements; ++element) {
    sum += hash_of(blast->energy[element], first_element + (uint64_t)element);
  }
  for (int node = 0; node < own_nodes(blast); ++node) {
    sum += hash_of(blast->position[node].x, first_node + (uint64_t)node);
    sum += hash_of(blast->velocity[node].z, first_node + (uint64_t)node);
  }
  return sum;
}
