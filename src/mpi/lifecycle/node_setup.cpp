// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/lifecycle/node_setup.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/emulated.hpp"
#include "base/say.hpp"
#include "base/settings.hpp"
#include "base/tuning.hpp"
#include "memory/probe.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/job/agreement.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/profile/profile.hpp"
#include "node/host.hpp"
#include "node/segment.hpp"

namespace mh::mpi::node_setup {
namespace {

using std::chrono::milliseconds;

constexpr auto kDoorTimeout = milliseconds(20'000);
// In bytes. Where the kernel does not copy, the threshold for rendezvous in an exchange (two ranks
// send each other messages at once) is lowered to this value. Shorter messages of exchanges gain
// nothing by cells.
constexpr std::uint64_t kLeastExchangedByCells = 1U << 20U;

// The state of this process while the node is built. Main thread only.
struct NodeConstruction {
  std::optional<node::Segment> segment;
  std::optional<node::Door> door;  // the root's
  node::DoorName door_name{};
  node::PublishedFd published;   // the root's
  std::string why_not;           // the reason of the last stops_at(); empty: none
  std::uint64_t probe_word = 0;  // peers try to read this word of memory
};
NodeConstruction g_node;

// ---- Agreement of the node's ranks on each step -------------------------------------------------

// Returns the reason why the ranks of the node do not take a step of the setup: `reason` of the
// lowest rank that has one, the same on all ranks. Empty if no rank has a reason. Collective.
std::string agreed_reason(const std::string& reason) {
  std::array<char, 160> text{};
  reason.copy(text.data(), text.size() - 1);
  for (const auto& each : agreement::gather(text, config.ranks, config.node_comm)) {
    if (each[0] != 0) return each.data();
  }
  return {};
}

// Agrees with the other ranks of the node whether to go on with the setup. `reason`: why this rank
// cannot go on; empty if it can. True if some rank has a reason.
bool stops_at(const std::string& reason) {
  g_node.why_not = agreed_reason(reason);
  return !g_node.why_not.empty();
}

// ---- The ranks of the node ----------------------------------------------------------------------

// True if a buffer of the program may be in the memory of an accelerator: a runtime is loaded, or
// the MPI library takes such buffers and the program may load a runtime later.
bool may_get_device_buffers() {
  if (memory::device_runtime_loaded()) return true;
  if (!memory::has_accelerator()) return false;
  for (const char* name : {"MPIX_Query_cuda_support", "MPIX_Query_hip_support",
                           "MPIX_Query_rocm_support", "MPIX_Query_ze_support"}) {
    const auto query = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, name));
    if (query != nullptr && query() != 0) return true;
  }
  return false;
}

// The first data that the ranks of a node exchange. With these data, the other ranks try to read
// this rank's memory.
struct PeerInfo {
  memory::AccessFacts surroundings;
  std::uint64_t address;
  std::uint64_t value;
  std::int32_t pid;
  bool device_buffers;
};
static_assert(std::is_trivially_copyable_v<PeerInfo>);

std::vector<PeerInfo> exchange_peer_infos() {
  g_node.probe_word = ticks() ^ (static_cast<std::uint64_t>(getpid()) << 40U);
  const PeerInfo mine{.surroundings = memory::read_access_facts(),
                      .address = reinterpret_cast<std::uint64_t>(&g_node.probe_word),
                      .value = g_node.probe_word,
                      .pid = getpid(),
                      .device_buffers = may_get_device_buffers()};
  return agreement::gather(mine, config.ranks, config.node_comm);
}

// Returns the reason why the node's first rank cannot pass the segment on, or nothing: the socket's
// address belongs to a network namespace, so all ranks must be in the same namespace.
std::string check_network(const std::vector<PeerInfo>& infos) {
  const bool same = std::ranges::all_of(infos, [&](const PeerInfo& info) {
    return info.surroundings.net_namespace == infos[0].surroundings.net_namespace;
  });
  return same ? "" : "ranks of the node run in different network namespaces";
}

// ---- The node's segment -------------------------------------------------------------------------

struct Invitation {
  std::uint64_t bytes;  // 0: the root could not make a segment
  node::DoorName door;
};
static_assert(std::is_trivially_copyable_v<Invitation>);

std::size_t area_bytes() { return cells_offset() + p2p::cells_bytes(config.ranks); }

std::string reason(const char* what, Status status) {
  return fmt::format("{}: {}", what, describe(status.code));
}

// Makes the node's segment. Called by the first rank of the node. Returns the reason if that fails,
// else nothing.
std::string make_segment(Invitation& invitation) {
  const std::size_t bytes = node::Node::bytes_needed(config.ranks, area_bytes());
  auto segment = node::Segment::create(bytes);
  if (!segment) return reason("no shared memory", segment.status());
  auto topology = node::load_topology(emulated::topology());
  const Status initialised =
      node::Node::initialise({segment->data(), segment->size()}, config.ranks, area_bytes(),
                             topology ? *topology : node::Topology{});
  if (!initialised) return reason("no node segment", initialised);
  auto door = node::Door::open();
  if (!door) return reason("no socket to pass shared memory on", door.status());
  invitation = {.bytes = bytes, .door = door->name()};
  g_node.segment = std::move(*segment);
  g_node.door = std::move(*door);
  return {};
}

std::string fetch_segment(const Invitation& invitation) {
  auto fd = node::Door::fetch(invitation.door, kDoorTimeout);
  if (!fd) return reason("the shared memory of the node is out of reach", fd.status());
  auto segment = node::Segment::attach(std::move(*fd), invitation.bytes);
  if (!segment) return reason("no shared memory", segment.status());
  g_node.segment = std::move(*segment);
  return {};
}

std::string enter_segment() {
  Invitation invitation{};
  std::string failure;
  if (config.me == 0) failure = make_segment(invitation);
  agreement::broadcast(invitation, 0, config.node_comm);
  if (invitation.bytes == 0) return failure;
  g_node.door_name = invitation.door;
  if (config.me != 0) return fetch_segment(invitation);
  const Status handed = g_node.door->hand_over(static_cast<int>(config.ranks) - 1,
                                               g_node.segment->fd(), kDoorTimeout);
  return handed ? "" : reason("shared memory was not passed on", handed);
}

std::string join_node() {
  auto node = node::Node::join({g_node.segment->data(), g_node.segment->size()}, config.me,
                               config.ranks, static_cast<std::uint32_t>(config.world_rank));
  if (!node) return reason("the node segment does not fit", node.status());
  services.node.emplace(*node);
  new (services.node->area(config.me)) RankArea;
  return {};
}

// ---- Reaching each other's memory ---------------------------------------------------------------

void let_peers_read(const std::vector<PeerInfo>& infos) {
  if (infos[config.me].surroundings.yama_scope != 1) return;
  std::vector<pid_t> pids;
  for (const PeerInfo& info : infos) pids.push_back(info.pid);
  static_cast<void>(memory::allow_ranks_to_read(pids));  // probe_peers() tests the outcome
}

std::string probe_peers(const std::vector<PeerInfo>& infos) {
  for (std::uint32_t rank = 0; rank < config.ranks; ++rank) {
    if (rank == config.me) continue;
    const PeerInfo& info = infos[rank];
    if (info.surroundings.pid_namespace != infos[config.me].surroundings.pid_namespace) {
      return "ranks run in different pid namespaces";
    }
    const memory::View word{.address = info.address, .pid = info.pid, .rank = rank};
    const Status reached = memory::probe_read(word, info.value);
    if (!reached) return reason("ranks cannot read each other's memory", reached);
  }
  return {};
}

// Returns the reason why no message may go by rendezvous, even if the ranks reach each other's
// memory; empty if there is no reason.
std::string look_for_objections() {
  if (settings().memory == MemoryPath::none) return "MH_MEMORY=none";
  return memory::device_runtime_loaded() ? "an accelerator runtime is loaded" : "";
}

// True if the MPI job goes on after a rank has failed (ULFM in Open MPI). Waits for ranks of the
// node see neither a failed rank nor a revoked communicator.
bool tolerates_failures() {
  const char* const text = std::getenv("OMPI_MCA_mpi_ft_enable");
  const std::string_view value = text == nullptr ? "" : text;
  return !value.empty() && value != "0" && value != "false" && value != "no";
}

// Returns the reason why the kernel is not to copy between the ranks, or cannot; empty if it does.
// Collective over the node.
std::string try_memory(const std::vector<PeerInfo>& infos) {
  let_peers_read(infos);
  agreement::barrier(config.node_comm);
  if (settings().memory == MemoryPath::cells) return "MH_MEMORY=cells";
  if (settings().memory == MemoryPath::mapped) return "MH_MEMORY=mapped";
  return probe_peers(infos);
}

// ---- Building the node, step by step ------------------------------------------------------------

// Maps the heaps of the ranks if every rank has one. Ranks in different pid namespaces cannot tell
// whether a peer is alive, and map no heaps. All messages of such ranks are left to the library:
// UCX in MPICH 4 often hangs in MPI_Finalize of such ranks if UCX has sent few messages.
void map_heaps() {
  const MemoryPath path = settings().memory;
  services.memory.emplace(
      config.me, config.ranks,
      config.single_copy ? memory::Reach::KernelCopies::yes : memory::Reach::KernelCopies::no);
  const bool wanted = services.node->has_one_pid_namespace() &&
                      (path == MemoryPath::automatic || path == MemoryPath::mapped);
  detail::config.heaps_mapped =
      heaps::share(wanted, g_node.door ? &*g_node.door : nullptr, g_node.door_name);
  if (!config.heaps_mapped) return;
  detail::config.mapped_threshold =
      std::max<std::uint64_t>(settings().mapped_threshold, kLeastThreshold);
  detail::config.least_threshold = std::min(config.least_threshold, config.mapped_threshold);
}

void apply_settings() {
  const Settings& chosen = settings();
  services.chunking.emplace(chosen.chunks);
  detail::config.order = steal::order_for(chosen.post_comm_access);
  detail::config.key[0] = services.node->header().job_key[0];
  detail::config.key[1] = services.node->header().job_key[1];
  services.send_table.attach(&services.own_area().send_table);
  services.posted_receives.attach(&services.own_area().posted_receives);
  services.keeper.emplace(services.own_area().jobs, services.node->boards(), config.me);
}

// True if all ranks of the MPI job see the same host.
bool is_on_one_host() {
  const std::uint64_t here = node::host_identity();
  const std::array<std::uint64_t, 2> mine{here, ~here};
  std::array<std::uint64_t, 2> most{};
  return agreement::reduce(mine.data(), most.data(), 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD) &&
         most[0] == ~most[1] && most[0] != 0;
}

// Returns a communicator of the ranks that can share memory. An MPI job on one host needs no
// MPI_Comm_split_type, in which ranks of some MPI libraries keep their cores while they wait
// (docs/decisions/interposer/start-of-job.md).
MPI_Comm ranks_of_host() {
  MPI_Comm shared = MPI_COMM_NULL;
  const auto duplicate = [&](MPI_Request* request) {
    return real.Comm_idup(MPI_COMM_WORLD, &shared, request);
  };
  if (is_on_one_host() && agreement::carry_out(duplicate)) return shared;
  real.Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, config.world_rank, MPI_INFO_NULL,
                       &shared);
  return shared;
}

