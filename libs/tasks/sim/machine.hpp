// SPDX-License-Identifier: BSD-3-Clause
// The simulator's model of a machine: nodes of cores, and the costs of a message.
//
// A message takes `overhead` of its sender, then the latency and its bytes over the bandwidth, then
// `overhead` of the receiving node's server. The server handles one message after the other. As in
// the paper, the server is one core of each node, which runs no tasks. Without servers, a rank
// answers between its tasks. Messages within a node have a latency and need no server.
#pragma once

#include <cstdint>
#include <string_view>

namespace mh::tasks::sim {

struct MachineModel {
  std::string_view name = "hopper";
  std::uint32_t cores_per_node = 24;
  std::uint32_t cores_per_numa = 6;
  bool server = true;
  std::uint64_t latency_ns = 1'500;
  std::uint64_t local_latency_ns = 500;
  std::uint64_t overhead_ns = 700;
  double bytes_per_ns = 5;
  std::uint64_t take_ns = 100;  // to take a task from the own deque
  std::uint64_t step_ns = 30;   // a step of a balancer's heap
  std::uint32_t task_bytes = 64;

  [[nodiscard]] std::uint32_t workers_per_node() const {
    return server ? cores_per_node - 1 : cores_per_node;
  }
  // The number of ranks that run tasks on so many cores.
  [[nodiscard]] std::uint32_t workers(std::uint32_t cores) const {
    const std::uint32_t nodes = cores / cores_per_node;
    const std::uint32_t left = cores % cores_per_node;
    return nodes * workers_per_node() + (server && left > 1 ? left - 1 : left);
  }
  [[nodiscard]] std::uint64_t transfer_ns(std::uint64_t bytes) const {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) / bytes_per_ns);
  }
};

// The paper's three machines. Latencies and bandwidths are the published ones of their networks
// (Gemini; Blue Gene/P's torus), rounded. The overheads are those of a threaded MPI there.
inline constexpr MachineModel kMachines[] = {
    {.name = "hopper"},
    {.name = "titan", .cores_per_node = 16, .cores_per_numa = 8},
    {.name = "intrepid",
     .cores_per_node = 4,
     .cores_per_numa = 4,
     .latency_ns = 3'500,
     .local_latency_ns = 1'000,
     .overhead_ns = 2'000,
     .bytes_per_ns = 0.4,
     .take_ns = 400,
     .step_ns = 120},
};

}  // namespace mh::tasks::sim
