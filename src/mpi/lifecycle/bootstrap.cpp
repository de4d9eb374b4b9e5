// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/job/runtime.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/clock.hpp"
#include "base/say.hpp"
#include "base/settings.hpp"
#include "memory/devices.hpp"
#include "memory/probe.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/front/entry.hpp"
#include "mpi/collective/gate.hpp"
#include "mpi/calls/in_loop.hpp"
#include "mpi/protocol/ledger.hpp"
#include "mpi/protocol/outgoing.hpp"
#include "mpi/lifecycle/report.hpp"
#include "mpi/protocol/short_receives.hpp"
#include "mpi/tags.hpp"
#include "mpi/protocol/wires.hpp"
#include "node/segment.hpp"
#include "openmp/marker.hpp"
#include "openmp/sharing.hpp"
#include "openmp/stack.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {

Runtime g;

namespace {

using std::chrono::milliseconds;

constexpr auto kDoorTimeout = milliseconds(20'000);
constexpr std::uint64_t kLeastExchangedByCells = 1U << 20U;  // from here on both directions gain
constexpr double kPatienceNs = 20e9;  // after this long at the start we say what we wait for

std::optional<node::Segment> g_segment;
std::string g_why_not;  // why this node's ranks do not help each other, empty if they do
std::uint64_t g_probe_word = 0;

// ---- The wait loop's view of this rank ----------------------------------------------------------

class NodeWork final : public wait::Work {
 public:
  void progress() override {
    resend_wanted();
    settle_landed();
    short_receives.look_at_all();
    progress_orphans();
    progress_persistent();
    wires::progress();
  }

  bool own() override {
    return receive_chunk() || push_sent() || (g.carrier && g.carrier->move_one());
  }

  bool lend_to_partner() override {
    if (!g.carrier || !g.lender) return false;
    const auto late = g.carrier->who_is_late();
    return late && lend([&] { return g.lender->lend_to(*late); });
  }

  bool own_within_own() override {
    resend_wanted();
    return (g.carrier && g.carrier->move_one()) || lend_to_partner();
  }

  bool help() override {
    std::atomic<std::uint32_t>& idle = g.node->mine().idle;
    // relaxed: a hint for ranks that count the active ones.
    idle.store(0, std::memory_order_relaxed);
    // A helper of the receiver copies a chunk once, this rank would copy it twice.
    const bool worked = g.lent_copies ? lend_core() || copy_chunk() : copy_chunk() || lend_core();
    idle.store(1, std::memory_order_relaxed);
    return worked;
  }

  void idle(bool now) override {
    g.node->mine().idle.store(now ? 1 : 0, std::memory_order_relaxed);
    if (now && g.sharing_loops) look_around();
    if (!now && g.workers) g.workers->stop();
  }

  void end() override {
    if (g.lender) g.lender->take_back();
  }

  void account(std::uint64_t waited) override {
    g.counters().wait_ticks.add(waited);
    g.counters().waits.add(1);
  }

  void between_looks() override {
    in_loop::let_others();
    if (g.helpers != nullptr && g.helpers->has_waiting_helpers()) ::sched_yield();
  }
  bool is_guest() override { return lend::guest() != lend::Guest::no; }
  bool is_overdue() override { return lend::guest() == lend::Guest::overdue; }
  void go_home() override { lend::give_core_back(); }

 private:
  // A chunk of another rank's message.
  static bool copy_chunk() { return thief().help() == steal::Outcome::worked; }

  // A chunk of a message this rank receives.
  static bool receive_chunk() {
    steal::JobSlots& mine = g.area(g.me).jobs;
    // relaxed: written by this rank alone.
    for (std::uint32_t open = mine.open.load(std::memory_order_relaxed); open != 0;
         open &= open - 1) {
      if (thief().run_one_chunk(mine.jobs[__builtin_ctz(open)], g.me)) return true;
    }
    return false;
  }

  // This rank's core, for a unit, to a rank with something to do that its own process does best.
  static bool lend_core() {
    if (!g.lender) return false;
    return lend([] {
      return g.lender->lend([] {
        if (g.workers && openmp::team_is_idle()) g.workers->start();
      });
    });
  }

  template <class Way>
  static bool lend(Way&& way) {
    const std::uint64_t begin = ticks();
    const lend::Outcome outcome = way();
    if (outcome == lend::Outcome::nothing) return false;
    if (outcome == lend::Outcome::refused) {
      say_once_not_here();
      return false;
    }
    g.counters().lent_ticks.add(ticks() - begin);
    g.counters().lent_units.add(outcome == lend::Outcome::lent ? 1 : 0);
    return true;
  }

  // Objects that were loaded since (Python's extension modules) may have loops as well.
  static void look_around() {
    constexpr double kEveryNs = 50e6;
    static std::uint64_t next_look = 0;  // of the one thread that has the wait loop's hands
    const std::uint64_t now = ticks();
    if (now < next_look) return;
    next_look = now + ticks_from_ns(kEveryNs);
    openmp::look_for_new_objects();
  }

  static void say_once_not_here() {
    static bool said = false;
    if (!said && openmp::shared_region() != nullptr)
      say("loops: a rank may not run on the cores of another (cpusets); start the job "
          "with one set of cores for all ranks of a node to have loops shared");
    said = true;
  }
};

NodeWork g_work;

// ---- Agreement ----------------------------------------------------------------------------------

// The reason of the lowest rank that has one, known to all ranks of the node.
std::string shared(const std::string& reason) {
  std::array<char, 160> text{};
  reason.copy(text.data(), text.size() - 1);
  const auto length = static_cast<int>(text.size());
  std::vector<char> all(text.size() * g.ranks);
  real.Allgather(text.data(), length, MPI_CHAR, all.data(), length, MPI_CHAR, g.node_comm);
  for (std::uint32_t rank = 0; rank < g.ranks; ++rank) {
    if (all[rank * text.size()] != 0) return &all[rank * text.size()];
  }
  return {};
}

void share_reason(const std::string& reason) { g_why_not = shared(reason); }

// All ranks of the job must come here; a rank without the library never does.
void await_everyone() {
  MPI_Request request = MPI_REQUEST_NULL;
  if (real.Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return;
  const std::uint64_t begin = ticks();
  bool said = false;
  int flag = 0;
  wait::until([&] {
    if (!said && g.world_rank == 0 && ticks() - begin > ticks_from_ns(kPatienceNs)) {
      said = true;
      say("still waiting for all ranks to start; LD_PRELOAD must be set for every rank of the job");
    }
    return real.Test(&request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag != 0;
  });
}

void make_communicators() {
  MPI_Comm shared = MPI_COMM_NULL;
  real.Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, g.world_rank, MPI_INFO_NULL, &shared);
  int rank = 0;
  int size = 0;
  real.Comm_rank(shared, &rank);
  real.Comm_size(shared, &size);
  const auto ranks = static_cast<std::uint64_t>(size);
  const auto nodes = std::clamp<std::uint64_t>(settings().fake_nodes, 1, ranks);
  const auto color = static_cast<int>(static_cast<std::uint64_t>(rank) * nodes / ranks);
  real.Comm_split(shared, color, rank, &g.node_comm);
  real.Comm_free(&shared);
  real.Comm_dup(MPI_COMM_SELF, &g.self_comm);
  real.Comm_set_errhandler(g.node_comm, MPI_ERRORS_RETURN);
  real.Comm_set_errhandler(g.self_comm, MPI_ERRORS_RETURN);
  real.Comm_rank(g.node_comm, &rank);
  real.Comm_size(g.node_comm, &size);
  g.me = static_cast<std::uint32_t>(rank);
  g.ranks = static_cast<std::uint32_t>(size);
}

// ---- Who is on the node -------------------------------------------------------------------------

// What the ranks of a node tell each other first; with it a peer can try to read this rank.
struct Card {
  memory::Surroundings surroundings;
  std::uint64_t address;
  std::uint64_t value;
  std::int32_t pid;
};
static_assert(std::is_trivially_copyable_v<Card>);

std::vector<Card> exchange_cards() {
  g_probe_word = ticks() ^ (static_cast<std::uint64_t>(getpid()) << 40U);
  const Card mine{.surroundings = memory::look_around(),
                  .address = reinterpret_cast<std::uint64_t>(&g_probe_word),
                  .value = g_probe_word,
                  .pid = getpid()};
  std::vector<Card> cards(g.ranks);
  real.Allgather(&mine, sizeof mine, MPI_BYTE, cards.data(), sizeof mine, MPI_BYTE, g.node_comm);
  return cards;
}

// The door of the segment is an address in a network namespace.
std::string check_network(const std::vector<Card>& cards) {
  const bool same = std::ranges::all_of(cards, [&](const Card& card) {
    return card.surroundings.net_namespace == cards[0].surroundings.net_namespace;
  });
  return same ? "" : "ranks of the node run in different network namespaces";
}

// ---- The segment --------------------------------------------------------------------------------

struct Invitation {
  std::uint64_t bytes;  // 0: the root could not make a segment
  node::DoorName door;
};
static_assert(std::is_trivially_copyable_v<Invitation>);

struct Root {
  std::optional<node::Segment> segment;
  std::optional<node::Door> door;
};

// Where the cells of a rank's belts begin in its area.
std::size_t cells_offset() { return sizeof(RankArea) + observe::helped_row_bytes(g.ranks); }

std::size_t area_bytes() { return cells_offset() + p2p::cells_bytes(g.ranks); }

std::string reason(const char* what, Status status) {
  return fmt::format("{}: {}", what, describe(status.code));
}

// The first rank of the node makes the segment.
std::string make_segment(Root& root, Invitation& invitation) {
  const std::size_t bytes = node::Node::bytes_needed(g.ranks, area_bytes());
  auto segment = node::Segment::create(bytes);
  if (!segment) return reason("no shared memory", segment.status());
  auto topology = node::load_topology();
  const Status initialised =
      node::Node::initialise({segment->data(), segment->size()}, g.ranks, area_bytes(),
                             topology ? *topology : node::Topology{});
  if (!initialised) return reason("no node segment", initialised);
  auto door = node::Door::open();
  if (!door) return reason("no socket to pass shared memory on", door.status());
  invitation = {.bytes = bytes, .door = door->name()};
  root.segment = std::move(*segment);
  root.door = std::move(*door);
  return {};
}

std::string fetch_segment(const Invitation& invitation) {
  auto fd = node::Door::fetch(invitation.door, kDoorTimeout);
  if (!fd) return reason("the shared memory of the node is out of reach", fd.status());
  auto segment = node::Segment::attach(std::move(*fd), invitation.bytes);
  if (!segment) return reason("no shared memory", segment.status());
  g_segment = std::move(*segment);
  return {};
}

std::string enter_segment() {
  Root root;
  Invitation invitation{};
  std::string failure;
  if (g.me == 0) failure = make_segment(root, invitation);
  real.Bcast(&invitation, sizeof invitation, MPI_BYTE, 0, g.node_comm);
  if (invitation.bytes == 0) return failure;
  if (g.me != 0) return fetch_segment(invitation);
  const Status handed =
      root.door->hand_over(static_cast<int>(g.ranks) - 1, root.segment->fd(), kDoorTimeout);
  g_segment = std::move(root.segment);
  return handed ? "" : reason("shared memory was not passed on", handed);
}

std::string join_node() {
  auto node = node::Node::join({g_segment->data(), g_segment->size()}, g.me, g.ranks,
                               static_cast<std::uint32_t>(g.world_rank));
  if (!node) return reason("the node segment does not fit", node.status());
  g.node.emplace(std::move(*node));
  new (g.node->area(g.me)) RankArea;
  return {};
}

// ---- Reaching each other's memory ---------------------------------------------------------------

void let_peers_read(const std::vector<Card>& cards) {
  if (cards[g.me].surroundings.yama_scope != 1) return;
  std::vector<pid_t> pids;
  for (const Card& card : cards) pids.push_back(card.pid);
  static_cast<void>(memory::allow_ranks_to_read(pids));  // the probe tells whether it helped
}

std::string probe_peers(const std::vector<Card>& cards) {
  for (std::uint32_t rank = 0; rank < g.ranks; ++rank) {
    if (rank == g.me) continue;
    const Card& card = cards[rank];
    if (card.surroundings.pid_namespace != cards[g.me].surroundings.pid_namespace) {
      return "ranks run in different pid namespaces";
    }
    const memory::View word{.address = card.address, .pid = card.pid, .rank = rank};
    const Status reached = memory::probe(word, card.value);
    if (!reached) return reason("ranks cannot read each other's memory", reached);
  }
  return {};
}

// Why no message will be described, whatever can be reached.
std::string look_for_objections() {
  if (settings().memory == MemoryWay::none) return "MH_MEMORY=none";
  return memory::device_runtime_loaded() ? "an accelerator runtime is loaded" : "";
}

// Why ranks will not read and write each other's memory, empty if they may.
std::string try_memory(const std::vector<Card>& cards) {
  let_peers_read(cards);
  real.Barrier(g.node_comm);
  if (settings().memory == MemoryWay::cells) return "MH_MEMORY=cells";
  return probe_peers(cards);
}

// ---- Start and stop -----------------------------------------------------------------------------

void apply_settings() {
  const Settings& chosen = settings();
  g.chunking.emplace(chosen.chunks);
  g.order = steal::order_for(chosen.post_comm_access);
  g.key[0] = g.node->header().job_key[0];
  g.key[1] = g.node->header().job_key[1];
  g.outbox.attach(&g.area(g.me).outbox);
  g.landings.attach(&g.area(g.me).landings);
  g.keeper.emplace(g.area(g.me).jobs, g.node->board(), g.me);
}

// Of this node; nodes that are parts of one machine have at most their part of its cores.
std::uint32_t usable_cores() {
  const std::uint64_t assumed = settings().cores;
  if (assumed != 0) return static_cast<std::uint32_t>(assumed);
  const auto parts = static_cast<std::uint32_t>(settings().fake_nodes);
  if (parts == 1) return g.node->usable_cpus();
  const auto all = static_cast<std::uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  return std::min(g.node->usable_cpus(), std::max(all / parts, 1U));
}

// More ranks than cores: a core that waits is somebody else's.
bool crowded() { return g.ranks > usable_cores(); }

// Where this rank's workers live: on cores that are its alone, or, where cores are only assumed, on
// any, in fair shares.
std::vector<std::int32_t> worker_cpus() {
  const std::int32_t here = g.node->mine().cpu;
  if (settings().cores == 0) return lend::cpus_for_workers(g.node->own_cpus(), here);
  const std::size_t share = usable_cores() / g.ranks - 1;
  return std::vector<std::int32_t>(std::min(share, lend::Workers::kMost), here);
}

wait::Rules rules() {
  wait::Rules rules;
  rules.crowded = crowded();
  rules.least_spin = ticks_from_ns(settings().spin_us * 1e3);
  rules.most_spin = rules.least_spin * 16;
  return rules;
}

// The shortest message that any rank of the job describes: what a receiver need not expect in
// shorter receives.
void agree_on_threshold() {
  std::uint64_t least = g.threshold;
  real.Allreduce(&g.threshold, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  g.threshold = least;
}

void say_settings() {
  if (g.world_rank != 0) return;
  for (const std::string& warning : loaded_settings().warnings) say("{}", warning);
}

// Whether messages that the kernel could copy may go by cells: copied twice, but by sender and
// receiver at the same time and without looking up pages. Third ranks, who would copy too, cannot
// then; with them it has not been measured.
bool cells_pay() {
  constexpr double kSlowPageNs = 150;  // break even at 100 (docs/decisions.md)
  if (settings().memory == MemoryWay::either) return true;
  if (settings().memory != MemoryWay::automatic || g.ranks != 2) return false;
  const int slow = memory::kernel_page_ns() > kSlowPageNs ? 1 : 0;
  int agreed = slow;
  real.Allreduce(&slow, &agreed, 1, MPI_INT, MPI_MAX, g.node_comm);
  return agreed != 0;
}

// Builds up the node, step by step; every step is agreed on by all its ranks.
void build_node() {
  share_reason(!settings().enable          ? "MH_ENABLE=0"
               : g.ranks == 1              ? "one rank on the node"
               : g.ranks > node::kMaxRanks ? "more ranks on the node than supported"
                                           : "");
  if (!g_why_not.empty()) return;
  const std::vector<Card> cards = exchange_cards();
  share_reason(check_network(cards));
  if (!g_why_not.empty()) return;
  share_reason(enter_segment());
  if (!g_why_not.empty()) return;
  share_reason(join_node());
  if (!g_why_not.empty()) return;
  real.Barrier(g.node_comm);
  g.node->settle();
  g_segment->close_fd();
  apply_settings();
  g.active = true;
  share_reason(look_for_objections());
  if (!g_why_not.empty()) return;
  g.willing = true;
  share_reason(try_memory(cards));
  g.reaching = g_why_not.empty();
  // Who is late with a message on a belt must be given a core, by a thread of its own process.
  const std::string why_no_belts = shared(!g.node->one_pid_namespace() ? "process numbers differ"
                                          : crowded()                  ? "more ranks than cores"
                                                                       : "");
  const bool contiguous_too = settings().memory != MemoryWay::cma;
  g.carrying = why_no_belts.empty() && (g.reaching || contiguous_too);
  if (!g.reaching) g.exchange_threshold = std::min(g.exchange_threshold, kLeastExchangedByCells);
  g.describing = g.reaching || g.carrying;
  g.cells_pay = g.carrying && g.reaching && cells_pay();
}

// Loops of this rank's OpenMP regions may be joined.
void share_loops() {
  const auto whose = settings().openmp ? openmp::Whose::all : openmp::Whose::marked;
  openmp::lists.set(settings().openmp_exclude, settings().openmp_only);
  const Status shared = openmp::start(*g.helpers, whose);
  if (shared) {
    g.threads = g.threads || openmp::has_marked_loops();
    in_loop::start();
  } else if (g.me == 0) {
    say("no loops are shared: the program has {} OpenMP run time",
        shared.code == Code::unsupported ? "no, or more than one," : "no usable");
  }
}

// Once a node.
void say_no_loops(std::string_view reason) {
  if (g.me == 0) say("loops are not shared: {}", reason);
}

// This rank's waits lend its core, and others lend theirs to its large receives and its loops.
void share_cores() {
  bool loops = settings().openmp || openmp::has_marked_loops();
  // A pair has its own two hands.
  const bool copies = settings().lend_copies && (g.reaching || g.carrying) && g.ranks > 2;
  if (crowded() || !(loops || copies || g.willing)) return;
  if (!g.node->one_pid_namespace()) {
    if (loops) say_no_loops("ranks run in different pid namespaces");
    return;
  }
  const auto policy = settings().victim;
  // Who is at one end of a message on a belt knows better when to lend to the other.
  const auto admitted = [](std::uint32_t rank, lend::Kind kind) {
    const bool own = kind == lend::Kind::belts && g.carrier && g.carrier->has_messages();
    return !own && thief().may_help(rank);
  };
  g.helpers = new lend::Pool(*g.node, g.area(g.me).lendings, usable_cores() - 1,
                             loops ? openmp::stack_for_loops() : 0);
  if (loops && !g.helpers->has_room()) {
    say_no_loops("too little address space (ulimit -v) for stacks as large as the program's own");
    loops = false;
  }
  g.lender.emplace(*g.node, offsetof(RankArea, lendings), policy, admitted);
  if (const auto cpus = worker_cpus(); loops && !cpus.empty()) {
    g.workers.emplace(*g.node, offsetof(RankArea, lendings), policy, admitted, cpus);
  }
  if (copies) {
    g.lent_copies.emplace(*g.helpers, *g.node, g.area(g.me).jobs, g.counters());
  }
  if (g.carrying) {
    constexpr std::size_t kOutbox = offsetof(RankArea, outbox);
    constexpr std::size_t kBelts = offsetof(RankArea, belts);
    g.carrier.emplace(
        *g.node, p2p::Carrier::Offsets{.outbox = kOutbox, .belts = kBelts, .cells = cells_offset()},
        g.counters(), *g.helpers);
  }
  g.sharing_loops = loops;
  if (loops) share_loops();
}

// One line a node where helping was expected and does not come about.
void say_why_not() {
  const bool chosen = !settings().enable || settings().memory == MemoryWay::none ||
                      settings().memory == MemoryWay::cells || g.ranks == 1;
  if (g.reaching || g.me != 0 || chosen) return;
  say("large messages go through {}: {}; `mh doctor` explains",
      g.carrying ? "shared cells" : "the MPI library", g_why_not);
}

}  // namespace

steal::Thief& thief() {
  constexpr steal::AreaOffsets kOffsets{.slots = offsetof(RankArea, jobs),
                                        .counters = offsetof(RankArea, counters),
                                        .helped = sizeof(RankArea)};
  thread_local steal::Thief hands(*g.node, kOffsets, settings().strategy,
                                  settings().saturate_ranks);
  return hands;
}

mh_marker marker() { return openmp::mark; }

void poke_library() {
  // Not on a communicator of one rank: MPICH answers that without any progress.
  int flag = 0;
  real.Iprobe(MPI_ANY_SOURCE, tags::kPoke.first, g.node_comm, &flag, MPI_STATUS_IGNORE);
}

void start() {
  const std::uint64_t begin = ticks();
  int level = MPI_THREAD_SINGLE;
  real.Query_thread(&level);
  g.multiple = level == MPI_THREAD_MULTIPLE;
  g.threads = g.multiple;
  real.Comm_rank(MPI_COMM_WORLD, &g.world_rank);
  MPI_Errhandler handler{};
  real.Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  g.errors_are_fatal = handler == MPI_ERRORS_ARE_FATAL;
  g.threshold = std::max<std::uint64_t>(settings().threshold.one_way, kLeastThreshold);
  g.exchange_threshold = settings().threshold.exchanged;
  say_settings();
  await_everyone();
  make_communicators();
  build_node();
  agree_on_threshold();
  say_why_not();
  g.started = true;
  if (g.active) share_cores();
  wires::start();
  if (!g.active) return;
  if (g.describing && g.errors_are_fatal && !g.threads) short_receives.set_limit(g.threshold);
  comms::start();
  g.counters().start_tick.set(begin);
  wait::employ(&g_work, rules());
}

void stop() {
  if (!g.started) return;
  g.started = false;
  // Wait, with helping hands, for the ranks of this node: after that none of them can still want
  // anything of this one.
  if (g.active) gate::barrier(MPI_COMM_WORLD);
  wires::stop();
  openmp::stop();
  report(g.describing ? "" : g_why_not);
  wait::employ(nullptr, {});
  g.workers.reset();
  g.lender.reset();
  g.lent_copies.reset();
  g.carrier.reset();
  delete std::exchange(g.helpers, nullptr);
  gate::stop();
  if (g.active) {
    stop_persistent();
    datatypes::stop();
    comms::stop();
  }
  g.active = false;
  g.describing = g.reaching = g.carrying = false;
  real.Comm_free(&g.node_comm);
  real.Comm_free(&g.self_comm);
  // The segment stays mapped: threads of the program may still be inside a call of ours, and the
  // process is about to end anyway.
}

}  // namespace mh::mpi
