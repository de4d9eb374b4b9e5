// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/profile/profile.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <unordered_map>

#include "base/say.hpp"
#include "base/settings.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/handle_cache.hpp"
#include "mpi/job/agreement.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/profile/tracing.hpp"
#include "observe/presence.hpp"

namespace mh::mpi::profile {

namespace detail {
bool is_on = false;
constinit thread_local bool inside = false;
constinit thread_local std::uint32_t polls_to_skip = 0;
}  // namespace detail

namespace {

using observe::Presence;
using observe::ThreadProfile;

// A thread times one in this many of its short polls (calls such as MPI_Test), to keep the cost of
// the profile low.
constexpr std::uint32_t kPollsPerSample = 16;
// A thread times each of its first polls (calls such as MPI_Test), as many as kPollsTimedFirst, and
// the poll after each timed poll that takes longer than kShortPollNs.
constexpr std::uint32_t kPollsTimedFirst = 16;
constexpr double kShortPollNs = 1000;
// A timed call reads the presence, the time inside MPI, of this many peers at most. In a larger
// collective these are the peers with the lowest ranks on the node.
constexpr std::size_t kMostPeers = 64;

// The members of a communicator, given by their ranks on this node.
struct CommMembers {
  std::vector<std::int32_t> node_rank_of;  // by rank; kNone: this rank, other nodes
  const RankList* all;
};

// The time and the state of a peer when a timed poll of this thread last read its presence, the
// time that it has been inside MPI.
struct PeerLook {
  std::uint64_t at = 0;      // ticks
  std::uint64_t inside = 0;  // ticks that the peer had been inside MPI
};

// The profile of one thread, made at its first timed call. Only that thread uses the object until
// stop() of the profile.
struct ProfiledThread {
  ProfiledThread()
      : profile(kNextCalls, std::max(config.ranks, 1U)), looks(std::max(config.ranks, 1U)) {}
  ThreadProfile profile;
  observe::CallTrace trace;
  std::uint32_t polls_timed = 0;
  std::uint32_t polls_counted = 0;  // untimed polls that the next timed poll stands for
  std::uint64_t last_timed_poll_end = 0;
  std::vector<PeerLook> looks;                           // by rank of the node
  std::array<std::uint64_t, kMostPeers> peers_before{};  // ticks inside MPI, before a waiting call
};

struct ProcessProfile {
  Presence* own = nullptr;  // in the node segment, or `lonely`
  Presence lonely;          // of a rank without a node
  std::uint64_t init_begin = 0;
  std::uint64_t init_end = 0;
  std::uint64_t finalize_begin = 0;

