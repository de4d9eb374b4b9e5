// SPDX-License-Identifier: BSD-3-Clause
// The tasks of a simulated application: how long each takes, and who has it first.
//
// Hartree-Fock over a chain of beryllium atoms, as in the paper. Its two-electron part has a task
// for each four blocks (i j | k l) of basis functions. A pair of blocks has a Schwarz bound that
// falls with the distance of its blocks; a task is *null* if the product of its two bounds is below
// a threshold, and takes the longer the further it is above. Drawn: the bounds, with some scatter.
// Given (table 1 of the paper): the number of blocks, which follows from atoms and chunk size, and
// the number of tasks that are not null, from which the threshold follows. Also given: the total
// work, and the ratio of the longest task to the mean, 5.9, which follows from table 3: the best
// balance possible at 38,400 cores is 5.8 % over an ideal of 3 s, so the longest of the 213 K tasks
// of 0.54 s takes 3.17 s.
//
// Tasks are in the order of their indices, in which neighbours have like durations. The simulator
// deals in tasks that are not null; the first iteration of the paper, which finds them, is not
// simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace mh::tasks::sim {

using TaskId = std::uint32_t;
using Seeds = std::vector<std::vector<TaskId>>;  // by rank

struct Problem {
  std::string_view name;
  std::uint32_t blocks;  // of basis functions
  std::uint32_t tasks;   // not null
  double work_s;         // core-seconds in all
  double longest_over_mean;
};

// HF-Be256: 48 s on 2400 cores (table 3). HF-Be512 with the same chunk: as much for each task. With
// chunk 20 on Intrepid: the same work on cores of a quarter of the speed.
inline constexpr Problem kProblems[] = {
    {"hf-be256", 96, 213'000, 115'200, 5.9},
    {"hf-be512", 192, 862'000, 466'000, 5.9},
    {"hf-be512-20", 384, 9'100'000, 1'864'000, 5.9},
};

std::optional<Problem> find_problem(std::string_view name);

// Seconds of each task. Deterministic for a seed.
std::vector<float> draw_durations(const Problem& problem, std::uint64_t seed);

// As many tasks for each rank, in the order of their indices.
Seeds in_blocks(std::uint32_t tasks, std::uint32_t ranks);
// Sorted, the longest first, and dealt out in turn, `many` to every `period`-th rank and one to the
// others (section 7.3 of the paper).
Seeds favoured(const std::vector<float>& durations, std::uint32_t ranks, std::uint32_t period,
               std::uint32_t many);

}  // namespace mh::tasks::sim
