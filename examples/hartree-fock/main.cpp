// SPDX-License-Identifier: BSD-3-Clause
// Restricted Hartree-Fock, STO-3G. The two-electron part is a task collection. A task is a pair of
// blocks of shells, and computes all integrals whose first two shells are in these blocks. The
// density and the Fock matrix are distributed over the ranks, in MPI windows. A task gets the rows
// of the density that it needs and adds to the rows of the Fock matrix, a block at a time. Only
// rank 0 has whole matrices; it diagonalises the Fock matrix.
//
//   mpiexec -n 2 ./hartree-fock molecules/benzene.xyz BALANCER [SHELLS_A_BLOCK] [record=FILE]
//
// Each rank begins with a range of consecutive pairs. The work of task (i, j) grows with i, so
// higher ranks have more work. Tasks whose integrals are all too small run in the first iteration
// only (they prune themselves). Prints a line for each iteration, then the energy. Efficiency is
// the time in tasks of all ranks, divided by the number of ranks times the longest time of
// process().
#include <libint2/initialize.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "../recording.hpp"
#include "manyhands/tasks.hpp"
#include "row_blocks.hpp"
#include "scf.hpp"

namespace {

namespace tasks = mh::tasks;

struct Pair {
  std::uint32_t first;  // index of a block
  std::uint32_t second;
};

struct Local {
  hf::TwoElectron* integrals = nullptr;
  hf::RowBlocks* density = nullptr;
  hf::RowBlocks* fock = nullptr;
  std::size_t shells = 0;
  std::size_t block = 1;
  recording::Recording* recording = nullptr;
  std::array<hf::Panel, 3> panels = {};  // of the running task
  std::vector<std::pair<std::size_t, std::size_t>> pairs = {};

  [[nodiscard]] std::size_t end(std::size_t of_block) const {
    return std::min((of_block + 1) * block, shells);
  }
  void open(std::size_t of_block, hf::Panel& panel) const {
    density->get(of_block, panel.density);
    fock->zero(of_block, panel.fock);
  }
};

// Stores in `local.pairs` the pairs of shells in two blocks whose integrals can reach the threshold
// below which an integral is left out.
void find_pairs(Local& local, const Pair& pair) {
  local.pairs.clear();
  for (std::size_t i = pair.first * local.block; i < local.end(pair.first); ++i) {
    for (std::size_t j = pair.second * local.block; j < std::min(local.end(pair.second), i + 1);
         ++j) {
      if (!local.integrals->is_null(i, j)) local.pairs.emplace_back(i, j);
    }
  }
}

// Does the work of a task: computes the integrals of a pair of blocks and adds them to the
// distributed Fock matrix. Returns false, without any work, if all integrals of the pair are too
// small.
bool compute_pair(Local& local, const Pair& pair) {
  find_pairs(local, pair);
  if (local.pairs.empty()) return false;
  auto& [of_i, of_j, of_k] = local.panels;
  local.open(pair.first, of_i);
  local.open(pair.second, of_j);
  for (std::size_t block = 0; block <= pair.first; ++block) {
    local.open(block, of_k);
    for (const auto& [i, j] : local.pairs) {
      for (std::size_t k = block * local.block; k < std::min(local.end(block), i + 1); ++k) {
        local.integrals->add(i, j, k, {of_i, of_j, of_k});
      }
    }
    local.fock->add(block, of_k.fock);
  }
  local.fock->add(pair.first, of_i.fock);
  local.fock->add(pair.second, of_j.fock);
  return true;
}

void compute(tasks::Context& context, const Pair& pair) noexcept {
  auto& local = context.local<Local>();
  const std::uint32_t number = pair.first * (pair.first + 1) / 2 + pair.second;
  local.recording->run(number, [&] {
    const bool kept = compute_pair(local, pair);
    if (!kept) context.prune();
    return kept;
  });
}

struct Job {
  int rank = 0;
  int ranks = 1;
};

// Adds this rank's share of the tasks, one for each pair of blocks. All ranks have equal numbers of
// pairs. Returns false if the collection takes no more tasks.
bool seed(tasks::Collection& collection, tasks::Function<Pair> function, std::size_t blocks,
          const Job& job) {
  const std::size_t all = blocks * (blocks + 1) / 2;
  const auto part = [&](int rank) {
    return all * static_cast<std::size_t>(rank) / static_cast<std::size_t>(job.ranks);
  };
  std::size_t number = 0;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    for (std::uint32_t j = 0; j <= i; ++j, ++number) {
      const bool own = number >= part(job.rank) && number < part(job.rank + 1);
      if (own && !collection.add(function, Pair{i, j})) return false;
    }
  }
  return true;
}