  std::mutex mutex;  // guards the members below
  std::vector<std::unique_ptr<ProfiledThread>> threads;
  std::unordered_map<std::uint64_t, std::unique_ptr<CommMembers>> comms;  // by handle
  std::set<RankList> lists;                                               // never erased
};
ProcessProfile g_profile;

HandleCache<4096> g_requests;  // by request: packed()
HandleCache<256> g_comms;      // by communicator: CommMembers*

// The profile of the calling thread, or null. It is a pointer, because the loader has little room
// for the thread-local data of a library that is opened late, as a variant is.
constinit thread_local ProfiledThread* t_state = nullptr;

ProfiledThread& own_state() {
  if (t_state == nullptr) {
    auto fresh = std::make_unique<ProfiledThread>();
    const std::lock_guard<std::mutex> hold(g_profile.mutex);
    t_state = g_profile.threads.emplace_back(std::move(fresh)).get();
  }
  return *t_state;
}

// The presence of a rank of this node, in its part of the node segment: the time that the rank has
// been inside MPI.
Presence& presence_of(std::uint32_t node_rank) { return services.area(node_rank).presence; }

// The peers as a list of ranks on the node, at most kMostPeers. The list of a single peer lies in
// `one`, which the caller provides.
std::span<const std::uint32_t> ranks_of(const AwaitedRanks& peers, std::uint32_t& one) {
  if (peers.several != nullptr)
    return std::span(*peers.several).first(std::min(kMostPeers, peers.several->size()));
  if (peers.one == AwaitedRanks::kNone) return {};
  one = static_cast<std::uint32_t>(peers.one);
  return {&one, 1};
}

// ---- The members of communicators, as ranks on the node ----------------------------------------

// Stores the list of ranks, once for equal lists, for as long as the process lives. Called with
// g_profile.mutex locked.
const RankList* kept_list(RankList ranks) {
  return &*g_profile.lists.insert(std::move(ranks)).first;
}

// The rank on the node of each member of the group; AwaitedRanks::kNone for this rank and for ranks
// of other nodes.
std::vector<std::int32_t> node_ranks_of(MPI_Group group) {
  MPI_Group node_group = MPI_GROUP_NULL;
  int size = 0;
  real.Comm_group(config.node_comm, &node_group);
  real.Group_size(group, &size);
  std::vector<int> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  std::vector<std::int32_t> on_node(members.size(), AwaitedRanks::kNone);
  real.Group_translate_ranks(group, size, members.data(), node_group, on_node.data());
  real.Group_free(&node_group);
  for (std::int32_t& rank : on_node) {
    if (rank < 0 || rank == static_cast<std::int32_t>(config.me)) rank = AwaitedRanks::kNone;
  }
  return on_node;
}

// The group of the ranks to which messages on `comm` go: the group of `comm`, or, for an
// intercommunicator, the remote group. The caller frees it.
MPI_Group group_of(MPI_Comm comm) {
  MPI_Group group = MPI_GROUP_NULL;
  int is_inter = 0;
  real.Comm_test_inter(comm, &is_inter);
  (is_inter != 0 ? real.Comm_remote_group : real.Comm_group)(comm, &group);
  return group;
}

const CommMembers& look_up_members(MPI_Comm comm) {
  MPI_Group group = group_of(comm);
  auto found = std::make_unique<CommMembers>();
  found->node_rank_of = node_ranks_of(group);
  real.Group_free(&group);
  RankList ranks;
  for (const std::int32_t rank : found->node_rank_of) {
    if (rank != AwaitedRanks::kNone) ranks.push_back(static_cast<std::uint32_t>(rank));
  }
  std::ranges::sort(ranks);
  const std::lock_guard<std::mutex> hold(g_profile.mutex);
  found->all = kept_list(std::move(ranks));
  auto& kept = g_profile.comms[bits_of(comm)];
  if (kept == nullptr) kept = std::move(found);  // another thread may have been first
  g_comms.fill(bits_of(comm), reinterpret_cast<std::uint64_t>(kept.get()));
  return *kept;
}

const CommMembers& members_of(MPI_Comm comm) {
  std::uint64_t word = 0;
  if (g_comms.find(bits_of(comm), word)) return *reinterpret_cast<const CommMembers*>(word);
  return look_up_members(comm);
}

bool has_peers() { return services.node && config.ranks > 1; }

// ---- The facts of the calls that have started requests -----------------------------------------

// Packs CallFacts into a word: bytes << 18 | peer + 1 << 2 | has several peers << 1 | contiguous.
// If the call has several peers, the word does not tell which, and unpacked() returns all ranks of
// the node in their place.
std::uint64_t packed(const CallFacts& facts) {
  const std::uint64_t one = static_cast<std::uint32_t>(facts.peers.one) + 1U;
  return facts.data.bytes << 18U | (one & 0xffffU) << 2U |
         (facts.peers.several != nullptr ? 2U : 0U) | (facts.data.contiguous ? 1U : 0U);
}
CallFacts unpacked(std::uint64_t word) {
  CallFacts facts{.data = {.bytes = word >> 18U, .contiguous = (word & 1U) != 0}, .peers = {}};
  facts.peers.one = static_cast<std::int32_t>(word >> 2U & 0xffffU) - 1;
  if ((word & 2U) != 0) facts.peers = everyone();
  return facts;
}

template <class Count>
CallFacts mean_of(const Count counts[], MPI_Datatype type, MPI_Comm comm) {
  int size = 0;
  int is_inter = 0;
  real.Comm_test_inter(comm, &is_inter);
  real.Comm_size(comm, &size);
  if (is_inter != 0 || counts == nullptr || size <= 0) return no_data(members(comm));
  const MPI_Count sum = std::accumulate(counts, counts + size, MPI_Count{0});
  return facts(sum / size, type, members(comm));
}

// ---- The report of the profile ------------------------------------------------------------------

double ticks_per_s() { return ticks_per_ns() * 1e9; }

double seconds_between(std::uint64_t begin, std::uint64_t end) {
  return end > begin ? static_cast<double>(end - begin) / ticks_per_s() : 0;
}

observe::ProfiledRank own_rank() {
  return {.world_rank = static_cast<std::uint32_t>(config.world_rank),
          .node = services.node ? services.node->record(0).world_rank
                                : static_cast<std::uint32_t>(config.world_rank),
          .init_s = seconds_between(g_profile.init_begin, g_profile.init_end),
          .elapsed_s = seconds_between(g_profile.init_end, g_profile.finalize_begin)};
}

std::vector<observe::LateRank> own_late_ranks() {
  std::vector<std::uint64_t> sums(config.ranks);
  for (const auto& thread : g_profile.threads) {
    const auto own = thread->profile.all_late_ticks();
    for (std::size_t i = 0; i < std::min(sums.size(), own.size()); ++i) sums[i] += own[i];
  }
  std::vector<observe::LateRank> rows;
  for (std::uint32_t rank = 0; rank < sums.size(); ++rank) {
    if (sums[rank] == 0) continue;
    rows.push_back({.late = services.node->record(rank).world_rank,
                    .waiter = static_cast<std::uint32_t>(config.world_rank),
                    .seconds = static_cast<double>(sums[rank]) / ticks_per_s()});
  }
  return rows;
}

void write_file(const char* setting, const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) print_message("cannot write {}={}: {}", setting, path, std::strerror(errno));
}

// True if the peer was outside MPI for most of the time since this thread last read its presence;
// if this is the first time, true if the peer is outside MPI at the moment. Updates `look`.
bool was_outside(PeerLook& look, const Presence& peer, std::uint64_t now) {
  const PeerLook before = look;
  look = {.at = now, .inside = peer.ticks_inside(now)};
  if (before.at == 0) return !peer.is_inside();
  return (look.inside - before.inside) * 2 < now - before.at;
}

// A peer for which a poll that ends at tick `now` has waited, because the peer was outside MPI;
// AwaitedRanks::kNone if there is none.
std::int32_t late_peer(ProfiledThread& state, const AwaitedRanks& peers, std::uint64_t now) {
  std::uint32_t one = 0;
  std::int32_t late = AwaitedRanks::kNone;
  for (const std::uint32_t rank : ranks_of(peers, one)) {
    if (was_outside(state.looks[rank], presence_of(rank), now))
      late = static_cast<std::int32_t>(rank);
  }
  return late;
}

}  // namespace

