// SPDX-License-Identifier: BSD-3-Clause
// The model of an emulated machine: the rates of copies by the number of cores that copy, and some
// costs (moving a cache line, a page in a copy by the kernel, lending a core).
//
// A *plan* is a JSON file that `mh bench --emulate` writes for a launch. The plan has a model from
// bench/emulate/models, the dilation (real time over modelled time), and the core of each rank.
// models/README.md explains each number. Units: nanoseconds of the modelled machine, bytes, bytes
// per ns (GB/s).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mh::emulate {

// The total throughput in bytes per ns of the cores that copy at the same time, by their number. It
// has at least one point (cores, throughput); the points ascend by cores. The curve is linear from
// (0, 0) through all points and constant beyond the last.
class Curve {
 public:
  Curve() = default;
  explicit Curve(std::vector<std::pair<double, double>> points) : points_(std::move(points)) {}
  [[nodiscard]] double total(double cores) const;
  [[nodiscard]] double each(double cores) const { return total(cores) / cores; }

 private:
  std::vector<std::pair<double, double>> points_;
};

struct Model {
  // The rates of copies within the memory of one NUMA node, when the copies are parts of messages
  // of `bytes` bytes. Shorter messages stay in the caches and are faster.
  struct OfSize {
    double bytes;
    Curve curve;
  };
  std::vector<OfSize> copy;  // ascending by size
  Curve between;             // rate of copies of lines that are in another core's cache
  double l2_bytes = 0;
  double blocks = 0;      // rate of one core for blocks with gaps
  double reduce = 0;      // rate of one core for a sum
  double page_ns = 0;     // time of a page in a copy by the kernel, beyond the copying
  double page_lines = 0;  // transfers, per page, of the line that guards 2 MB of a process's pages
  double call_ns = 0;
  double line_ns = 0;
  double remote_copy = 1;  // rate to or from the memory of another NUMA node over the near rate
  double remote_line = 1;  // time of a line between NUMA nodes over the near time
  double match_ns = 0;
  double hand_over_ns = 0;
  std::string topology;

  // Returns the curve for memory that is copied again after `between_bytes` bytes of other memory
  // have been copied. In a ping-pong these are the bytes of two messages, one each way.
  [[nodiscard]] const Curve& curve_for(double between_bytes) const;
};

struct Plan {
  Model model;
  double dilation = 1;
  double nap_ns = 0;                // real time that pause() sleeps
  std::string shared;               // the file that the ranks share
  std::vector<std::int32_t> cpus;   // by rank
  std::vector<std::uint16_t> numa;  // by rank
};

// Reads the plan of a launch from the file `path`. Throws std::exception if the file is not a plan.
Plan read_plan(const char* path);

}  // namespace mh::emulate
