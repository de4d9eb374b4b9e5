// SPDX-License-Identifier: BSD-3-Clause
// Restricted Hartree-Fock, STO-3G. The two-electron part is a task collection: a task is a pair of
// blocks of shells, and computes all integrals whose first two shells are in these blocks.
//
//   mpiexec -n 2 ./hartree-fock molecules/benzene.xyz BALANCER [SHELLS_A_BLOCK] [record=FILE]
//
// Each rank begins with a block of consecutive pairs. The work of task (i, j) grows with i, so late
// ranks have more work. The first iteration prunes tasks whose integrals are all too small. Prints
// a line for each iteration, then the energy. Efficiency: the time in tasks over the number of
// ranks times the time of process().
#include <libint2/initialize.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "../recording.hpp"
#include "manyhands/tasks.hpp"
#include "scf.hpp"

namespace {

namespace tasks = mh::tasks;

struct Pair {
  std::uint32_t first;  // index of a block
  std::uint32_t second;
};

struct Local {
  hf::TwoElectron* integrals = nullptr;
  const hf::Matrix* density = nullptr;
  hf::Matrix fock;
  std::size_t shells = 0;
  std::size_t block = 1;
  recording::Recording* recording = nullptr;
};

// False: all integrals of the pair are too small.
bool compute_pair(Local& local, const Pair& pair) {
  const std::size_t end_i = std::min((pair.first + 1) * local.block, local.shells);
  const std::size_t end_j = std::min((pair.second + 1) * local.block, local.shells);
  bool null = true;
  for (std::size_t i = pair.first * local.block; i < end_i; ++i) {
    for (std::size_t j = pair.second * local.block; j < std::min(end_j, i + 1); ++j) {
      if (local.integrals->is_null(i, j)) continue;
      null = false;
      local.integrals->add(i, j, *local.density, local.fock);
    }
  }
  return !null;
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

// Adds this rank's share of all pairs; shares are equal.
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

// Collective: computes the two-electron part for the current density, on all ranks.
bool build(tasks::Collection& collection, Local& local) {
  local.fock.setZero();
  local.recording->begin_iteration();
  if (!collection.process()) return false;
  MPI_Allreduce(MPI_IN_PLACE, local.fock.data(), static_cast<int>(local.fock.size()), MPI_DOUBLE,
                MPI_SUM, MPI_COMM_WORLD);
  return true;
}

int iterate(tasks::Collection& collection, Local& local, hf::Scf& scf, const Job& job) {
  constexpr int kMost = 60;
  for (int iteration = 1; iteration <= kMost; ++iteration) {
    if (!build(collection, local)) return 1;
    const bool ended = scf.step(0.5 * (local.fock + local.fock.transpose()));
    report(iteration, scf.energy(), collection.statistics(), job);
    if (ended) {
      if (job.rank == 0) std::printf("energy %.10f\n", scf.energy());
      return 0;
    }
    if (!collection.restore()) return 1;
  }
  if (job.rank == 0) std::printf("no convergence\n");
  return 1;
}

int run(const hf::Molecule& molecule, tasks::Balancer balancer, std::size_t block,
        recording::Recording& recording, const Job& job) {
  const hf::Shells shells = hf::shells_of(molecule);
  hf::TwoElectron integrals(shells);
  hf::Scf scf(molecule, shells);
  Local local{&integrals, &scf.density(), scf.density(), shells.size(), block, &recording};
  const std::size_t blocks = (shells.size() + block - 1) / block;
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
