// SPDX-License-Identifier: BSD-3-Clause
// What works for this process: its node segment, send queue, job slots, helpers, pipelines.
//
// Made by lifecycle/bootstrap.cpp at start-up and taken down at MPI_Finalize; each service says
// itself which threads may use it. What is optional is there only where it can be used.
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
#include "p2p/exchanges.hpp"
#include "p2p/pipeline_engine.hpp"
#include "p2p/posted_receives.hpp"
#include "p2p/send_queue.hpp"
#include "steal/chunking.hpp"
#include "steal/slots.hpp"
#include "steal/thief.hpp"

namespace mh::mpi {

struct Services {
  std::optional<node::Node> node;
  std::optional<memory::Reach> memory;  // of the node's ranks
  std::optional<steal::SlotKeeper> keeper;
  std::optional<steal::Chunking> chunking;
  p2p::SendQueue send_queue;
  p2p::PostedReceives posted_receives;
  p2p::Exchanges exchanges;

  // Only where cores are lent. The pool goes with stop() or not at all: a program may call exit()
  // from a helper's thread, or in a child that has no helpers.
  lend::Pool* helpers = nullptr;
  std::optional<lend::Lender> lender;                  // the core this rank waits on
  std::optional<lend::Workers> workers;                // its further ones
  std::optional<p2p::PipelineEngine> pipeline_engine;  // only while `config.pipelining`

  [[nodiscard]] RankArea& area(std::uint32_t rank) const {
    return *reinterpret_cast<RankArea*>(node->area(rank));
  }
  [[nodiscard]] RankArea& own_area() const { return area(node->me()); }
  [[nodiscard]] observe::Counters& counters() const { return own_area().counters; }
};

[[gnu::visibility("hidden")]] extern Services services;

// This thread's hands (scratch memory, victim state), made at the first use. Only while active.
steal::Thief& thief();

// Drives the MPI library's own progress from a wait that looks at memory only.
void kick_progress();

}  // namespace mh::mpi
