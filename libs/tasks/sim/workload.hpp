// SPDX-License-Identifier: BSD-3-Clause
// The tasks of a simulated application: their durations, and the ranks that have them first.
//
// The application is Hartree-Fock over a chain of beryllium atoms, as in the paper. The
// two-electron part has a task for each four blocks (i j | k l) of basis functions. A pair of
// blocks has a Schwarz bound, which falls with the distance of the blocks. A task is *null* if the
// product of its two bounds is below a threshold. The further the product is above, the longer the
// task takes.
//
// The bounds are drawn, with some scatter. Table 1 of the paper gives the number of blocks, which
// follows from atoms and chunk size, and the number of tasks that are not null. The threshold
// follows from that number. The total work is given, too, and the ratio of the longest task to the
// mean, 5.9. The ratio follows from table 3: the best balance possible at 38,400 cores is 5.8 %
// over an ideal of 3 s. So the longest of the 213 K tasks takes 3.17 s, with a mean of 0.54 s.
//
// Tasks are in the order of their indices, so neighbours have similar durations. The simulator has
// only tasks that are not null. The first iteration of the paper, which finds those tasks, is not
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

// HF-Be256 takes 48 s on 2400 cores (table 3). HF-Be512 with the same chunk has as much work for
// each task. With chunk 20 on Intrepid, the same work runs on cores of a quarter of the speed.
inline constexpr Problem kProblems[] = {
    {"hf-be256", 96, 213'000, 115'200, 5.9},
    {"hf-be512", 192, 862'000, 466'000, 5.9},
    {"hf-be512-20", 384, 9'100'000, 1'864'000, 5.9},
};

std::optional<Problem> find_problem(std::string_view name);

// The durations of the tasks, in seconds. Deterministic for a seed.
std::vector<float> draw_durations(const Problem& problem, std::uint64_t seed);

// An equal number of tasks for each rank, in the order of their indices.
Seeds in_blocks(std::uint32_t tasks, std::uint32_t ranks);
// Tasks are sorted, the longest first, and dealt out in turn: `many` to every `period`-th rank, one
// to each other rank (section 7.3 of the paper).
Seeds favoured(const std::vector<float>& durations, std::uint32_t ranks, std::uint32_t period,
               std::uint32_t many);

}  // namespace mh::tasks::sim
