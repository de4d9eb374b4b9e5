// SPDX-License-Identifier: BSD-3-Clause
// The ranks of a node over an interval: the state in which each rank was most of the time, shares
// of time, and rates.
//
// The states are *sampled* a few times in the interval; the numbers are read at its two ends. A
// state that lasts less than the time between two samples may be missed; numbers miss nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "top/reading.hpp"

namespace mh::top {

// A rank of the node that helps another rank or is helped by it, and the number of samples at the
// states that found it so.
struct HelpPartner {
  std::uint32_t rank = 0;
  std::uint32_t samples = 0;
};

struct RankInterval {
  std::array<std::uint32_t, kStates> samples{};  // by state
  State state = State::computes;                 // the state of most samples
  std::vector<HelpPartner> helps;  // ranks for which this rank copied, or lent its core
  std::vector<HelpPartner> helped_by;
  WaitsAt at = WaitsAt::unknown;    // of the last sample that found the rank waiting
  std::vector<std::uint32_t> late;  // the ranks for which this rank waited at that sample
  double waiting = 0;               // parts of the interval, between 0 and 1
  double helping = 0;
  RankNumbers numbers;  // within the interval
};

struct Interval {
  double seconds = 0;
  std::uint32_t samples = 0;
  std::vector<RankInterval> ranks;
  observe::Totals so_far;  // since the start of the job
};

// Watches the MPI job of `view` for `length`, and returns what its ranks did meanwhile. Nothing:
// the job has ended.
std::optional<Interval> watch(const SegmentView& view, const ProcessDescriptor& descriptor,
                              std::chrono::milliseconds length);

// True while the MPI job of `view` runs: the process of `descriptor` still has this descriptor, the
// descriptor still refers to `file` (ProcessDescriptor::file()), and the node's first rank lives.
bool goes_on(const SegmentView& view, const ProcessDescriptor& descriptor, std::uint64_t file);

}  // namespace mh::top