void report(int iteration, double energy, const tasks::Statistics& own, const Job& job) {
  std::array<double, 3> sums{own.task_s, static_cast<double>(own.tasks),
                             static_cast<double>(own.steals)};
  double longest = own.process_s;
  MPI_Allreduce(MPI_IN_PLACE, sums.data(), 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (job.rank != 0) return;
  std::printf("iteration %d energy %.10f tasks %.0f steals %.0f time %.4f s efficiency %.1f %%\n",
              iteration, energy, sums[1], sums[2], longest, 100 * sums[0] / (longest * job.ranks));
}

// Collective. Computes the two-electron part of the Fock matrix for the current density, by the
// tasks of all ranks.
bool build(tasks::Collection& collection, Local& local, const std::optional<hf::Scf>& scf) {
  local.density->scatter(scf ? &scf->density() : nullptr);
  local.fock->clear();
  local.recording->begin_iteration();
  if (!collection.process()) return false;
  local.fock->sync();
  return true;
}

struct Step {
  double energy = 0;
  bool ended = false;
};
// Collective. Rank 0, which has `scf`, makes the next density from the Fock matrix. All ranks get
// the energy, and whether it has converged.
Step step(Local& local, std::optional<hf::Scf>& scf) {
  Step step;
  if (scf) {
    const hf::Matrix fock = local.fock->whole();
    step.ended = scf->step(0.5 * (fock + fock.transpose()));
    step.energy = scf->energy();
  }
  MPI_Bcast(&step, sizeof(step), MPI_BYTE, 0, MPI_COMM_WORLD);
  return step;
}

// Iterates until the energy has converged, at most 60 times. Only rank 0 has `scf`. Returns the
// exit status of the program.
int iterate(tasks::Collection& collection, Local& local, std::optional<hf::Scf>& scf,
            const Job& job) {
  constexpr int kMost = 60;
  for (int iteration = 1; iteration <= kMost; ++iteration) {
    if (!build(collection, local, scf)) return 1;
    const auto [energy, ended] = step(local, scf);
    report(iteration, energy, collection.statistics(), job);
    if (ended) {
      if (job.rank == 0) std::printf("energy %.10f\n", energy);
      return 0;
    }
    if (!collection.restore()) return 1;
  }
  if (job.rank == 0) std::printf("no convergence\n");
  return 1;
}

// Returns the first row of each block of `block` shells, and at the end the number of rows of the
// matrix.
hf::Blocking blocking_of(const hf::Shells& shells, std::size_t block) {
  const std::vector<long> first = hf::first_functions(shells);
  hf::Blocking blocking;
  for (std::size_t shell = 0; shell < shells.size(); shell += block) {
    blocking.push_back(first[shell]);
  }
  blocking.push_back(first.back());
  return blocking;
}

int run(const hf::Molecule& molecule, tasks::Balancer balancer, std::size_t block,
        recording::Recording& recording, const Job& job) {
  const hf::Shells shells = hf::shells_of(molecule);
  hf::TwoElectron integrals(shells);
  std::optional<hf::Scf> scf;
  if (job.rank == 0) scf.emplace(molecule, shells);
  const hf::Blocking blocking = blocking_of(shells, block);
  hf::RowBlocks density(MPI_COMM_WORLD, blocking);
  hf::RowBlocks fock(MPI_COMM_WORLD, blocking);
  Local local{&integrals, &density, &fock, shells.size(), block, &recording};
  const std::size_t blocks = density.count();
  tasks::Config config{.task_bytes = sizeof(Pair), .balancer = balancer, .local = &local};
  config.max_tasks = blocks * (blocks + 1) / 2;
  auto collection = tasks::create(MPI_COMM_WORLD, config);
  if (!collection) {
    std::fprintf(stderr, "hartree-fock: %s\n", mh::describe(collection.status().code));
    return 1;
  }
  const auto function = collection->define<Pair>(compute);
  if (!function || !seed(*collection, *function, blocks, job)) return 1;
  const int code = iterate(*collection, local, scf, job);
  return recording.write(job.rank) ? code : 1;
}

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  recording::Recording recording(count, words);
  libint2::initialize();
  Job job;
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  const hf::Molecule molecule = count >= 3 ? hf::read_molecule(words[1]) : hf::Molecule{};
  const auto balancer = tasks::balancer_of(count >= 3 ? words[2] : "");
  const unsigned long block = count >= 4 ? std::strtoul(words[3], nullptr, 10) : 1;
  int code = 2;
  if (!molecule.empty() && hf::electrons(molecule) % 2 == 0 && balancer && block != 0) {
    code = run(molecule, *balancer, block, recording, job);
  } else if (job.rank == 0) {
    std::fprintf(stderr,
                 "usage: hartree-fock FILE.xyz BALANCER [SHELLS_A_BLOCK] [record=FILE]\n"
                 "BALANCER: none, steal, retain, plb-central, plb-tree or auto\n"
                 "FILE: of H, Be, C, N and O, with an even number of electrons\n");
  }
  libint2::finalize();
  MPI_Finalize();
  return code;
}
