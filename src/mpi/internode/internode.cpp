// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/internode/internode.hpp"

#include <cstdint>

#include "base/settings.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/internode/pieces.hpp"
#include "mpi/internode/receive.hpp"
#include "mpi/internode/send.hpp"
#include "mpi/job/agreement.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::internode {

void progress() {
  progress_sends();
  progress_receives();
}

namespace {

// Open MPI packs as fast itself, straight into what it sends (docs/decisions.md).
#if defined(MH_ABI_OPENMPI)
constexpr bool kGains = false;
#else
constexpr bool kGains = true;
#endif

// Nodes that are not real are there to be tested, under any library.
bool wanted() { return config.helps_messages && (kGains || settings().fake_nodes > 1); }

// Takes a piece that nobody will receive out of the library.
void throw_away() {
  int flag = 0;
  MPI_Message message{};
  MPI_Status status{};
  real.Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, config.internode_comm, &flag, &message, &status);
  if (flag == 0) return;
  std::byte* buffer = piece_buffers.take();
  if (buffer == nullptr) return;
  MPI_Request request = MPI_REQUEST_NULL;
  real.Imrecv(buffer, static_cast<int>(kPiece), MPI_BYTE, &message, &request);
  wait_request(&request, MPI_STATUS_IGNORE);
  piece_buffers.give(buffer);
}

}  // namespace

void start() {
  int size = 0;
  real.Comm_size(MPI_COMM_WORLD, &size);
  if (static_cast<std::uint32_t>(size) == config.ranks)
    return;  // so it is for every rank, or for none
  if (!agreement::all(wanted(), MPI_COMM_WORLD)) return;
  if (real.Comm_dup(MPI_COMM_WORLD, &detail::config.internode_comm) != MPI_SUCCESS) return;
  agreement::broadcast(detail::config.key, 0, MPI_COMM_WORLD);
  pack_pipelines.emplace(*services.node, services.counters(), services.helpers);
  detail::config.internode = detail::config.rendezvous = true;
}

void stop(bool (*is_receiving)()) {
  if (!config.internode) return;
  rest_together(MPI_COMM_WORLD, [is_receiving] {
    progress();
    if (!is_receiving() && !any_receives()) throw_away();
    return !any_sends() && !any_receives();
  });
  detail::config.internode = false;
  pack_pipelines.reset();
  real.Comm_free(&detail::config.internode_comm);
}

}  // namespace mh::mpi::internode
