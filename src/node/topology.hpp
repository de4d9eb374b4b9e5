// SPDX-License-Identifier: BSD-3-Clause
// The shape of this machine: which CPU belongs to which NUMA node, and how large the last cache is.
//
// No other file uses hwloc, and this file needs it only on machines with several NUMA nodes.
// Loading a topology takes milliseconds, so only the root of a node does so; the other ranks read
// the map from the segment's header. NUMA nodes are numbered 0.. in hwloc's logical order, CPUs by
// the operating system's number. Limit: CPUs from kMaxCpus on count as NUMA node 0.
#pragma once

#include <sched.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "node/rank.hpp"

namespace mh::node {

struct Topology {
  std::uint16_t numa_nodes = 1;
  std::size_t cache_bytes = 0;             // of the last cache before memory; 0: not known
  std::vector<std::uint16_t> numa_of_cpu;  // index: CPU number of the operating system
};

// Finds the topology of this machine. `synthetic`: an hwloc description, such as "node:2 core:4
// pu:1", that takes the place of this machine (for tests).
Result<Topology> load_topology(const char* synthetic = nullptr);

using CpuSet = std::bitset<kMaxCpus>;
// Returns the CPUs that the calling thread may run on (sched_getaffinity). At the start of a
// program, these are the CPUs of the process.
CpuSet allowed_cpus();

}  // namespace mh::node
