// SPDX-License-Identifier: BSD-3-Clause
#include "node/node.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <memory>

#include "support/child.hpp"
#include "support/shared.hpp"

namespace mh::node {
namespace {

constexpr std::size_t kArea = 1000;

Topology topology(const char* synthetic) { return *load_topology(synthetic); }

// A segment of `ranks` ranks, all played by this process. Consecutive ranks are on the same NUMA
// node.
struct Fixture {
  explicit Fixture(std::uint32_t ranks, const char* synthetic = "node:2 core:4 pu:1")
      : memory(Node::bytes_needed(ranks, kArea)) {
    EXPECT_TRUE(Node::initialise(memory.span(), ranks, kArea, topology(synthetic)).ok());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      Result<Node> joined = Node::join(memory.span(), rank, ranks, 100 + rank);
      EXPECT_TRUE(joined.ok());
      nodes.push_back(*joined);
    }
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      nodes[0].record(rank).numa =
          static_cast<std::uint16_t>(rank * nodes[0].header().numa_nodes / ranks);
    }
    for (Node& node : nodes) node.settle();
  }
  test::SharedMemory memory;
  std::vector<Node> nodes;
};

TEST(Node, every_rank_finds_every_record) {
  Fixture f(5);
  for (const Node& node : f.nodes) {
    EXPECT_EQ(node.ranks(), 5U);
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(node.record(rank).world_rank, 100 + rank);
      EXPECT_EQ(node.record(rank).pid, ::getpid());
      EXPECT_EQ(node.record(rank).idle.load(), 0U);
    }
  }
  EXPECT_EQ(f.nodes[3].me(), 3U);
  EXPECT_EQ(&f.nodes[3].mine(), &f.nodes[0].record(3));
}

TEST(Node, areas_are_aligned_and_zero_and_do_not_overlap_records) {
  Fixture f(3);
  const Node& node = f.nodes[0];
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    std::byte* area = node.area(rank);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(area) % kCacheLine, 0U);
    EXPECT_TRUE(std::all_of(area, area + kArea, [](std::byte b) { return b == std::byte{0}; }));
    std::fill_n(area, kArea, std::byte{0xff});
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(node.record(rank).world_rank, 100 + rank);
  EXPECT_LE(node.area(2) + kArea, f.memory.span().data() + f.memory.span().size());
}

TEST(Node, keys_are_random) {
  const Fixture a(1);
  const Fixture b(1);
  EXPECT_NE(a.nodes[0].header().job_key[0], b.nodes[0].header().job_key[0]);
  EXPECT_NE(a.nodes[0].header().job_key[1], b.nodes[0].header().job_key[1]);
}

TEST(Node, a_segment_of_another_build_or_shape_is_a_mismatch) {
  const std::uint32_t ranks = 2;
  test::SharedMemory memory(Node::bytes_needed(ranks, kArea));
  const auto code = [&](std::uint32_t me, std::uint32_t of) {
    return Node::join(memory.span(), me, of, 0).status().code;
  };
  EXPECT_EQ(code(0, ranks), Code::mismatch) << "not initialised";
  ASSERT_TRUE(Node::initialise(memory.span(), ranks, kArea, topology("node:1 pu:1")).ok());
  EXPECT_EQ(code(0, ranks), Code::ok);
  EXPECT_EQ(code(0, ranks + 1), Code::mismatch);
  EXPECT_EQ(code(ranks, ranks), Code::mismatch);
  auto& header = *reinterpret_cast<SegmentHeader*>(memory.span().data());
  header.stride *= 1000;
  EXPECT_EQ(code(0, ranks), Code::mismatch) << "records beyond the memory";
  header.stride /= 1000;
  header.layout += 1;
  EXPECT_EQ(code(0, ranks), Code::mismatch) << "other layout";
}

TEST(Node, too_many_ranks_or_too_little_memory_is_said_and_not_tried) {
  test::SharedMemory memory(Node::bytes_needed(1, kArea));
  const Topology machine = topology("node:1 pu:1");
  EXPECT_EQ(Node::initialise(memory.span(), kMaxRanks + 1, kArea, machine).code, Code::unsupported);
  EXPECT_EQ(Node::initialise(memory.span(), 0, kArea, machine).code, Code::unsupported);
  EXPECT_EQ(Node::initialise(memory.span(), 2, kArea, machine).code, Code::mismatch);
}

