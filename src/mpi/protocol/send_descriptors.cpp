// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/send_descriptors.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/protocol/pending_requests.hpp"
#include "mpi/protocol/receiver.hpp"
#include "mpi/protocol/transfer.hpp"

namespace mh::mpi::send_descriptors {

std::atomic<std::uint32_t> kept_count{0};

namespace {

std::mutex g_mutex;  // guards what follows
// Send descriptors whose descriptors a probe has taken out of the library; some may be received by
// now.
std::vector<SendDescriptor> g_taken_out;
std::vector<Kept> g_kept;  // the oldest first

void count_kept() {
  kept_count.store(static_cast<std::uint32_t>(g_kept.size()), std::memory_order_relaxed);
}

bool contains(const std::vector<SendDescriptor>& sends, const SendDescriptor& send) {
  return std::find(sends.begin(), sends.end(), send) != sends.end();
}

p2p::SendSlot& slot_of(const SendDescriptor& send) {
  return services.area(send.sender).send_queue.slots[send.slot];
}

// Send descriptors to this rank, still posted, that the library has matched already: to a receive
// that the program has not completed yet (their descriptors lie in its buffers) or to a probe that
// took them out.
std::vector<SendDescriptor> matched() {
  std::vector<SendDescriptor> found;
  pending_requests.select([&](MPI_Request, const PendingReceive& entry) {
    if (!entry.receipt.target) return false;
    if (const auto descriptor = descriptor_in(entry.receipt.target))
      found.push_back(of(*descriptor));
    return false;
  });
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_taken_out, [](const SendDescriptor& send) {
    if (slot_of(send).state_of(send.says.generation) == p2p::SlotState::posted) return false;
    return std::none_of(g_kept.begin(), g_kept.end(),
                        [&](const Kept& kept) { return kept.send == send; });
  });
  found.insert(found.end(), g_taken_out.begin(), g_taken_out.end());
  return found;
}

}  // namespace

SendDescriptor of(const p2p::Descriptor& descriptor) {
  return {.sender = descriptor.sender,
          .slot = descriptor.slot,
          .says = {.generation = descriptor.generation,
                   .bytes = descriptor.bytes,
                   .communicator = 0,
                   .sequence = 0,
                   .tag = 0,
                   .to = config.me,
                   .ordered = 0}};
}

void note_taken_out(const SendDescriptor& send) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_taken_out.push_back(send);
}

std::vector<SendDescriptor> unmatched(std::uint32_t sender,
                                      const std::function<bool(const p2p::Posted&)>& wanted) {
  const auto gone = matched();
  std::vector<SendDescriptor> found;
  for (std::uint32_t slot = 0; slot < p2p::SharedSendQueue::kSlots; ++slot) {
    const auto says = services.area(sender).send_queue.slots[slot].posted();
    if (!says || says->to != config.me || !wanted(*says)) continue;
    const SendDescriptor send{.sender = sender, .slot = slot, .says = *says};
    if (!contains(gone, send)) found.push_back(send);
  }
  std::sort(found.begin(), found.end(), [](const SendDescriptor& a, const SendDescriptor& b) {
    return a.says.sequence < b.says.sequence;
  });
  return found;
}

std::optional<SendDescriptor> oldest(std::uint32_t sender, std::uint64_t communicator, int tag) {
  const auto found = unmatched(sender, [&](const p2p::Posted& says) {
    return says.tag == tag && says.communicator == communicator;
  });
  if (found.empty()) return std::nullopt;
  return found.front();
}

void release_unread(const SendDescriptor& send) {
  p2p::SendSlot& slot = slot_of(send);
  if (slot.take(send.says.generation)) release_sender(slot, send.sender);
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_kept, [&](const Kept& kept) { return kept.send == send; });
  count_kept();
}

// ---- Doubtful send descriptors -----------------------------------------------------------------

namespace {

void add(Kept kept) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::uint64_t bytes = 0;
  for (const Kept& one : g_kept) bytes += one.send.says.bytes;
  while (!g_kept.empty() && bytes > kMostKept) {
    bytes -= g_kept.front().send.says.bytes;
    g_kept.erase(g_kept.begin());
  }
  g_kept.push_back(std::move(kept));
  count_kept();
}

// Brings the message here. It is kept before its sender may post another in the slot, so that who
// finds the send descriptor over finds the message.
void keep(const SendDescriptor& send) {
  p2p::SendSlot& slot = slot_of(send);
  if (!slot.take(send.says.generation)) return;
  const std::uint64_t bytes = send.says.bytes;
  Kept kept{.send = send,
            .data = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes])};
  if (kept.data) {
    const p2p::Descriptor descriptor{.key = {},
                                     .sender = send.sender,
                                     .slot = send.slot,
                                     .bytes = bytes,
                                     .generation = send.says.generation,
                                     .from_world = 0,
                                     .to_world = 0,
                                     .piece = 0,
                                     .seal = {}};
    bring(descriptor, slot, end_at(kept.data.get()), bytes, config.order);
    add(std::move(kept));
  }
  release_sender(slot, send.sender);
}

// Whether a receive on that communicator, null if not known, may have met this send descriptor of
// `sender`.
bool may_be_cut(const p2p::Posted& says, std::uint32_t sender, const Comm* comm,
                const MPI_Status& status) {
  if (says.tag != status.MPI_TAG) return false;
  if (comm != nullptr && says.communicator != comm->key) return false;
  const Comm* sent_on = comm != nullptr ? comm : comms::find_key(says.communicator);
  return sent_on == nullptr ||
         sent_on->on_node(status.MPI_SOURCE) == static_cast<std::int32_t>(sender);
}

}  // namespace

