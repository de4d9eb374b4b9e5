// SPDX-License-Identifier: BSD-3-Clause
// The tasks of a simulated application: their durations, and the ranks that have them first.
//
// Hartree-Fock over a straight chain of beryllium atoms, as in the paper that tasks/config.hpp
// names. The two-electron part has a task for each four blocks (i j | k l) of shells (groups of an
// atom's basis functions). A task computes the quartets of shells whose Schwarz bounds multiply to
// the threshold or more, and is *null* if there are none. Where each input comes from:
//
//   blocks, tasks      table 1 of the paper: the atoms, the size of blocks (its "chunk size"), the
//                      tasks that are not null
//   bounds of shells   computed integrals (beryllium.hpp); the chain's spacing is the metal's
//   threshold          the largest that leaves as many tasks as table 1 says
//   time of a quartet  measured, by the number of its p shells (beryllium.hpp)
//   the sum of times   the ideal times of table 3, 48 s on 2400 cores; for other problems in
//                      proportion to the tasks, for other cores to their peak rates
//
// A tensor contraction as in the paper's section 7.1: C[ijkl] += A[ijab] B[abkl]. The spatial
// blocks and the tile size are the paper's. A tile of C is a task if the product of its four
// spatial blocks, in the symmetry group D2, is the identity; that gives 470,357 tasks (the paper:
// 470 K). The time of a task is its operations at a core's peak rate and the transfer of its tiles.
//
// Tasks are in the order of their indices, so neighbours have similar durations. A negative
// duration is a null task: it takes that time once, and prunes itself. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tasks/sim/machine.hpp"

namespace mh::tasks::sim {

using TaskId = std::uint32_t;
using Seeds = std::vector<std::vector<TaskId>>;  // by rank

enum class WorkloadKind : std::uint8_t { hartree_fock, contraction };

struct Problem {
  std::string_view name;
  std::uint32_t atoms = 0;
  std::uint32_t blocks = 0;  // of shells; three shells an atom
  std::uint32_t tasks = 0;   // not null
  double work_s = 0;         // core-seconds in all, on a core of 8.4 Gflop/s
  WorkloadKind kind = WorkloadKind::hartree_fock;
};

// The core-seconds of the Hartree-Fock problems. Blocks of shells are as large in hf-be512 as in
// hf-be256, so a task has as much work. In hf-be512-20 blocks are half as large (the paper's chunk
// size 20), and the work of hf-be512 is in more tasks.
inline constexpr double kWorkBe256 = 48.0 * 2400;
inline constexpr double kWorkBe512 = kWorkBe256 / 213'000 * 862'000;
inline constexpr Problem kProblems[] = {
    {"hf-be256", 256, 96, 213'000, kWorkBe256},
    {"hf-be512", 512, 192, 862'000, kWorkBe512},
    {"hf-be512-20", 512, 384, 9'100'000, kWorkBe512},
    {.name = "tce", .kind = WorkloadKind::contraction},
};

// Returns the durations of the tasks that are not null (have something to compute), in seconds.
std::vector<float> durations_of(const Problem& problem, const MachineModel& machine);
// Returns the durations of all blocks^4 tasks in seconds, with those of null tasks, which compute
// nothing. A null task fetches two tiles of the Schwarz matrix from other ranks. Hartree-Fock only.
// Memory: 4 bytes for each task.
std::vector<float> all_durations_of(const Problem& problem, const MachineModel& machine);

// Returns seeds (the first tasks of each rank) with an equal number of tasks for each rank, in the
// order of the tasks' indices.
Seeds in_blocks(std::uint32_t tasks, std::uint32_t ranks);
// Returns an uneven start: the tasks, the longest first, are dealt to the ranks in turn, `many` to
// every `period`-th rank and one to each other rank (section 7.3 of the HPDC 2012 paper). The seeds
// of a rank are the tasks that it has at the start.
Seeds favoured(const std::vector<float>& durations, std::uint32_t ranks, std::uint32_t period,
               std::uint32_t many);

}  // namespace mh::tasks::sim
