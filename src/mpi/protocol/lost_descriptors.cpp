// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/lost_descriptors.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/protocol/handlers.hpp"
#include "mpi/protocol/pending_requests.hpp"
#include "mpi/protocol/receiver.hpp"

namespace mh::mpi::send_descriptors {
namespace {

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
  const auto probed = taken_out();
  found.insert(found.end(), probed.begin(), probed.end());
  return found;
}

// Whether a receive on that communicator, null if not known, that asks for this may have met this
// send descriptor of `sender`.
bool may_be_met(const p2p::Posted& says, std::uint32_t sender, const Comm* comm,
                const Envelope& asked) {
  if (asked.tag != MPI_ANY_TAG && asked.tag != says.tag) return false;
  if (comm != nullptr && says.communicator != comm->key) return false;
  const Comm* sent_on = comm != nullptr ? comm : comms::find_key(says.communicator);
  return asked.source == MPI_ANY_SOURCE || sent_on == nullptr ||
         sent_on->on_node(asked.source) == static_cast<std::int32_t>(sender);
}

// ... that is over with this status.
bool may_be_cut(const p2p::Posted& says, std::uint32_t sender, const Comm* comm,
                const MPI_Status& status) {
  const Envelope envelope{.source = status.MPI_SOURCE, .tag = status.MPI_TAG};
  return envelope.source != MPI_ANY_SOURCE && may_be_met(says, sender, comm, envelope);
}

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

// Whether the library takes a persistent request that was looked at for an inactive one (MPICH 5):
// the program would never find it, nor its status.
bool forgets_persistent() {
  static const bool forgets = [] {
    MPI_Request request = MPI_REQUEST_NULL;
    int flag = 0;
    int index = MPI_UNDEFINED;
    real.Recv_init(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, config.self_comm, &request);
    real.Start(&request);
    real.Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    real.Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE);
    real.Request_free(&request);
    return index == MPI_UNDEFINED;
  }();
  return forgets;
}

bool may_be_looked_at(const Receipt& receipt) {
  return !receipt.persistent || !forgets_persistent();
}

// Looks once whether a receive that is too short for a descriptor is over: its error is the
// program's to hear of.
bool is_over(MPI_Request request, PendingReceive& entry) {
  if (entry.over) return true;
  const handlers::SetAside of_world(MPI_COMM_WORLD);
  int flag = 0;
  MPI_Status status{};
  const int code = real.Request_get_status(request, &flag, &status);
  if (code != MPI_SUCCESS || flag != 0) entry.over = status;
  if (code != MPI_SUCCESS) entry.over_error = is_truncation(code) ? MPI_ERR_TRUNCATE : code;
  return entry.over.has_value();
}

// Such receives that the program has not completed: those that are over, or may be.
std::vector<PendingReceivePtr> short_ones_over() {
  return pending_requests.select([](MPI_Request request, PendingReceive& entry) {
    return entry.receipt.too_short && (!may_be_looked_at(entry.receipt) || is_over(request, entry));
  });
}

bool met_short_one(const SendDescriptor& send, const std::vector<PendingReceivePtr>& over) {
  return std::any_of(over.begin(), over.end(), [&](const PendingReceivePtr& one) {
    const Comm* comm = one->receipt.comm.get();
    return one->over ? may_be_cut(send.says, send.sender, comm, *one->over)
                     : may_be_met(send.says, send.sender, comm, *one->receipt.too_short);
  });
}

std::uint64_t first_seen(const SendDescriptor& send, std::uint64_t now) {
  const auto at = std::find_if(g_suspects.begin(), g_suspects.end(),
                               [&](const Suspect& suspect) { return suspect.send == send; });
  return at == g_suspects.end() ? now : at->since;
}

}  // namespace

std::vector<SendDescriptor> unmatched(std::uint32_t sender,
                                      const std::function<bool(const p2p::Posted&)>& wanted) {
  std::vector<SendDescriptor> found;
  for (std::uint32_t slot = 0; slot < p2p::SharedSendQueue::kSlots; ++slot) {
    const auto says = services.area(sender).send_queue.slots[slot].posted();
    if (!says || says->to != config.me || !wanted(*says)) continue;
    found.push_back({.sender = sender, .slot = slot, .says = *says});
  }
  if (found.empty()) return found;  // as a rule: no lock, and no look into buffers
  const auto gone = matched();
  std::erase_if(found, [&](const SendDescriptor& send) {
    return std::ranges::find(gone, send) != gone.end();
  });
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

bool searches_lost() {
  return config.describing && !switches.threads && !switches.errors_are_fatal;
}

void search_lost() {
  static std::uint64_t next_look = 0;
  const std::uint64_t now = ticks();
  if (now < next_look || !searches_lost()) return;
  next_look = now + ticks_from_ns(tuning::kLookForLostNs);
  std::vector<Suspect> suspects;
  for (std::uint32_t sender = 0; sender < config.ranks; ++sender) {
    if (sender == config.me) continue;
    for (const SendDescriptor& send : unmatched(sender, [](const p2p::Posted&) { return true; })) {
      suspects.push_back({.send = send, .since = first_seen(send, now)});
    }
  }
  g_suspects = std::move(suspects);
  const auto old = [&](const Suspect& suspect) {
    return now - suspect.since >= ticks_from_ns(tuning::kLostAfterNs);
  };
  if (std::none_of(g_suspects.begin(), g_suspects.end(), old)) return;
  const std::vector<PendingReceivePtr> over = short_ones_over();
  for (const Suspect& suspect : g_suspects) {
    if (!old(suspect) || !has_room_for(suspect.send)) continue;
    if (met_short_one(suspect.send, over) || !is_unexpected(suspect.send))
      return keep(suspect.send);
  }
}

}  // namespace mh::mpi::send_descriptors