// ---- The facts of a call: its data and its peers -----------------------------------------------

CallFacts facts(MPI_Count count, MPI_Datatype type, const AwaitedRanks& peers) {
  if (count <= 0 || type == MPI_DATATYPE_NULL) return no_data(peers);
  const datatypes::Info info = datatypes::info(type);
  return {.data = {.bytes = static_cast<std::uint64_t>(count) * info.size,
                   .contiguous = info.contiguous},
          .peers = peers};
}

CallFacts mean_facts(const int counts[], MPI_Datatype type, MPI_Comm comm) {
  return mean_of(counts, type, comm);
}
CallFacts mean_facts(const MPI_Count counts[], MPI_Datatype type, MPI_Comm comm) {
  return mean_of(counts, type, comm);
}

AwaitedRanks peer(int rank, MPI_Comm comm) {
  if (!has_peers() || comm == MPI_COMM_NULL || rank == MPI_PROC_NULL) return {};
  const CommMembers& members = members_of(comm);
  if (rank < 0 || static_cast<std::size_t>(rank) >= members.node_rank_of.size())
    return {.several = members.all};
  return {.one = members.node_rank_of[static_cast<std::size_t>(rank)]};
}

AwaitedRanks members(MPI_Comm comm) {
  if (!has_peers() || comm == MPI_COMM_NULL) return {};
  return {.several = members_of(comm).all};
}

