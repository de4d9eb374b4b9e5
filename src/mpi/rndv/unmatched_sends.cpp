// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/unmatched_sends.hpp"

#include <algorithm>
#include <vector>

#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/rndv/buffered_sends.hpp"
#include "mpi/rndv/held_messages.hpp"

namespace mh::mpi::rndv {
namespace {

// The posted sends whose RTS headers a receive or a probe has got from the MPI library. The headers
// lie in the buffers of started receives, or this process holds them (held_messages.hpp).
std::vector<PostedSend> matched_sends() {
  std::vector<PostedSend> found = held_sends();
  receives.select(true, [&](const ReceiveRequest& request) {
    if (request.orphaned) return false;
    const auto header = read_rts(request.buffer);
    if (header && header->from_world == 0) found.push_back(send_of(*header));
    return false;
  });
  return found;
}

}  // namespace

std::optional<PostedSend> oldest_unmatched(const SendEnvelope& envelope) {
  auto found = posted_sends(envelope);
  if (found.empty()) return std::nullopt;
  const auto matched = matched_sends();
  std::erase_if(found, [&](const PostedSend& send) {
    return std::ranges::find(matched, send) != matched.end();
  });
  const auto oldest = std::ranges::min_element(
      found, {}, [](const PostedSend& send) { return send.fields.sequence; });
  return oldest == found.end() ? std::nullopt : std::optional(*oldest);
}

ProbeFinding identify_probed(MPI_Comm handle, const MPI_Status& status) {
  using Kind = ProbeFinding::Kind;
  if (!config.rendezvous || !has_rts_size(status)) return {};
  const Comm* comm = comms::find(handle);
  if (comm == nullptr) return {};
  const std::int32_t there = comm->on_node(status.MPI_SOURCE);
  if (there < 0) {
    const bool is_unclear = config.internode && comm->is_elsewhere(status.MPI_SOURCE);
    return {.kind = is_unclear ? Kind::unclear : Kind::as_reported};
  }
  if (there == static_cast<std::int32_t>(config.me)) return {};
  const SendEnvelope envelope{.sender = static_cast<std::uint32_t>(there),
                              .communicator = comm->key,
                              .tag = status.MPI_TAG};
  // If a message with this envelope is buffered (buffered_sends.hpp), the MPI library may still
  // have its RTS header, and the probe may have found that header.
  if (oldest_buffered(envelope)) return {.kind = Kind::unclear};
  const auto sends = posted_sends(envelope);
  const bool may_be_ordinary = may_send_rts_sized(envelope);
  const auto has_first_size = [&](const PostedSend& send) {
    return send.fields.bytes == sends.front().fields.bytes;
  };
  if (!sends.empty() && !may_be_ordinary && std::ranges::all_of(sends, has_first_size))
    return {.kind = Kind::rendezvous, .bytes = sends.front().fields.bytes};
  // Another thread may be receiving the probed message at this moment, so its send may be over.
  if (switches.threads) return {.kind = Kind::unclear};
  const auto oldest = oldest_unmatched(envelope);
  if (!oldest) return {};
  // Threads of the sender may send their RTS headers in another order than they post the sends, so
  // the header that the probe has found need not be that of the oldest posted send.
  if (oldest->fields.ordered == 0 || may_be_ordinary) return {.kind = Kind::unclear};
  return {.kind = Kind::rendezvous, .bytes = oldest->fields.bytes};
}

}  // namespace mh::mpi::rndv
