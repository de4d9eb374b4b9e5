// SPDX-License-Identifier: BSD-3-Clause
// What a run did, in at most 20 lines of at most 100 columns, or as JSON.
//
// Works on plain data that the caller gathered from all ranks (totals.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "observe/totals.hpp"

namespace mh::observe {

// One rank's bytes for one other rank, both as world ranks.
struct Helped {
  std::uint32_t helper;
  std::uint32_t victim;
  std::uint64_t bytes;
};

// A region of one rank that is not shared. Plain data.
struct Region {
  std::uint32_t world_rank;
  std::uint32_t obstacle;  // as in Loops::regions_excluded
  double seconds;          // spent there by the rank, about
  double part;             // of its run
  char name[128];          // for users, and for lists; cut where longer
  char at[96];             // its place in a file of the program: the same in all ranks
  char source[64];         // file and line, or empty
};

// What the summary says of regions beside RankReport::loops.
struct Regions {
  std::span<const Region> left_out;    // of all ranks
  std::span<const std::string> names;  // of the lists, in the order of Loops::names_used
};

// `why_not`: what kept nodes from helping (from the agreement at start), empty if nothing did.
std::string render_summary(std::span<const RankReport> ranks, std::span<const Helped> helped,
                           const std::string& why_not, const Regions& regions = {});
std::string render_json(std::span<const RankReport> ranks, std::span<const Helped> helped,
                        const std::string& why_not, const Regions& regions = {});

}  // namespace mh::observe
