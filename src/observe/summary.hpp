// SPDX-License-Identifier: BSD-3-Clause
// The summary of a run, in at most 20 lines of at most 100 columns, or as JSON.
//
// Pure functions on plain data that the caller has gathered from all ranks (totals.hpp).
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "observe/totals.hpp"

namespace mh::observe {

// Bytes that one rank copied for another; both are world ranks.
struct HelpedBytes {
  std::uint32_t helper;
  std::uint32_t victim;
  std::uint64_t bytes;
};

// An OpenMP region of one rank with whose loops other ranks cannot help. Plain data.
struct UnsharedRegion {
  std::uint32_t world_rank;
  std::uint32_t obstacle;  // index into Loops::regions_excluded
  double seconds;          // approximate time that the rank spent in the region
  double part;             // fraction of the rank's run
  char name[128];          // for users and for lists; truncated
  char at[96];             // address in a file of the program, equal in all ranks
  char source[64];         // file and line, or empty
};

// Data about OpenMP regions for the summary, beside the counts in RankReport::loops.
struct RegionReport {
  std::span<const UnsharedRegion> left_out;  // of all ranks
  std::span<const std::string> names;  // of the user's lists, in the order of Loops::names_used
};

// Render the summary as lines of text, or as JSON. `why_not`: the reason, agreed on by the ranks at
// the start, why some nodes do not share work; empty if all nodes do.
std::string render_summary(std::span<const RankReport> ranks, std::span<const HelpedBytes> helped,
                           const std::string& why_not, const RegionReport& regions = {});
std::string render_json(std::span<const RankReport> ranks, std::span<const HelpedBytes> helped,
                        const std::string& why_not, const RegionReport& regions = {});

}  // namespace mh::observe
