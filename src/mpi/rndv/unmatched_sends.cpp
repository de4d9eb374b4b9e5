// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/unmatched_sends.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/rndv/buffered_sends.hpp"
#include "mpi/rndv/held_messages.hpp"

namespace mh::mpi::rndv {
namespace {

// Sends whose headers the library has given away already.
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

// The last header that came from a sender, by a hash of its envelope.
struct SeenHeader {
  std::uint64_t communicator = 0;
  int tag = 0;
  std::uint64_t sequence = 0;
};
using SeenHeaders = std::array<SeenHeader, 64>;
std::mutex g_seen_mutex;
std::unordered_map<std::uint32_t, SeenHeaders> g_seen;  // by sender; guarded by it

bool later_header_has_come(const PostedSend& send) {
  const ThreadLock hold(g_seen_mutex);
  const SeenHeader& seen = g_seen[send.sender][bucket_of(send.says.communicator, send.says.tag)];
  return send.says.ordered != 0 && seen.communicator == send.says.communicator &&
         seen.tag == send.says.tag && send.says.sequence < seen.sequence;
}

std::vector<PostedSend> posted_with(std::uint32_t sender, std::uint64_t communicator, int tag) {
  auto found = posted_sends(sender);
  std::erase_if(found, [&](const PostedSend& send) {
    return send.says.tag != tag || send.says.communicator != communicator;
  });
  return found;
}

// Each look drives the library, which has the header by then.
bool stays_away(const PostedSend& send) {
  constexpr int kLooks = 100;
  for (int look = 0; look < kLooks; ++look) {
    if (may_be_unexpected(send)) return false;
  }
  return true;
}

}  // namespace

std::optional<PostedSend> oldest_unmatched(std::uint32_t sender, std::uint64_t communicator,
                                           int tag) {
  auto found = posted_with(sender, communicator, tag);
  if (found.empty()) return std::nullopt;
  const auto matched = matched_sends();
  std::erase_if(found, [&](const PostedSend& send) {
    return std::ranges::find(matched, send) != matched.end();
  });
  const auto oldest = std::ranges::min_element(
      found, {}, [](const PostedSend& send) { return send.says.sequence; });
  return oldest == found.end() ? std::nullopt : std::optional(*oldest);
}

void note_header_seen(const PostedSend& send) {
  const ThreadLock hold(g_seen_mutex);
  SeenHeader& seen = g_seen[send.sender][bucket_of(send.says.communicator, send.says.tag)];
  seen = {
      .communicator = send.says.communicator, .tag = send.says.tag, .sequence = send.says.sequence};
}

bool is_header_lost(const PostedSend& send) {
  if (switches.threads) return false;
  if (later_header_has_come(send)) return true;
  const std::uint64_t end = send.says.posted_at + ticks_from_ns(tuning::kSettleNs);
  p2p::SendSlot& slot = send.table_slot();
  bool is_lost = false;
  wait::until([&] {
    // acquire: pairs with the release in send_rts(), before the last looks.
    const bool is_sent = slot.rts_sent.load(std::memory_order_acquire) != 0 && ticks() > end;
    if (!stays_away(send) || slot.state() != p2p::SlotState::posted) return true;
    const auto oldest = oldest_unmatched(send.sender, send.says.communicator, send.says.tag);
    if (!oldest || !(*oldest == send)) return true;  // its header lies in another buffer
    is_lost = is_sent;
    return is_lost;
  });
  return is_lost;
}

ProbeFinding identify(MPI_Comm handle, const MPI_Status& status) {
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
  const auto sender = static_cast<std::uint32_t>(there);
  const int tag = status.MPI_TAG;
  if (may_be_buffered(sender, comm->key, tag)) return {.kind = Kind::unclear};
  const auto sends = posted_with(sender, comm->key, tag);
  const bool may_be_ordinary = may_send_rts_sized(sender, comm->key, tag);
  const auto has_first_size = [&](const PostedSend& send) {
    return send.says.bytes == sends.front().says.bytes;
  };
  if (!sends.empty() && !may_be_ordinary && std::ranges::all_of(sends, has_first_size))
    return {.kind = Kind::rendezvous, .bytes = sends.front().says.bytes};
  // Another thread may receive the message just now, and its send may be over.
  if (switches.threads) return {.kind = Kind::unclear};
  const auto oldest = oldest_unmatched(sender, comm->key, tag);
  if (!oldest) return {};
  // Threads of the sender may send in another order than they post.
  if (oldest->says.ordered == 0 || may_be_ordinary) return {.kind = Kind::unclear};
  return {.kind = Kind::rendezvous, .bytes = oldest->says.bytes};
}

}  // namespace mh::mpi::rndv
