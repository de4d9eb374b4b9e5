// SPDX-License-Identifier: BSD-3-Clause
#include "node/topology.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>

#include "support/child.hpp"

namespace mh::node {
namespace {

TEST(Topology, maps_cpus_to_their_numa_node) {
  const Result<Topology> machine = load_topology("node:2 core:4 pu:1");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->numa_nodes, 2);
  for (std::size_t cpu = 0; cpu < 8; ++cpu) EXPECT_EQ(machine->numa_of_cpu[cpu], cpu / 4) << cpu;
}

TEST(Topology, follows_the_numbers_of_the_operating_system) {
  // hwloc's synthetic machine: the numbers of hardware threads alternate between the NUMA nodes, as
  // with the firmware of many machines.
  const Result<Topology> machine = load_topology("node:2 core:2 pu:2(indexes=node)");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->numa_nodes, 2);
  for (std::size_t cpu = 0; cpu < 8; ++cpu) EXPECT_EQ(machine->numa_of_cpu[cpu], cpu % 2) << cpu;
}

TEST(Topology, knows_sub_numa_clusters) {
  const Result<Topology> machine = load_topology("package:2 node:4 core:16 pu:2");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->numa_nodes, 8);
  EXPECT_EQ(machine->numa_of_cpu[255], 7);
}

TEST(Topology, two_memories_of_the_same_cpus_are_one_node) {
  const Result<Topology> machine = load_topology("package:2 [numa] [numa] core:4 pu:1");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->numa_nodes, 2);
  EXPECT_EQ(machine->numa_of_cpu[0], 0);
  EXPECT_EQ(machine->numa_of_cpu[7], 1);
}

TEST(Topology, reads_the_size_of_the_last_cache) {
  const Result<Topology> machine =
      load_topology("node:1 l3:1(size=33554432) l2:2(size=2097152) core:1 pu:1");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->cache_bytes, 32U << 20U);
}

TEST(Topology, a_larger_machine_than_the_map_is_survived) {
  const Result<Topology> machine = load_topology("node:4 core:1024 pu:1");
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->numa_of_cpu.size(), kMaxCpus);
  EXPECT_EQ(machine->numa_of_cpu[kMaxCpus - 1], 1);
}

TEST(Topology, a_description_without_sense_is_an_error) {
  EXPECT_FALSE(load_topology("node:two").ok());
}

// With HWLOC_SYNTHETIC, test runs simulate several NUMA nodes or a smaller cache.
TEST(Topology, can_be_given_to_a_whole_run_by_the_environment_of_hwloc) {
  test::Child child([] {
    ::setenv("HWLOC_SYNTHETIC", "node:2 core:1 pu:1", 1);
    const Result<Topology> machine = load_topology();
    return machine.ok() && machine->numa_nodes == 2 && machine->numa_of_cpu[1] == 1 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  test::Child without_cache([] {  // as in tests/fuzz/test_fuzz.py
    ::setenv("HWLOC_SYNTHETIC", "numa:1 l3:1(size=1024) core:2 pu:1", 1);
    const Result<Topology> machine = load_topology();
    return machine.ok() && machine->cache_bytes == 1024 ? 0 : 1;
  });
  EXPECT_EQ(without_cache.wait(), 0);
}

TEST(Topology, of_this_machine_covers_the_cpus_we_may_use) {
  const Result<Topology> machine = load_topology();
  ASSERT_TRUE(machine.ok());
  EXPECT_GE(machine->numa_nodes, 1);
  const CpuSet cpus = allowed_cpus();
  EXPECT_GE(cpus.count(), 1U);
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (cpus[cpu]) {
      EXPECT_LT(machine->numa_of_cpu[cpu], machine->numa_nodes);
    }
  }
}

// load_topology() reads a machine with one NUMA node without hwloc. HWLOC_FSROOT makes it use
// hwloc.
TEST(Topology, of_this_machine_is_that_of_hwloc) {
  const Result<Topology> here = load_topology();
  test::Child by_hwloc([&] {
    ::setenv("HWLOC_FSROOT", "/", 1);
    const Result<Topology> machine = load_topology();
    return machine.ok() && here.ok() && machine->numa_nodes == here->numa_nodes &&
                   machine->cache_bytes == here->cache_bytes &&
                   machine->numa_of_cpu == here->numa_of_cpu
               ? 0
               : 1;
  });
  EXPECT_EQ(by_hwloc.wait(), 0);
}

TEST(AllowedCpus, follow_the_affinity_of_the_process) {
  test::Child child([] {
    const auto cpu = static_cast<std::size_t>(::sched_getcpu());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) return 1;
    const CpuSet cpus = allowed_cpus();
    return cpus.count() == 1 && cpus[cpu] ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace mh::node
