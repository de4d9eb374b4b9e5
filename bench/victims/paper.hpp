// SPDX-License-Identifier: BSD-3-Clause
// The loops of figures 2 and 4 to 7 of MPI Workshare, for simulated nodes as large as the paper's.
//
// A core has 2 ms of work on average. A loop on several nodes ends with the last node: ranks help
// within their node. Limit: the model has no cost of a claim, so figure 3, which shows this cost by
// chunk size, has no loop here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "victims/node.hpp"

namespace mh::victims {

struct PaperLoop {
  std::string name;
  std::vector<Costs> nodes;
  std::uint32_t threads;  // of each rank
  double ideal;           // mean nanoseconds of a core

  [[nodiscard]] std::uint32_t ranks() const;
  // The nanoseconds until all loops are done, if no rank lends.
  [[nodiscard]] double alone() const;
  // The nanoseconds until all loops are done, if ranks lend their cores by `policy`.
  [[nodiscard]] double shared(VictimPolicy policy) const;
};

std::vector<PaperLoop> paper_loops();

}  // namespace mh::victims
