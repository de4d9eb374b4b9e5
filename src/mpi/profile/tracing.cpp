// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/profile/tracing.hpp"

#include <unistd.h>

#include <cstring>

#include "base/clock.hpp"
#include "base/say.hpp"
#include "base/settings.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::tracing {
namespace {

observe::TraceIdentity identity() {
  int ranks = 1;
  real.Comm_size(MPI_COMM_WORLD, &ranks);
  const auto world_rank = static_cast<std::uint32_t>(config.world_rank);
  return {.world_rank = world_rank,
          .world_ranks = static_cast<std::uint32_t>(ranks),
          .node = services.node ? services.node->record(0).world_rank : world_rank,
          .pid = static_cast<std::uint32_t>(::getpid())};
}

bool g_has_file = false;  // written in MPI_Init

}  // namespace

Collectives collectives_so_far() {
  if (!services.node) return {};
  const observe::RankCounters& counters = services.counters();
  return {.by_ranks = counters.collectives_direct.get(),
          .by_library = counters.collectives_with_arrival_barrier.get()};
}

observe::CollectiveWay way_since(const Collectives& before) {
  using observe::CollectiveWay;
  const Collectives now = collectives_so_far();
  // The count by_ranks is tested first: a collective that the ranks carry out themselves may also
  // wait at an arrival barrier, and so change by_ranks and by_library.
  if (now.by_ranks != before.by_ranks) return CollectiveWay::by_ranks;
  return now.by_library != before.by_library ? CollectiveWay::by_library : CollectiveWay::none;
}

observe::TraceEvent event_of(std::size_t call, std::uint64_t bytes, std::uint32_t late,
                             const CallTimes& times) {
  const std::uint64_t length = times.end - times.begin;
  observe::TraceEvent event{.begin = times.begin,
                            .extent = length,
                            .transfer = times.transfer,
                            .waiting = length - times.transfer,
                            .bytes = bytes,
                            .call = static_cast<std::uint16_t>(call),
                            .kind = observe::EventKind::call};
  if (event.waiting != 0 && services.node) event.peer = services.node->record(late).world_rank;
  return event;
}

void start() {
  const std::string& folder = settings().trace;
  if (folder.empty()) return;
  auto writer = observe::TraceWriter::create(folder, identity(), kNextNames);
  if (!writer) {
    if (!services.node || config.me == 0) {
      print_message("cannot write MH_TRACE={}: {}", folder,
                    std::strerror(writer.status().sys_errno));
    }
    return;
  }
  g_has_file = true;
  // The writer is never freed: threads of the program may add events until the process ends.
  observe::publish_trace(writer->release());
}

bool has_file() { return g_has_file; }

void stop() {
  observe::TraceWriter* writer = observe::trace();
  observe::publish_trace(nullptr);
  if (writer != nullptr) writer->end(ticks());
}

}  // namespace mh::mpi::tracing