AwaitedRanks everyone() { return members(config.node_comm); }

void forget_comm(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  g_comms.drop(bits_of(comm));
  const std::lock_guard<std::mutex> hold(g_profile.mutex);
  g_profile.comms.erase(bits_of(comm));
}

void note_request(MPI_Request request, const CallFacts& facts) {
  if (request != MPI_REQUEST_NULL) g_requests.fill(bits_of(request), packed(facts));
}

CallFacts facts_of(MPI_Request request) {
  std::uint64_t word = 0;
  if (request == MPI_REQUEST_NULL) return {};
  return g_requests.find(bits_of(request), word) ? unpacked(word) : no_data(everyone());
}

CallFacts facts_of(int count, const MPI_Request requests[]) {
  CallFacts largest{};
  bool is_first = true;
  for (int i = 0; i < count; ++i) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    const CallFacts each = facts_of(requests[i]);
    const bool is_same_peer = !each.peers.several && each.peers.one == largest.peers.one;
    largest.peers = is_first || is_same_peer ? each.peers : everyone();
    if (each.data.bytes >= largest.data.bytes) largest.data = each.data;
    is_first = false;
  }
  return largest;
}

// ---- Timed calls -------------------------------------------------------------------------------

namespace detail {

WaitingCall::WaitingCall(std::size_t call, const CallFacts& facts) : call_(call), facts_(facts) {
  inside = true;
  begin_ = ticks();
  std::uint32_t one = 0;
  std::size_t at = 0;
  for (const std::uint32_t rank : ranks_of(facts.peers, one))
    own_state().peers_before[at++] = presence_of(rank).ticks_inside(begin_);
  g_profile.own->enter(begin_);
  if (observe::trace() != nullptr) [[unlikely]]
    collectives_ = tracing::collectives_so_far();
}

WaitingCall::~WaitingCall() {
  const std::uint64_t end = ticks();
  g_profile.own->leave(end);
  std::uint64_t transfer = end - begin_;
  std::uint32_t one = 0;
  std::uint32_t late = 0;
  std::size_t at = 0;
  for (const std::uint32_t rank : ranks_of(facts_.peers, one)) {
    const std::uint64_t before = own_state().peers_before[at++];
    const std::uint64_t after = presence_of(rank).ticks_inside(end);
    const std::uint64_t together = after > before ? after - before : 0;
    if (together < transfer) {
      transfer = together;
      late = rank;
    }
  }
  observe::CallSums& sums = own_state().profile.sums(call_, facts_.data);
  sums.calls += 1;
  sums.bytes += facts_.data.bytes;
  sums.ticks += end - begin_;
  sums.transfer_ticks += transfer;
  if (transfer < end - begin_) own_state().profile.late_ticks(late) += end - begin_ - transfer;
  if (observe::TraceWriter* writer = observe::trace()) [[unlikely]]
    trace_call(*writer, late, {begin_, end, transfer});
  inside = false;
}

void WaitingCall::trace_call(observe::TraceWriter& writer, std::uint32_t late,
                             const tracing::CallTimes& times) const {
  observe::TraceEvent event = tracing::event_of(call_, facts_.data.bytes, late, times);
  event.detail = static_cast<std::uint8_t>(tracing::way_since(collectives_));
  own_state().trace.add(writer, event);
}

ShortCall::ShortCall() : begin_(ticks()) {
  inside = true;
  g_profile.own->enter(begin_);
}

std::uint64_t ShortCall::end(std::uint64_t more) {
  const std::uint64_t now = ticks();
  g_profile.own->leave(now, more);
  inside = false;
  return now - begin_;
}

TimedPoll::TimedPoll(std::size_t call, const CallFacts& facts)
    : call_(call), facts_(facts), begin_(ticks()) {}

// Each poll that this thread has made untimed since its last timed poll is taken to have lasted as
// long as this poll. This poll may be long because the thread has lost its core, so the untimed
// polls and this poll together count no longer than the time since the last timed poll.
TimedPoll::~TimedPoll() {
  const std::uint64_t end = ticks();
  const std::uint64_t own = end - begin_;
  ProfiledThread& state = own_state();
  const std::uint32_t polls = state.polls_counted + 1;
  const std::uint64_t all =
      polls == 1 ? own : std::min(own * polls, end - state.last_timed_poll_end);
  visit_.end(all - own);
  observe::CallSums& sums = state.profile.sums(call_, facts_.data);
  sums.calls += polls;
  sums.ticks += all;
  const std::int32_t late = late_peer(state, facts_.peers, end);
  if (late == AwaitedRanks::kNone)
    sums.transfer_ticks += all;
  else
    state.profile.late_ticks(static_cast<std::size_t>(late)) += all;
  trace_polls({end - all, end, late == AwaitedRanks::kNone ? all : 0}, polls, late);
  const bool is_short = static_cast<double>(own) < kShortPollNs * ticks_per_ns();
  const bool skips = is_short && state.polls_timed >= kPollsTimedFirst;
  if (!skips) ++state.polls_timed;
  polls_to_skip = state.polls_counted = skips ? kPollsPerSample - 1 : 0;
  state.last_timed_poll_end = ticks();
}

void TimedPoll::trace_polls(const tracing::CallTimes& times, std::uint32_t polls,
                            std::int32_t late) const {
  observe::TraceWriter* writer = observe::trace();
  if (writer == nullptr) return;
  const auto rank =
      static_cast<std::uint32_t>(std::max(late, 0));  // unused if the poll has not waited
  observe::TraceEvent event = tracing::event_of(call_, 0, rank, times);
  event.count = polls;
  own_state().trace.add(*writer, event);
}

void add_transfer(std::size_t call, const observe::CallData& data, std::uint64_t begin,
                  std::uint64_t ticks) {
  observe::CallSums& sums = own_state().profile.sums(call, data);
  sums.calls += 1;
  sums.bytes += data.bytes;
  sums.ticks += ticks;
  sums.transfer_ticks += ticks;
  if (observe::TraceWriter* writer = observe::trace()) [[unlikely]]
    own_state().trace.add(*writer,
                          tracing::event_of(call, data.bytes, 0, {begin, begin + ticks, ticks}));
}

}  // namespace detail

