// SPDX-License-Identifier: BSD-3-Clause
// The simulator's model of a machine: nodes of cores, and the costs of a message. Every core has a
// rank that runs tasks. The protocol is the library's; these numbers are the times that it takes.
//
// A message takes `overhead` of its sender, then its bytes over the bandwidth and the latency, then
// `overhead` of its receiver. A rank does one thing after the other. A rank answers steal requests
// between its tasks or when it is idle. With `server` (Config::server) a thread of the rank answers
// at its next poll, on the same core, and the rank's task takes that much longer.
//
// Not modelled: contention in the network and in memory, the wait for a core that others use, and
// the time of an idle rank's polling round (below a microsecond).
#pragma once

#include <cstdint>
#include <string_view>

namespace mh::tasks::sim {

struct MachineModel {
  std::string_view name = "hopper";
  std::uint32_t cores_per_node = 24;
  std::uint32_t cores_per_numa = 6;
  bool server = false;
  std::uint64_t latency_ns = 1'500;
  std::uint64_t local_latency_ns = 500;  // of a message within the node
  std::uint64_t overhead_ns = 700;
  double bytes_per_ns = 5;
  double local_bytes_per_ns = 5;         // of a copy from a neighbour's deque
  std::uint64_t take_ns = 100;           // to take a task from the own deque, and to record it
  std::uint64_t look_ns = 100;           // to look into another deque of the node
  std::uint64_t step_ns = 30;            // a step of a balancer's heap
  std::uint64_t poll_every_ns = 75'000;  // of a server: its sleep of 20 us and the timer's slack
  std::uint64_t poll_ns = 2'000;         // of a server's core for each poll
  std::uint32_t task_bytes = 64;
  double flops = 8.4e9;  // operations a second of a core, at most
  double slow_node = 1;  // the tasks on the first node take that many times as long

  [[nodiscard]] std::uint64_t transfer_ns(std::uint64_t bytes) const {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) / bytes_per_ns);
  }
};

// The three machines of the HPDC 2012 paper: cores of a node from its section 7. Latencies and
// bandwidths are those that the makers published for the networks, rounded: Gemini 1.5 us, Blue
// Gene/P's torus 3.5 us. A core does four operations a cycle. Overheads are those of a threaded MPI
// on such machines. The times of deques and priority queues are this library's on a core of
// 2021 (docs/tasks.md, costs), times 3 for Hopper and Titan and times 12 for Intrepid's 850 MHz.
inline constexpr MachineModel kMachines[] = {
    {.name = "hopper"},
    {.name = "titan", .cores_per_node = 16, .cores_per_numa = 8, .flops = 8.8e9},
    {.name = "intrepid",
     .cores_per_node = 4,
     .cores_per_numa = 4,
     .latency_ns = 3'500,
     .local_latency_ns = 1'000,
     .overhead_ns = 2'000,
     .bytes_per_ns = 0.4,
     .local_bytes_per_ns = 1,
     .take_ns = 400,
     .look_ns = 400,
     .step_ns = 120,
     .poll_ns = 8'000,
     .flops = 3.4e9},
};

}  // namespace mh::tasks::sim
