// SPDX-License-Identifier: BSD-3-Clause
// The services of this process: node segment, send table, job slots, helpers, pipelines.
//
// lifecycle/bootstrap.cpp makes them at start-up and destroys them at MPI_Finalize. Each service's
// header says which threads may use it. A service in a std::optional exists only where it can be
// used.
#pragma once

#include <cstdint>
#include <optional>

#include "lend/lender.hpp"
#include "lend/pool.hpp"
#include "lend/workers.hpp"
#include "memory/reach.hpp"
#include "mpi/job/area.hpp"
#include "node/node.hpp"
#include "observe/counters.hpp"
#include "p2p/exchange_detector.hpp"
#include "p2p/pipeline_engine.hpp"
#include "p2p/posted_receives.hpp"
#include "p2p/send_table.hpp"
#include "steal/chunking.hpp"
#include "steal/slots.hpp"
#include "steal/thief.hpp"

namespace mh::mpi {

struct Services {
  std::optional<node::Node> node;
  std::optional<memory::Reach> memory;      // of the node's ranks
  std::optional<steal::SlotKeeper> keeper;  // opens jobs in this rank's job slots
  std::optional<steal::Chunking> chunking;
  p2p::SendTable send_table;
  p2p::PostedReceives posted_receives;
  p2p::ExchangeDetector exchange_detector;

  // The helpers of this rank, which work on lent cores; null where no cores are lent. Destroyed by
  // take_back_cores() (lifecycle/cores.cpp) or never: a program may call exit() from a helper's
  // thread, or in a forked child, which has no helpers.
  lend::Pool* helpers = nullptr;
  std::optional<lend::Lender> lender;                  // lends the core that this rank waits on
  std::optional<lend::Workers> workers;                // lend this rank's other cores
  std::optional<p2p::PipelineEngine> pipeline_engine;  // only while `config.pipelines`

  [[nodiscard]] RankArea& area(std::uint32_t rank) const {
    return *reinterpret_cast<RankArea*>(node->area(rank));
  }
  [[nodiscard]] RankArea& own_area() const { return area(node->me()); }
  [[nodiscard]] observe::RankCounters& counters() const { return own_area().counters; }
};

[[gnu::visibility("hidden")]] extern Services services;

// Returns a view of the memory at `address` in the process of a rank of this node.
inline memory::View view_of(std::uint64_t address, std::uint32_t rank) {
  return {.address = address, .pid = services.node->record(rank).pid, .rank = rank};
}
inline memory::View view_of(const void* address, std::uint32_t rank) {
  return view_of(reinterpret_cast<std::uint64_t>(address), rank);
}

// Returns the calling thread's Thief, by which it helps other ranks. The first call makes the
// object. May be called only while switches.active is true.
steal::Thief& thief();

// Makes the MPI library progress, for a wait that otherwise only reads memory and would not call
// the library.
void kick_progress();

}  // namespace mh::mpi
