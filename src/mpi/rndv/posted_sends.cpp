// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/posted_sends.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "layout/pack.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/rndv/copy.hpp"
#include "mpi/rndv/held_messages.hpp"

namespace mh::mpi::rndv {
namespace {

// The header as it lies in a buffer with gaps. False where there is no memory to read it.
bool gather_rts(const ReceiveBuffer& buffer, p2p::RtsHeader& header) {
  if (const layout::LayoutPtr layout = layouts::of(buffer.type)) {
    layout::pack_range(end_of(buffer, layout), {0, p2p::kRtsBytes}, &header);
    return true;
  }
  const std::uint64_t element = datatypes::info(buffer.type).size;
  const std::uint64_t elements = (p2p::kRtsBytes + element - 1) / element;
  const std::unique_ptr<std::byte[]> packed(new (std::nothrow) std::byte[elements * element]);
  if (packed == nullptr) return false;
  send_to_self(buffer.address, static_cast<MPI_Count>(elements), buffer.type, packed.get(),
               static_cast<MPI_Count>(elements * element), MPI_BYTE);
  std::memcpy(&header, packed.get(), p2p::kRtsBytes);
  return true;
}

void add_posted(std::uint32_t sender, std::vector<PostedSend>& found) {
  for (std::uint32_t slot = 0; slot < p2p::SharedSendTable::kSlots; ++slot) {
    const auto says = services.area(sender).send_table.slots[slot].posted();
    if (says && says->to == config.me)
      found.push_back({.sender = sender, .slot = slot, .says = *says});
  }
}

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

constexpr std::size_t bucket_of(std::uint64_t communicator, int tag) {
  const std::uint64_t mixed =
      (communicator ^ static_cast<std::uint32_t>(tag)) * 0x9e3779b97f4a7c15ULL;
  return mixed >> 58U;
}
constexpr std::uint64_t bit_of(std::uint64_t communicator, int tag) {
  return 1ULL << bucket_of(communicator, tag);
}

}  // namespace

p2p::SendSlot& slot_of(const p2p::RtsHeader& header) {
  return services.area(header.sender).send_table.slots[header.slot];
}

PostedSend send_of(const p2p::RtsHeader& header) {
  return {.sender = header.sender,
          .slot = header.slot,
          .says = {.generation = header.generation, .bytes = header.bytes, .to = config.me}};
}

std::optional<p2p::RtsHeader> read_rts(const ReceiveBuffer& buffer) {
  if (!buffer) return std::nullopt;
  p2p::RtsHeader header;
  if (buffer.contiguous) {
    if (!p2p::opens_rts(buffer.address, config.key)) return std::nullopt;
    std::memcpy(&header, buffer.address, p2p::kRtsBytes);
  } else if (!gather_rts(buffer, header)) {
    return std::nullopt;
  }
  const bool is_whole = p2p::opens_rts(&header, config.key) && p2p::is_sealed(header);
  return is_whole ? std::optional(header) : std::nullopt;
}

std::vector<PostedSend> posted_sends(std::uint32_t sender) {
  std::vector<PostedSend> found;
  add_posted(sender, found);
  return found;
}

std::vector<PostedSend> posted_sends() {
  std::vector<PostedSend> found;
  for (std::uint32_t sender = 0; sender < config.ranks; ++sender) {
    if (sender != config.me) add_posted(sender, found);
  }
  return found;
}

std::optional<PostedSend> oldest_unmatched(std::uint32_t sender, std::uint64_t communicator,
                                           int tag) {
  auto found = posted_sends(sender);
  std::erase_if(found, [&](const PostedSend& send) {
    return send.says.tag != tag || send.says.communicator != communicator;
  });
  if (found.empty()) return std::nullopt;
  const auto matched = matched_sends();
  std::erase_if(found, [&](const PostedSend& send) {
    return std::ranges::find(matched, send) != matched.end();
  });
  const auto oldest = std::ranges::min_element(
      found, {}, [](const PostedSend& send) { return send.says.sequence; });
  return oldest == found.end() ? std::nullopt : std::optional(*oldest);
}

bool any_held_by_sender(std::uint32_t sender, std::uint64_t communicator, int tag) {
  for (const p2p::SendSlot& slot : services.area(sender).send_table.slots) {
    if (slot.state() != p2p::SlotState::taken) continue;
    const auto says = slot.says(slot.generation());
    if (says && says->to == config.me && says->communicator == communicator && says->tag == tag)
      return true;
  }
  return false;
}

// The library has a message with that envelope which no receive has matched.
bool may_be_unexpected(const PostedSend& send) {
  const Comm* comm = comms::find_key(send.says.communicator);
  if (comm == nullptr) return true;
  const auto from = std::ranges::find(comm->members, send.sender, &Comm::Member::node_rank);
  if (from == comm->members.end()) return true;
  int flag = 0;
  const int code = real.Iprobe(from->rank, send.says.tag, comm->handle, &flag, MPI_STATUS_IGNORE);
  return code != MPI_SUCCESS || flag != 0;
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

void note_header_seen(const PostedSend& send) {
  const ThreadLock hold(g_seen_mutex);
  SeenHeader& seen = g_seen[send.sender][bucket_of(send.says.communicator, send.says.tag)];
  seen = {.communicator = send.says.communicator,
          .tag = send.says.tag,
          .sequence = send.says.sequence};
}

bool later_header_has_come(const PostedSend& send) {
  const ThreadLock hold(g_seen_mutex);
  const SeenHeader& seen = g_seen[send.sender][bucket_of(send.says.communicator, send.says.tag)];
  return send.says.ordered != 0 && seen.communicator == send.says.communicator &&
         seen.tag == send.says.tag && send.says.sequence < seen.sequence;
}

// Each look drives the library, which has the header by then.
bool stays_away(const PostedSend& send) {
  constexpr int kLooks = 100;
  for (int look = 0; look < kLooks; ++look) {
    if (may_be_unexpected(send)) return false;
  }
  return true;
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

void note_rts_sized_send(int dest, int tag, MPI_Comm handle) {
  if (!config.rendezvous) return;
  const Comm* comm = comms::find(handle);
  const std::int32_t receiver = comm == nullptr ? Comm::kElsewhere : comm->on_node(dest);
  if (receiver < 0) return;
  std::atomic<std::uint64_t>& noted = services.own_area().rts_sized_sends[receiver];
  // relaxed: the message itself carries the order to the receiver.
  if (const std::uint64_t bit = bit_of(comm->key, tag);
      (noted.load(std::memory_order_relaxed) & bit) == 0) {
    noted.fetch_or(bit, std::memory_order_relaxed);
  }
}

bool may_send_rts_sized(std::uint32_t sender, std::uint64_t communicator, int tag) {
  const std::atomic<std::uint64_t>& noted = services.area(sender).rts_sized_sends[config.me];
  return (noted.load(std::memory_order_relaxed) & bit_of(communicator, tag)) != 0;
}

bool has_rts_size(const MPI_Status& status) {
  int bytes = 0;
  return real.Get_count(&status, MPI_BYTE, &bytes) == MPI_SUCCESS &&
         bytes == static_cast<int>(p2p::kRtsBytes);
}

}  // namespace mh::mpi::rndv