// ---- Start and end of the profile --------------------------------------------------------------

void begin_init() { g_profile.init_begin = ticks(); }
void begin_finalize() { g_profile.finalize_begin = ticks(); }

void start() {
  tracing::start();
  if (!is_wanted()) return;
  g_profile.own = services.node ? &services.own_area().presence : &g_profile.lonely;
  g_profile.init_end = ticks();
  detail::is_on = true;
}

void stop() {
  detail::is_on = false;
  observe::TraceWriter* writer = observe::trace();
  if (writer == nullptr) return;
  const std::lock_guard<std::mutex> hold(g_profile.mutex);
  for (const auto& thread : g_profile.threads) thread->trace.flush(*writer);
  tracing::stop();
}

void write(const std::string& summary) {
  const std::lock_guard<std::mutex> hold(g_profile.mutex);
  std::vector<const ThreadProfile*> threads;
  for (const auto& thread : g_profile.threads) {
    threads.push_back(&thread->profile);
  }
  const auto world_rank = static_cast<std::uint32_t>(config.world_rank);
  const auto ranks = agreement::gather_rows(std::vector{own_rank()});
  const auto rows =
      agreement::gather_rows(observe::profile_rows(threads, kNextNames, world_rank, ticks_per_s()));
  const auto late = agreement::gather_rows(own_late_ranks());
  if (config.world_rank != 0) return;
  const std::string text = observe::render_profile(ranks, rows, late, summary);
  if (!settings().profile.empty()) write_file("MH_PROFILE", settings().profile, text);
  if (tracing::has_file()) write_file("MH_TRACE", settings().trace + "/profile.json", text);
}

}  // namespace mh::mpi::profile
