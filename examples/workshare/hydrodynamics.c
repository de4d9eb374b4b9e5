// SPDX-License-Identifier: BSD-3-Clause
// A blast wave in a box by explicit Lagrangian hydrodynamics on hexahedral elements, in the manner
// of the LULESH mini-application, with adjustable imbalance.
//
// Ranks hold slabs with equal numbers of elements. With --imbalance, the elements of the last rank
// take more work, as regions of LULESH do: some elements are computed repeatedly, with the same
// result. The shared loops have no schedule clause, so they are static. The sum at a node adds the
// elements around it in a fixed order. Therefore the result and its hash are bitwise the same for
// any number of ranks and threads, and any imbalance. The program checks that energy is conserved
// but for rounding. Limit: all ranks run on one node (trials.h).
#include <math.h>
#include <mpi.h>

#include "blast.h"
#include "mesh.h"
#include "options.h"
#include "series.h"
#include "trials.h"

static const char kName[] = "hydrodynamics";

static const char kUsage[] =
    "usage: hydrodynamics [options]\n"
    "\n"
    "Follows a blast wave through a gas with hexahedral elements that move with the gas.\n"
    "\n"
    "  --nx N --ny N --nz N  elements in x, y, z (default 24, 24, 48); z is divided over ranks\n"
    "  --imbalance P         an element of the last rank costs P percent more than others, in the\n"
    "                        mean (default 0); a list with commas runs each value in turn\n"
    "  --repeat N            run the whole list N times (default 1)\n"
    "  --steps N             time steps (default 50)\n"
    "  --courant F           the time step, over the time in which sound crosses an element\n"
    "                        (default 0.25)\n"
    "  --json FILE           all times (- for standard output)\n"
    "  --help                this text\n";

// The largest relative change of the gas's energy during a run with which the result counts as
// right. Rounding changes the energy by far less.
static const double kAllowedError = 1e-11;

static struct trials trials = {.imbalances = {1, {0}}, .elements = {24, 24, 48}, .repeat = 1};

static struct {
  int steps;
  double courant;
} options = {.steps = 50, .courant = 0.25};

static const struct option_row kOptions[] = {
    {"nx", OPTION_WHOLE, &trials.elements[X], 2, 4096},
    {"ny", OPTION_WHOLE, &trials.elements[Y], 2, 4096},
    {"nz", OPTION_WHOLE, &trials.elements[Z], 2, 4096},
    {"imbalance", OPTION_WHOLES, &trials.imbalances, 0, 10000},
    {"repeat", OPTION_WHOLE, &trials.repeat, 1, 1000},
    {"steps", OPTION_WHOLE, &options.steps, 1, 1000000},
    {"courant", OPTION_REAL, &options.courant, 0.001, 0.5},
    {"json", OPTION_NAME, &trials.json_file, 0, 0},
    {NULL, OPTION_FLAG, NULL, 0, 0},
};

static const struct program kProgram = {kName, kUsage, kOptions};

// Collective. Returns the energy of the gas of all ranks. The order of its additions depends on the
// number of ranks, so only the check uses this sum; the hash does not.
static double energy_of_all(const struct blast* blast) {
  double energy = blast_energy(blast);
  MPI_Allreduce(MPI_IN_PLACE, &energy, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return energy;
}

static void follow(struct trial* trial, struct blast* blast) {
  MPI_Barrier(MPI_COMM_WORLD);
  trial->start = now_s();
  for (trial->steps = 0; trial->steps < options.steps; ++trial->steps) {
    blast_advance(blast, blast_time_step(blast, options.courant));
  }
  trial->end = now_s();
}

static void run_blast(struct trial* trial, struct blast* blast) {
  const double before = energy_of_all(blast);
  follow(trial, blast);
  trial->loops_s = blast->loops_s;
  trial->work = blast_work(blast);
  trial->error = fabs(energy_of_all(blast) / before - 1.0);
  trial->bound = kAllowedError;
  trial->hash = blast_hash(blast);
  MPI_Allreduce(MPI_IN_PLACE, &trial->hash, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static bool run_with(struct trial* trial) {
  struct mesh mesh;
  struct blast blast;
  if (!trials_mesh(kName, &trials, 0, &mesh)) return false;
  const int dearer = mesh.rank == mesh.ranks - 1 ? trial->imbalance : 0;
  const bool ok = all_agree(blast_create(&mesh, dearer, &blast));
  if (ok) run_blast(trial, &blast);
  blast_free(&blast);
  return ok;
}

static int run(void) {
  struct mesh mesh;
  return trials_mesh(kName, &trials, 0, &mesh) ? trials_run(kName, &trials, run_with) : 2;
}

int main(int argc, char** argv) { return program_main(&kProgram, argc, argv, run); }