void truncated(const Comm* comm, const MPI_Status& status) {
  if (!(config.reaching || config.pipelining || config.mapping)) return;
  for (std::uint32_t sender = 0; sender < config.ranks; ++sender) {
    if (sender == config.me) continue;
    const auto doubtful = unmatched(
        sender, [&](const p2p::Posted& says) { return may_be_cut(says, sender, comm, status); });
    // Of one communicator the library matches the oldest first.
    std::vector<std::uint64_t> seen;
    for (const SendDescriptor& send : doubtful) {
      const bool first = std::find(seen.begin(), seen.end(), send.says.communicator) == seen.end();
      const bool ordered = send.says.ordered != 0 && !switches.threads;
      if (first || !ordered) keep(send);
      seen.push_back(send.says.communicator);
    }
  }
}

// ---- Lost descriptors --------------------------------------------------------------------------

namespace {

// Posted, and not matched with anything known, when this rank looked last.
struct Suspect {
  SendDescriptor send;
  std::uint64_t since;  // ticks
};
std::vector<Suspect> g_suspects;  // of the thread that has the wait loop's helper lock

// Whether a receive could still be matched with it, as far as the library tells.
bool is_unexpected(const SendDescriptor& send) {
  const Comm* comm = comms::find_key(send.says.communicator);
  if (comm == nullptr) return true;
  const auto from =
      std::find_if(comm->members.begin(), comm->members.end(),
                   [&](const Comm::Member& member) { return member.node_rank == send.sender; });
  if (from == comm->members.end()) return true;
  int flag = 0;
  const int code = real.Iprobe(from->rank, send.says.tag, comm->handle, &flag, MPI_STATUS_IGNORE);
  return code != MPI_SUCCESS || flag != 0;
}

bool has_room_for(const SendDescriptor& send) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::uint64_t bytes = send.says.bytes;
  for (const Kept& one : g_kept) bytes += one.send.says.bytes;
  return bytes <= kMostKept;
}

std::uint64_t first_seen(const SendDescriptor& send, std::uint64_t now) {
  const auto at = std::find_if(g_suspects.begin(), g_suspects.end(),
                               [&](const Suspect& suspect) { return suspect.send == send; });
  return at == g_suspects.end() ? now : at->since;
}

// Whether some rank's descriptor to this one waits: without a lock or a look into buffers.
bool any_posted() {
  for (std::uint32_t sender = 0; sender < config.ranks; ++sender) {
    if (sender == config.me) continue;
    for (const p2p::SendSlot& slot : services.area(sender).send_queue.slots) {
      const auto says = slot.posted();
      if (says && says->to == config.me) return true;
    }
  }
  return false;
}

}  // namespace

void search_lost() {
  constexpr double kEveryNs = 20e6;
  constexpr double kLostAfterNs = 200e6;  // in flight it is for microseconds
  static std::uint64_t next_look = 0;
  const std::uint64_t now = ticks();
  if (now < next_look || switches.threads || switches.errors_are_fatal) return;
  next_look = now + ticks_from_ns(kEveryNs);
  if (!config.describing || !any_posted()) return g_suspects.clear();
  std::vector<Suspect> suspects;
  for (std::uint32_t sender = 0; sender < config.ranks; ++sender) {
    if (sender == config.me) continue;
    for (const SendDescriptor& send : unmatched(sender, [](const p2p::Posted&) { return true; })) {
      suspects.push_back({.send = send, .since = first_seen(send, now)});
    }
  }
  g_suspects = std::move(suspects);
  for (const Suspect& suspect : g_suspects) {
    if (now - suspect.since < ticks_from_ns(kLostAfterNs)) continue;
    if (!is_unexpected(suspect.send) && has_room_for(suspect.send)) return keep(suspect.send);
  }
}

bool is_kept(std::uint32_t sender, std::uint64_t communicator, int tag) {
  if (kept_count.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> hold(g_mutex);
  return std::any_of(g_kept.begin(), g_kept.end(), [&](const Kept& kept) {
    const SendDescriptor& send = kept.send;
    return send.sender == sender && send.says.communicator == communicator && send.says.tag == tag;
  });
}

std::optional<Kept> take_kept(const p2p::Descriptor& descriptor) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = std::find_if(g_kept.begin(), g_kept.end(),
                               [&](const Kept& kept) { return kept.send == of(descriptor); });
  if (at == g_kept.end()) return std::nullopt;
  Kept found = std::move(*at);
  g_kept.erase(at);
  count_kept();
  return found;
}

void forget_before(std::uint32_t sender, const p2p::SendSlot& later) {
  if (kept_count.load(std::memory_order_relaxed) == 0) return;
  // One that lies in the buffer of a receive was matched before, and may be fetched later.
  if (switches.threads || later.ordered == 0 || pending_requests.any()) return;
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_kept, [&](const Kept& kept) {
    const p2p::Posted& says = kept.send.says;
    return kept.send.sender == sender && says.communicator == later.communicator &&
           says.tag == later.tag && says.sequence < later.sequence &&
           !contains(g_taken_out, kept.send);
  });
  count_kept();
}

}  // namespace mh::mpi::send_descriptors
