// SPDX-License-Identifier: BSD-3-Clause
#include "node/topology.hpp"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/kernel_file.hpp"

namespace mh::node {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

Result<HwlocTopology> load_machine(const char* synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return from_errno(ENOMEM);
  HwlocTopology machine(raw);
  if (synthetic != nullptr && hwloc_topology_set_synthetic(raw, synthetic) != 0) {
    return Status{Code::unsupported, EINVAL};
  }
  // hwloc skips I/O devices. Finding them would take most of the loading time, and nothing uses
  // them.
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw) != 0) return from_errno(errno);
  return machine;
}

// Numbers the NUMA nodes that have CPUs; nodes of memory only (HBM, CXL) are skipped. If two nodes
// have the same CPUs (KNL flat mode), the first counts.
void map_numa(hwloc_topology_t machine, Topology& topology) {
  topology.numa_of_cpu.assign(kMaxCpus, 0);
  std::vector<bool> mapped(kMaxCpus, false);
  std::uint16_t number = 0;
  const int nodes = hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < nodes; ++i) {
    const hwloc_obj_t node =
        hwloc_get_obj_by_type(machine, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    bool new_cpus = false;
    for (int cpu = hwloc_bitmap_first(node->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(node->cpuset, cpu)) {
      const auto index = static_cast<std::size_t>(cpu);
      if (index >= kMaxCpus || mapped[index]) continue;
      mapped[index] = true;
      new_cpus = true;
      topology.numa_of_cpu[index] = number;
    }
    if (new_cpus) ++number;
  }
  topology.numa_nodes = std::max<std::uint16_t>(number, 1);
}

// Returns the size in bytes of the last cache before memory, or 0. If there are several caches of
// that level, it is the size of the first one.
std::size_t last_cache(hwloc_topology_t machine) {
  for (const hwloc_obj_type_t level : {HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    const hwloc_obj_t cache = hwloc_get_obj_by_type(machine, level, 0);
    if (cache != nullptr && cache->attr->cache.size != 0) {
      return static_cast<std::size_t>(cache->attr->cache.size);
    }
  }
  return 0;
}

// Reads the topology of a machine with one NUMA node from files of the kernel, since hwloc takes 4
// to 15 ms, mostly for plugins. Returns nothing if the machine has more NUMA nodes, or if the files
// lack the number of NUMA nodes or the size of the caches.
std::optional<Topology> one_numa_node() {
  if (::getenv("HWLOC_SYNTHETIC") != nullptr || ::getenv("HWLOC_FSROOT") != nullptr)
    return std::nullopt;
  if (first_line("/sys/devices/system/node/online") != "0") return std::nullopt;
  for (int index = 4; index >= 2; --index) {
    const std::string size =
        first_line("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::size_t kilobytes = 0;
    const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), kilobytes);
    if (error != std::errc() || std::string_view(end) != "K") continue;
    return Topology{.cache_bytes = kilobytes << 10U,
                    .numa_of_cpu = std::vector<std::uint16_t>(kMaxCpus, 0)};
  }
  return std::nullopt;
}

}  // namespace

Result<Topology> load_topology(const char* synthetic) {
  if (auto simple = synthetic == nullptr ? one_numa_node() : std::nullopt; simple) return *simple;
  const Result<HwlocTopology> machine = load_machine(synthetic);
  if (!machine) return machine.status();
  Topology topology;
  map_numa(machine->get(), topology);
  topology.cache_bytes = last_cache(machine->get());
  return topology;
}

CpuSet allowed_cpus() {
  // A cpu_set_t holds 1024 CPUs, and sched_getaffinity() fails on kernels with more. The set
  // therefore has room for kMaxCpus CPUs.
  CpuSet cpus;
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kMaxCpus),
                                                       [](cpu_set_t* s) { CPU_FREE(s); });
  const std::size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  if (!set || ::sched_getaffinity(0, bytes, set.get()) != 0) return cpus;
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    cpus[cpu] = CPU_ISSET_S(cpu, bytes, set.get());
  }
  return cpus;
}

}  // namespace mh::node
