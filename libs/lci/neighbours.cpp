// SPDX-License-Identifier: BSD-3-Clause
// The ranks of this node and their inboxes, found and opened in collective calls.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <string_view>

#include "base/say.hpp"
#include "lci/cores.hpp"
#include "lci/node.hpp"
#include "manyhands/ult/scheduler.hpp"

namespace mh::lci::detail {
namespace {

// Limits of an inbox and of its rings, in bytes. A ring has room for kPacketsInRing packets, even
// where a node has so many ranks that the rings of an inbox then exceed kMostInbox.
constexpr std::size_t kMostInbox = std::size_t{4} << 20U;
constexpr std::size_t kMostRing = std::size_t{256} << 10U;
constexpr std::size_t kPacketsInRing =
    8;  // at least, since a record has at most an eighth of a ring

std::size_t ring_bytes(std::size_t ranks, const DeviceConfig& config) {
  const std::size_t least =
      std::bit_ceil(kPacketsInRing * (config.packet_bytes + sizeof(std::uint64_t)));
  return std::max(least, std::min(kMostRing, std::bit_floor(kMostInbox / ranks)));
}

bool is_wanted(const DeviceConfig& config) {
  const char* environment = std::getenv("MH_LCI_NODE");
  const std::string_view setting = environment == nullptr ? "on" : environment;
  const bool off = setting == "off";
  static Once once;
  if (!off && setting != "on" && once())
    print_message("lci: MH_LCI_NODE='{}' is not accepted and counts as on; give on or off",
                  setting);
  // Larger packets cannot go through the rings: the word in front of a ring record cannot hold a
  // larger size.
  return config.node && !off && config.packet_bytes < kSizeMask;
}

// Returns the part of a configuration that must be equal at all ranks, as a text that the ranks
// compare.
std::string contract(const DeviceConfig& c) {
  return std::to_string(c.packet_bytes) + ' ' + std::to_string(c.receive_packets) + ' ' +
         std::to_string(c.large_messages);
}

bool all_are(const std::vector<std::string>& texts, const std::string& text) {
  return std::all_of(texts.begin(), texts.end(), [&](const auto& one) { return one == text; });
}

// True if two ranks have the same node id, or if the job has one rank, with an id. Empty ids do not
// count: their ranks share no memory.
bool anybody_shares(std::vector<std::string> ids) {
  const bool is_alone = ids.size() == 1;
  std::erase(ids, "");
  if (is_alone) return !ids.empty();
  std::sort(ids.begin(), ids.end());
  return std::adjacent_find(ids.begin(), ids.end()) != ids.end();
}

// Returns the ranks whose node id is this rank's `id`; none if `id` is empty.
Neighbours those_with(const std::string& id, const std::vector<std::string>& ids, int self) {
  Neighbours near;
  for (std::size_t rank = 0; rank < ids.size() && !id.empty(); ++rank) {
    if (ids[rank] != id) continue;
    if (static_cast<int>(rank) == self) near.self = near.all.size();
    near.all.push_back({static_cast<int>(rank), 0, {}});
  }
  near.everybody = near.all.size() == ids.size();
  return near;
}

Status open_others(Neighbours& near, const std::vector<std::string>& places, std::size_t bytes) {
  for (Neighbours::One& one : near.all) {
    std::istringstream words(places[static_cast<std::size_t>(one.rank)]);
    std::string where;
    if (!(words >> one.pid >> where)) return {Code::gone};
    if (&one == &near.all[near.self]) continue;
    auto opened = Inbox::open(where, near.all.size(), bytes);
    if (!opened) return opened.status();
    one.inbox = std::move(*opened);
  }
  return {};
}

// Collective. True if all ranks have succeeded. Otherwise the first rank that failed with an errno
// prints the error; ranks without an errno failed only because a peer did.
Result<bool> all_succeed(Job& job, Status mine) {
  const std::string reason = mine ? "" : mine.sys_errno == 0 ? "-" : std::strerror(mine.sys_errno);
  const auto reasons = job.allgather(reason);
  if (!reasons) return reasons.status();
  if (all_are(*reasons, "")) return true;
  const auto first = std::find_if(reasons->begin(), reasons->end(),
                                  [](const auto& text) { return !text.empty() && text != "-"; });
  if (first - reasons->begin() == job.rank()) {
    print_message(
        "lci: the processes of a host cannot share memory ({}): their messages go through "
        "libfabric, which is slower",
        reason);
  }
  return false;
}

// Collective: makes this rank's inbox and opens those of the other ranks of the node. False: a rank
// has failed, and no rank uses shared memory.
Result<bool> share_memory(Job& job, Neighbours& near, const DeviceConfig& config) {
  Status shared{};
  std::string place;
  const std::size_t bytes = near.all.empty() ? 0 : ring_bytes(near.all.size(), config);
  if (!near.all.empty()) {
    auto made = Inbox::make(near.all.size(), bytes);
    shared = made.status();
    if (made) {
      place = std::to_string(::getpid()) + ' ' + made->where();
      near.all[near.self].inbox = std::move(*made);
    }
  }
  const auto places = job.allgather(place);
  if (!places) return places.status();
  if (shared) shared = open_others(near, *places, bytes);
  const Result<bool> all = all_succeed(job, shared);
  if (!near.all.empty()) near.all[near.self].inbox.close();
  return all;
}

// Collective: divides the cores of each host among its ranks, and tells this process's schedulers
// of light tasks how many cores their workers may use.
Status share_cores(Job& job) {
  const auto places = job.allgather(this_kernel() + ' ' + usable_cores());
  if (!places) return places.status();
  const auto host_of = [](const std::string& place) { return place.substr(0, place.find(' ')); };
  const std::string& own = (*places)[static_cast<std::size_t>(job.rank())];
  std::vector<std::string> cores;
  std::size_t self = 0;
  for (const std::string& place : *places) {
    if (host_of(place) != host_of(own)) continue;
    if (&place == &own) self = cores.size();
    cores.push_back(place.substr(place.find(' ') + 1));
  }
  if (cores.size() > 1) ult::detail::share_cores(own_share(cores, self));
  return {};
}

}  // namespace

Result<Neighbours> find_neighbours(Job& job, const DeviceConfig& config) {
  const std::string id = is_wanted(config) ? this_node() : std::string();
  const auto ids = job.allgather(id);
  const auto contracts = job.allgather(contract(config));
  if (!ids || !contracts) return Status{Code::gone};
  if (const Status shared = share_cores(job); !shared) return shared;
  if (!all_are(*contracts, contracts->front())) return Status{Code::mismatch};
  Neighbours near = those_with(id, *ids, job.rank());
  if (!anybody_shares(*ids)) return Neighbours{};
  const Result<bool> shared = share_memory(job, near, config);
  if (!shared) return shared.status();
  return *shared ? std::move(near) : Neighbours{};
}

}  // namespace mh::lci::detail