// Builds the node step by step; all its ranks agree on every step. A profile needs the segment, so
// the node is built for a profile even if MH_ENABLE=0 forbids all help.
void build_steps() {
  const char* const disabled = settings().enable ? "" : "MH_ENABLE=0";
  if (stops_at(!profile::is_wanted() && *disabled != 0 ? disabled
               : config.ranks == 1                     ? "one rank on the node"
               : config.ranks > node::kMaxRanks        ? "more ranks on the node than supported"
               : tolerates_failures() ? "the MPI library tolerates failures of ranks"
                                      : "")) {
    return;
  }
  const std::vector<PeerInfo> infos = exchange_peer_infos();
  if (stops_at(check_network(infos)) || stops_at(enter_segment()) || stops_at(join_node())) return;
  agreement::barrier(config.node_comm);
  services.node->settle();
  const bool stops = stops_at(disabled);
  if (config.me == 0 && !stops) g_node.published.open(g_node.segment->fd());
  g_node.segment->close_fd();
  if (stops) return;
  apply_settings();
  services.memory.emplace(config.me, config.ranks, memory::Reach::KernelCopies::no);
  // Rounds and windows load and store the program's buffers.
  detail::config.rounds = std::ranges::none_of(infos, &PeerInfo::device_buffers);
  switches.active = true;
  if (stops_at(look_for_objections())) return;
  detail::config.helps_messages = true;
  detail::config.windows =
      agreed_reason(!config.rounds || settings().windows == WindowScope::none ? "none" : "")
          .empty();
  detail::config.single_copy = !stops_at(try_memory(infos));
  // Pipelines need a core for each rank: only threads of a rank's own process can move its end of a
  // message on a pipeline.
  const std::string why_no_pipelines =
      agreed_reason(!services.node->has_one_pid_namespace() ? "process numbers differ"
                    : node_setup::oversubscribed()          ? "more ranks than cores"
                                                            : "");
  const bool contiguous_too = settings().memory != MemoryPath::cma;
  map_heaps();
  detail::config.pipelines = why_no_pipelines.empty() && (config.single_copy || contiguous_too);
  if (!config.single_copy)
    detail::config.exchange_threshold = std::min(config.exchange_threshold, kLeastExchangedByCells);
  detail::config.rendezvous = config.single_copy || config.pipelines || config.heaps_mapped;
}

}  // namespace