TEST(Node, counts_the_active_ranks_of_a_numa_node) {
  Fixture f(8);
  const Node& node = f.nodes[0];
  EXPECT_FALSE(node.has_active_ranks(7, 1)) << "there is no such NUMA node";
  EXPECT_TRUE(node.has_active_ranks(1, 4));
  EXPECT_FALSE(node.has_active_ranks(1, 5));
  node.record(5).idle.store(1);
  node.record(6).idle.store(1);
  EXPECT_TRUE(node.has_active_ranks(0, 4));
  EXPECT_TRUE(node.has_active_ranks(1, 2));
  EXPECT_FALSE(node.has_active_ranks(1, 3));
  EXPECT_TRUE(node.has_active_ranks(1, 0));
}

bool run_on(std::size_t cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  return ::sched_setaffinity(0, sizeof one, &one) == 0;
}

Topology a_numa_node_for_each_cpu() {
  Topology topology{.numa_nodes = kMaxCpus, .numa_of_cpu = {}};
  for (std::uint16_t cpu = 0; cpu < kMaxCpus; ++cpu) topology.numa_of_cpu.push_back(cpu);
  return topology;
}

TEST(Node, a_rank_follows_its_core_to_another_numa_node) {
  const CpuSet cpus = allowed_cpus();
  if (cpus.count() < 2) GTEST_SKIP() << "needs two cores";
  test::Child child([&] {
    test::SharedMemory memory(Node::bytes_needed(2, kArea));
    if (!Node::initialise(memory.span(), 2, kArea, a_numa_node_for_each_cpu())) return 1;
    Node first = *Node::join(memory.span(), 0, 2, 0);
    Node second = *Node::join(memory.span(), 1, 2, 1);
    for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (!cpus[cpu]) continue;
      if (!run_on(cpu)) return 2;
      first.follow_core();
      if (second.numa_of(0) != cpu) return 3;
      second.follow_core();
      if (!second.is_near(0)) return 4;
    }
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Node, ranks_bound_to_one_cpu_use_one) {
  test::Child child([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) return 1;
    if (Fixture f(1); f.nodes[0].usable_cpus() != 1) return 2;
    if (Fixture f(2); f.nodes[1].usable_cpus() != 1) return 3;
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Node, ranks_bound_to_different_cpus_use_them_all) {
  const CpuSet cpus = allowed_cpus();
  if (cpus.count() < 2) GTEST_SKIP() << "one CPU only";
  test::SharedMemory memory(Node::bytes_needed(2, kArea));
  ASSERT_TRUE(Node::initialise(memory.span(), 2, kArea, topology("node:1 core:2 pu:1")).ok());
  // Joins as `rank` on a CPU of its own. The ranks join one after the other, so the second rank
  // sees the CPUs of both.
  const auto join_on_nth_cpu = [&](std::uint32_t rank) {
    std::size_t cpu = 0;
    for (std::uint32_t seen = 0; !cpus[cpu] || seen++ < rank;) ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0) return 100;
    Result<Node> node = Node::join(memory.span(), rank, 2, rank);
    if (!node) return 101;
    node->settle();
    return static_cast<int>(node->usable_cpus());
  };
  EXPECT_EQ(test::Child([&] { return join_on_nth_cpu(0); }).wait(), 1);
  EXPECT_EQ(test::Child([&] { return join_on_nth_cpu(1); }).wait(), 2);
}

TEST(Node, a_cpu_belongs_to_a_rank_that_shares_it_with_nobody) {
  Fixture alone(1);
  EXPECT_EQ(alone.nodes[0].own_cpus(), allowed_cpus());
  Fixture pair(2);  // both ranks may use every CPU of this process
  EXPECT_TRUE(pair.nodes[0].own_cpus().none());
}

TEST(Visits, of_several_threads_do_not_hide_each_other) {
  auto record = std::make_unique<RankRecord>();
  {
    const ClaimIntent one(*record, 3);
    {
      const ClaimIntent other(*record, 5);
      EXPECT_TRUE(may_hold_chunk_of(*record, 5));
    }
    EXPECT_FALSE(may_hold_chunk_of(*record, 5));
    EXPECT_TRUE(may_hold_chunk_of(*record, 3));
  }
  EXPECT_FALSE(may_hold_chunk_of(*record, 3));
}

TEST(Visits, too_many_at_a_time_are_refused_and_leave_the_others) {
  auto record = std::make_unique<RankRecord>();
  std::list<ClaimIntent> intents;
  for (std::uint32_t i = 0; i < RankRecord::kClaimers; ++i) {
    intents.emplace_back(*record, i);
    EXPECT_TRUE(intents.back());
  }
  EXPECT_FALSE(ClaimIntent(*record, 99));
  intents.pop_front();
  EXPECT_TRUE(ClaimIntent(*record, 99));
  for (std::uint32_t i = 1; i < RankRecord::kClaimers; ++i)
    EXPECT_TRUE(may_hold_chunk_of(*record, i));
}

TEST(Alive, a_running_process_is_and_a_zombie_or_a_collected_one_is_not) {
  Fixture f(2);
  const Node& node = f.nodes[0];
  EXPECT_TRUE(node.is_alive(0));
  test::Child child([] {
    ::pause();
    return 0;
  });
  node.record(1).pid = child.pid();
  node.record(1).start_time = start_time_of(child.pid()).value_or(0);
  EXPECT_NE(node.record(1).start_time, 0U);
  EXPECT_TRUE(node.is_alive(1));
  child.kill(SIGSTOP);
  EXPECT_TRUE(node.is_alive(1)) << "stopped is slow, not dead";
  child.kill(SIGKILL);
  child.wait_for_zombie();
  EXPECT_FALSE(node.is_alive(1));
  child.wait();
  EXPECT_FALSE(node.is_alive(1));
}

TEST(Alive, a_new_process_with_an_old_pid_is_another_one) {
  Fixture f(1);
  f.nodes[0].record(0).start_time -= 1;
  EXPECT_FALSE(f.nodes[0].is_alive(0));
}

TEST(Alive, a_process_is_not_dead_because_this_process_has_no_descriptor_left) {
  test::Child child([] {
    Fixture f(2);
    const rlimit limit{3, 3};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 100;
    return !start_time_of(::getpid()) && f.nodes[0].is_alive(1) ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Alive, a_rank_of_another_pid_namespace_counts_as_alive) {
  Fixture f(2);
  EXPECT_TRUE(f.nodes[0].has_one_pid_namespace());
  f.nodes[0].record(1).pid_namespace += 1;
  f.nodes[0].record(1).pid = 0x3fffffff;  // no process has this number
  EXPECT_TRUE(f.nodes[0].is_alive(1));
  f.nodes[0].settle();
  EXPECT_FALSE(f.nodes[0].has_one_pid_namespace());
}

TEST(Alive, a_process_whose_start_is_not_known_is_its_number) {
  Fixture f(1);
  f.nodes[0].record(0).start_time = 0;
  EXPECT_TRUE(f.nodes[0].is_alive(0));
}

TEST(StartTime, is_the_same_at_every_look_and_0_for_nobody) {
  EXPECT_EQ(start_time_of(::getpid()), start_time_of(::getpid()));
  EXPECT_NE(start_time_of(::getpid()), 0U);
  EXPECT_EQ(start_time_of(-1), 0U);
}

TEST(StartTime, is_read_past_a_name_with_blanks_and_brackets) {
  test::Child child([] {
    const auto before = start_time_of(::getpid());
    ::prctl(PR_SET_NAME, "a ) Z 1 (b");
    return before == start_time_of(::getpid()) && before != 0U ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(WorkBoard, neighbouring_ranks_look_at_the_same_board) {
  Fixture f(kBoardRanks + 1);
  EXPECT_EQ(f.nodes[0].boards().size(), 2U);
  EXPECT_EQ(&f.nodes[0].board(), &f.nodes[kBoardRanks - 1].board());
  EXPECT_NE(&f.nodes[0].board(), &f.nodes[kBoardRanks].board());
}

TEST(WorkBoard, one_bit_a_rank) {
  Fixture f(1);
  WorkBoard& board = f.nodes[0].boards()[0];
  for (const std::uint32_t rank : {0U, 63U, 64U, kMaxRanks - 1}) {
    board.post(rank);
    EXPECT_TRUE(board.posted(rank));
    EXPECT_FALSE(board.posted((rank + 1) % kMaxRanks));
    board.clear(rank);
    EXPECT_FALSE(board.posted(rank));
  }
}

}  // namespace
}  // namespace mh::node
