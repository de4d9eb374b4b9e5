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

// True if internode pipelines are faster than the MPI library. Open MPI packs as fast as the
// pipelines, straight into its send buffers (docs/decisions/internode).
#if defined(MH_ABI_OPENMPI)
constexpr bool kGains = false;
#else
constexpr bool kGains = true;
#endif

// True if internode pipelines are of use on this rank. They are used only if this is true on all
// ranks. With MH_FAKE_NODES, tests use the pipelines under any MPI library.
bool is_wanted() { return config.helps_messages && (kGains || settings().fake_nodes > 1); }

// Receives and discards one piece, if one has come, of a message that no receive of the program has
// matched. The sender can then complete its send before MPI_Finalize.
void discard_piece() {
  int flag = 0;
  MPI_Message message{};
  MPI_Status status{};
  real.Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, config.internode_comm, &flag, &message, &status);
  if (flag == 0) return;
  std::byte* buffer = piece_buffers.acquire();
  if (buffer == nullptr) return;
  MPI_Request request = MPI_REQUEST_NULL;
  real.Imrecv(buffer, static_cast<int>(kPiece), MPI_BYTE, &message, &request);
  wait_request(&request, MPI_STATUS_IGNORE);
  piece_buffers.release(buffer);
}

}  // namespace

void start() {
  int size = 0;
  real.Comm_size(MPI_COMM_WORLD, &size);
  if (static_cast<std::uint32_t>(size) == config.ranks) return;  // all ranks are on this node
  if (!agreement::all(is_wanted(), MPI_COMM_WORLD)) return;
  if (real.Comm_dup(MPI_COMM_WORLD, &detail::config.internode_comm) != MPI_SUCCESS) return;
  agreement::broadcast(detail::config.key, 0, MPI_COMM_WORLD);
  pack_pipelines.emplace(*services.node, services.counters(), services.helpers);
  detail::config.internode = detail::config.rendezvous = true;
}

void stop(bool (*is_receiving)()) {
  if (!config.internode) return;
  rest_together(MPI_COMM_WORLD, [is_receiving] {
    progress();
    if (!is_receiving() && !any_receives()) discard_piece();
    return !any_sends() && !any_receives();
  });
  detail::config.internode = false;
  pack_pipelines.reset();
  real.Comm_free(&detail::config.internode_comm);
}

}  // namespace mh::mpi::internode