void await_everyone() {
  const std::uint64_t begin = ticks();
  bool said = config.world_rank != 0;
  agreement::barrier(MPI_COMM_WORLD, [&] {
    if (said || ticks() - begin < ticks_from_ns(tuning::kStartPatienceNs)) return;
    said = true;
    print_message(
        "still waiting for all ranks to start; LD_PRELOAD must be set for every rank of the job");
  });
}

void make_communicators() {
  MPI_Comm shared = ranks_of_host();
  int rank = 0;
  int size = 0;
  real.Comm_rank(shared, &rank);
  real.Comm_size(shared, &size);
  const auto ranks = static_cast<std::uint64_t>(size);
  const auto nodes = std::clamp<std::uint64_t>(settings().fake_nodes, 1, ranks);
  detail::config.node_comm = shared;
  if (nodes > 1) {
    const auto color = static_cast<int>(static_cast<std::uint64_t>(rank) * nodes / ranks);
    real.Comm_split(shared, color, rank, &detail::config.node_comm);
    real.Comm_free(&shared);
  }
  real.Comm_dup(MPI_COMM_SELF, &detail::config.self_comm);
  real.Comm_set_errhandler(config.node_comm, MPI_ERRORS_RETURN);
  real.Comm_set_errhandler(config.self_comm, MPI_ERRORS_RETURN);
  datatypes::probe_commits_on(config.self_comm);
  real.Comm_rank(config.node_comm, &rank);
  real.Comm_size(config.node_comm, &size);
  detail::config.me = static_cast<std::uint32_t>(rank);
  detail::config.ranks = static_cast<std::uint32_t>(size);
}

std::size_t cells_offset() { return sizeof(RankArea) + observe::helped_row_bytes(config.ranks); }

std::uint32_t usable_cores() {
  const std::uint64_t assumed = settings().cores;
  if (assumed != 0) return static_cast<std::uint32_t>(assumed);
  const auto parts = static_cast<std::uint32_t>(settings().fake_nodes);
  if (parts == 1) return services.node->usable_cpus();
  const auto all = static_cast<std::uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  return std::min(services.node->usable_cpus(), std::max(all / parts, 1U));
}

bool oversubscribed() { return config.ranks > usable_cores(); }

void agree_on_threshold() {
  std::uint64_t least = config.least_threshold;
  agreement::reduce(&detail::config.least_threshold, &least, 1, MPI_UINT64_T, MPI_MIN,
                    MPI_COMM_WORLD);
  detail::config.least_threshold = least;
}

void build_node() {
  build_steps();
  if (!config.heaps_mapped) heaps::stop_growing();
  g_node.door.reset();
}

void withdraw_node() { g_node.published.withdraw(); }

const std::string& why_no_single_copy() { return g_node.why_not; }

}  // namespace mh::mpi::node_setup
