// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rma/windows.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/clock.hpp"
#include "mpi/collective/arrivals.hpp"
#include "mpi/collective/direct.hpp"
#include "mpi/collective/round.hpp"
#include "mpi/compat/error_handlers.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "rma/mapping.hpp"

namespace mh::mpi::rma {
namespace {

using mh::rma::Control;
using mh::rma::Exposed;
using mh::rma::FileRange;
using mh::rma::Mappings;

// A table of windows by a number: the bits of the handle, or InternodeState::id.
struct Registry {
  std::mutex mutex;  // guards `windows`
  std::unordered_map<std::uint64_t, std::shared_ptr<Win>> windows;
  // The number of windows. relaxed: a hint that saves a search in an empty table.
  std::atomic<std::uint32_t> count{0};

  [[nodiscard]] bool has_any() const { return count.load(std::memory_order_relaxed) != 0; }
  std::shared_ptr<Win> find(std::uint64_t number) {
    const std::lock_guard<std::mutex> hold(mutex);
    const auto at = windows.find(number);
    return at == windows.end() ? nullptr : at->second;
  }
  void insert(std::uint64_t number, const std::shared_ptr<Win>& win) {
    const std::lock_guard<std::mutex> hold(mutex);
    windows[number] = win;
    count.store(static_cast<std::uint32_t>(windows.size()), std::memory_order_relaxed);
  }
  std::shared_ptr<Win> take(std::uint64_t number) {
    const std::lock_guard<std::mutex> hold(mutex);
    const auto taken = windows.extract(number);
    count.store(static_cast<std::uint32_t>(windows.size()), std::memory_order_relaxed);
    return taken ? taken.mapped() : nullptr;
  }
};

// In nanoseconds. If another thread of the rank, in MPI_Win_free, has not given control memory back
// after this time, the new window stays the library's.
constexpr double kMostWaitForControlNs = 1e9;

ControlPool g_controls;
Registry g_windows;  // by handle
// Windows over several nodes by InternodeState::id. A table apart from g_windows, because a thread
// holds the mutex of g_windows while it helps: the RMA server (serving.hpp) must not wait for that
// thread.
Registry g_internode_windows;

// ---- Deciding whether a window is ours, and making it -------------------------------------------

// The memory of a rank as published to the other ranks of the window.
struct ExposureInfo {
  std::uint64_t base;
  std::uint64_t bytes;
  std::uint64_t unit;
  std::uint32_t node_rank;
  // The next two fields say where the window's control memory is; only the window's first rank on
  // the node sets them. `control_fd`: the descriptor of new memory; -1: all ranks keep the memory
  // of this number from an earlier window. With -1 and the number 0 there is no control memory.
  std::int32_t control_fd;
  std::uint32_t control_number;  // ControlName::number
  std::int32_t world_rank;
  std::uint64_t id;  // InternodeState::id, chosen by the window's first rank
  FileRange file;    // the file that backs the memory, if any
};
static_assert(std::is_trivially_copyable_v<ExposureInfo>);

Exposed exposed_of(const ExposureInfo& info, bool elsewhere) {
  return {.base = info.base,
          .bytes = info.bytes,
          .unit = info.unit,
          .node_rank = elsewhere ? Exposed::kElsewhere : info.node_rank,
          .pid = elsewhere ? 0 : services.node->record(info.node_rank).pid};
}

// True if this process reaches the memory of the window's rank `target`, which `info` describes, or
// if that rank is on another node. Sets target.mapped if the memory is mapped.
bool can_reach(Exposed& target, const ExposureInfo& info, const Mappings& mappings, bool dynamic) {
  if (target.is_elsewhere()) return true;
  if (target.node_rank == config.me) {
    if (!dynamic) target.mapped = reinterpret_cast<std::byte*>(target.base);
    return true;
  }
  if (!dynamic && target.bytes == 0) return true;
  target.mapped = mappings.address_of(info.file);
  if (target.mapped != nullptr || config.single_copy) return true;
  const memory::View view{target.base, target.pid, target.node_rank};
  return !dynamic && config.heaps_mapped && services.memory->to_here(view, target.bytes) != nullptr;
}

// True if a window of this communicator may be ours (windows.hpp), as far as the ranks know without
// communication. The answer is the same on all of them.
bool may_be_ours(const Comm& comm) {
  if (!config.windows || !services.node->has_one_pid_namespace()) return false;
  if (comm.on_one_node) return comm.members.size() > 1 && comm.line != nullptr;
  return config.internode_windows && comm.size <= static_cast<int>(node::kMaxRanks);
}

struct WindowParts {
  ControlName control_name;
  std::optional<node::Segment> control;
  std::vector<Exposed> exposed;
  std::unique_ptr<InternodeState> internode;
};

// Returns the window's first rank on this node, which makes the control memory.
int root_of(const Comm& comm) { return comm.members.front().rank; }

std::size_t control_bytes(const Comm& comm) {
  return Control::bytes_needed(static_cast<std::uint32_t>(comm.size));
}

// Takes control memory that this rank has kept from an earlier window of the same ranks, or makes
// new memory. Called by the window's first rank on the node.
void make_control(const Comm& comm, ExposureInfo& mine, WindowParts& made) {
  const bool keeps = comm.on_one_node;
  if (auto unused = keeps ? g_controls.take_unused(comm.group_on_node.get()) : std::nullopt) {
    made.control_name = unused->name;
    made.control = std::move(unused->segment);
  } else if (auto control = node::Segment::create(control_bytes(comm))) {
    made.control = std::move(*control);
    if (keeps) {
      made.control_name = g_controls.name(config.me, control_bytes(comm), comm.group_on_node);
    }
    mine.control_fd = made.control->fd();
  }
  mine.control_number = made.control_name.number;
  if (made.control) {
    Control(made.control->data(), static_cast<std::uint32_t>(comm.size)).construct_header();
  }
}

// Takes kept control memory that the window's first rank on the node uses again for this window.
// Another thread of this rank may still be in the MPI_Win_free of the earlier window, which has
// returned on the first rank. This thread then waits until that thread has given the memory back.
std::optional<node::Segment> take_again(const ControlName& name) {
  const std::uint64_t end = ticks() + ticks_from_ns(kMostWaitForControlNs);
  std::optional<node::Segment> taken;
  wait::until([&] {
    taken = g_controls.take(name);
    return taken || ticks() > end;
  });
  return taken;
}

// Gets the control memory of a new window: the memory kept from an earlier window, or new memory,
// which it maps. Gets none if the first rank has none. `root`: what the window's first rank on the
// node has published. Called by the other ranks of the node.
void find_control(const Comm& comm, const ExposureInfo& root, WindowParts& made) {
  made.control_name = {.maker = root.node_rank, .number = root.control_number};
  if (root.control_fd < 0) {
    if (root.control_number != 0) made.control = take_again(made.control_name);
    return;
  }
  // The file of the control memory has no name. Its maker keeps the descriptor open until all ranks
  // agree in make_window(), so /proc leads to the file.
  const pid_t pid = services.node->record(root.node_rank).pid;
  const std::string path =
      "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(root.control_fd);
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) return;
  if (auto attached = node::Segment::attach(std::move(fd), control_bytes(comm)))
    made.control = std::move(*attached);
}

std::unique_ptr<InternodeState> internode_state_of(const Comm& comm,
                                                   const std::vector<ExposureInfo>& infos) {
  if (comm.on_one_node) return nullptr;
  auto internode = std::make_unique<InternodeState>();
  internode->id = infos[0].id;
  internode->peers = std::make_unique<RemoteRank[]>(infos.size());
  for (std::size_t rank = 0; rank < infos.size(); ++rank) {
    internode->peers[rank].world_rank = infos[rank].world_rank;
  }
  return internode;
}

// Gathers `mine` of all ranks of the window. If `with_boards` is not null, the ranks do so by a
// round on that communicator's boards, else by the library. Returns nothing if a rank has called
// stay_out().
std::optional<std::vector<ExposureInfo>> gather_infos(MPI_Comm handle, Comm* with_boards,
                                                      const ExposureInfo& mine, int ranks) {
  std::vector<ExposureInfo> infos(static_cast<std::size_t>(ranks));
  constexpr int kBytes = sizeof mine;
  if (with_boards == nullptr) {
    real.Allgather(&mine, kBytes, MPI_BYTE, infos.data(), kBytes, MPI_BYTE, handle);
    return infos;
  }
  direct::Round round(*with_boards, direct::RoundCall::window, kBytes);
  std::memcpy(round.stage(), &mine, sizeof mine);
  round.publish_staged();
  if (!round.all_agree(coll::Route::staged)) return std::nullopt;
  for (int rank = 0; rank < ranks; ++rank)
    std::memcpy(&infos[static_cast<std::size_t>(rank)], round.staged_by(rank), sizeof mine);
  return infos;
}

// Called by a rank that leaves the window to the library: all other ranks learn this from the round
// that they enter in gather_infos(), and leave the window to the library as well.
void stay_out(Comm& with_boards) {
  direct::Round(with_boards, direct::RoundCall::window, sizeof(ExposureInfo)).publish_library();
}

// Returns true on every rank of `comm` if `here` is true on every rank; else false.
bool all_agree(MPI_Comm comm, bool here) {
  const int mine = here ? 1 : 0;
  int all = 0;
  if (!direct::allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm))
    real.Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm);
  return all != 0;
}

// Gives back the control memory of a window that stays the library's. If the memory is of an
// earlier window, all ranks keep it for the next one; if it is new (`is_new`), no rank keeps it.
void return_control(const Comm& comm, WindowParts& made, bool is_new) {
  if (is_new) {
    g_controls.forget(made.control_name, control_bytes(comm));
  } else if (made.control) {
    g_controls.give(made.control_name, std::move(*made.control));
  }
}

// True if the library has allocated the window's memory. The memory of MPI_Win_create is the
// program's, and the program may unmap such memory in any process at any time.
bool is_the_librarys(Flavor flavor) {
  return flavor == Flavor::allocated || flavor == Flavor::shared;
}

// Finds this rank's mapping of the window's memory, and sets mine.file to the file behind it, by
// which other ranks find their own mappings. Returns no mappings if the program has allocated the
// memory.
Mappings find_own_mapping(Flavor flavor, ExposureInfo& mine) {
  if (!is_the_librarys(flavor)) return {};
  Mappings mappings = Mappings::around(mine.base);
  if (mine.bytes != 0) {
    const auto* memory = reinterpret_cast<const void*>(mine.base);
    mine.file = mappings.file_of(memory, mine.bytes).value_or(FileRange{});
  }
  return mappings;
}

// Fills in made.exposed: how this process reaches the memory of each rank. False if there is a rank
// whose memory it does not reach.
bool expose(const Comm& comm, const std::vector<ExposureInfo>& infos, Mappings mappings,
            Flavor flavor, WindowParts& made) {
  // Most libraries map the memory of all ranks in one mapping, and `mappings` has the one with this
  // rank's memory. Reading all mappings of the process takes longer and is needed only if
  // `mappings` lacks the memory of a rank.
  const auto is_mapped = [&](const ExposureInfo& info) {
    return info.file.inode == 0 || mappings.address_of(info.file) != nullptr;
  };
  const bool may_find_more = is_the_librarys(flavor) && !mappings.are_all();
  if (may_find_more && !std::ranges::all_of(infos, is_mapped)) mappings = Mappings::read();
  bool reaches_all = true;
  for (std::size_t rank = 0; rank < infos.size(); ++rank) {
    made.exposed.push_back(exposed_of(infos[rank], comm.is_elsewhere(static_cast<int>(rank))));
    reaches_all =
        can_reach(made.exposed.back(), infos[rank], mappings, flavor == Flavor::dynamic) &&
        reaches_all;
  }
  return reaches_all;
}

// Decides with the other ranks whether a window is ours, and makes its parts if it is. Collective.
// Returns nothing if the window stays the library's. A rank with more threads in collectives than
// cores stays out. Otherwise its threads in the wait loop and its threads in the library would
// delay each other by milliseconds (collective/arrivals.hpp).
std::optional<WindowParts> make_window(MPI_Comm handle, const Comm& comm, ExposureInfo mine,
                                       Flavor flavor) {
  Comm* const with_boards = direct::comm_with_boards(handle);
  if (with_boards != nullptr && arrivals::is_crowded()) {
    stay_out(*with_boards);
    return std::nullopt;
  }
  WindowParts made;
  const bool is_root = comm.rank == root_of(comm);
  if (is_root) make_control(comm, mine, made);
  const Mappings mappings = find_own_mapping(flavor, mine);
  const auto infos = gather_infos(handle, with_boards, mine, comm.size);
  if (!infos) {
    if (is_root) return_control(comm, made, mine.control_fd >= 0);
    return std::nullopt;
  }
  const ExposureInfo& root = (*infos)[static_cast<std::size_t>(root_of(comm))];
  if (!is_root) find_control(comm, root, made);
  made.internode = internode_state_of(comm, *infos);
  const bool fine = expose(comm, *infos, mappings, flavor, made) && made.control.has_value();
  if (fine) {
    Control(made.control->data(), static_cast<std::uint32_t>(comm.size))
        .construct(static_cast<std::uint32_t>(comm.rank));
  }
  if (!all_agree(handle, fine)) {
    return_control(comm, made, root.control_fd >= 0);
    return std::nullopt;
  }
  made.control->close_fd();
  return made;
}

}  // namespace

void adopt_window(MPI_Comm comm, MPI_Win handle, Flavor flavor, const void* base,
                  std::int64_t bytes, std::int64_t unit) {
  Comm* known = windows::adopt_arrival_barrier(comm, handle);
  if (!switches.active || known == nullptr) return;
  static std::atomic<std::uint32_t> made_here{0};  // relaxed: only counted
  const bool dynamic = flavor == Flavor::dynamic;
  const ExposureInfo mine{.base = dynamic ? 0 : reinterpret_cast<std::uint64_t>(base),
                          .bytes = dynamic ? ~std::uint64_t{0} : static_cast<std::uint64_t>(bytes),
                          .unit = dynamic ? 1 : static_cast<std::uint64_t>(unit),
                          .node_rank = config.me,
                          .control_fd = -1,
                          .control_number = 0,
                          .world_rank = config.world_rank,
                          .id = static_cast<std::uint64_t>(config.world_rank) << 32U |
                                made_here.fetch_add(1, std::memory_order_relaxed),
                          .file = {}};
  std::optional<WindowParts> made;
  if (may_be_ours(*known)) made = make_window(comm, *known, mine, flavor);
  if (known->rank == 0 && known->size > 1) {
    observe::RankCounters& counters = services.counters();
    (made ? counters.windows_ours : counters.windows_left).add(1);
  }
  if (!made) return;
  insert_window(std::make_shared<Win>(handle, flavor, *known, made->control_name,
                                      std::move(*made->control), std::move(made->exposed),
                                      std::move(made->internode)));
}

Win::Win(MPI_Win made, Flavor kind, Comm& arrivals, const ControlName& name, node::Segment shared,
         std::vector<mh::rma::Exposed> exposed, std::unique_ptr<InternodeState> other_nodes)
    : handle(made),
      flavor(kind),
      group(MPI_GROUP_NULL),
      comm(&arrivals),
      control_name(name),
      control(std::move(shared)),
      window(Control(control.data(), static_cast<std::uint32_t>(arrivals.size)),
             static_cast<std::uint32_t>(arrivals.rank), std::move(exposed)),
      internode(std::move(other_nodes)),
      posts_used(static_cast<std::size_t>(arrivals.size), 0) {
  real.Win_get_group(handle, &group);
}

Win::~Win() {
  real.Group_free(&group);
  g_controls.give(control_name, std::move(control));
}

Win* detail::find_slow(MPI_Win handle) {
  Win* found = g_windows.find(bits_of(handle)).get();
  cache.fill(bits_of(handle), reinterpret_cast<std::uintptr_t>(found));
  return found;
}

std::shared_ptr<Win> find_internode(std::uint64_t id) { return g_internode_windows.find(id); }

bool has_internode_windows() { return g_internode_windows.has_any(); }

void insert_window(const std::shared_ptr<Win>& win) {
  const std::uint64_t bits = bits_of(win->handle);
  if (win->internode != nullptr) g_internode_windows.insert(win->internode->id, win);
  g_windows.insert(bits, win);
  detail::cache.drop(bits);
  detail::cache.fill(bits, reinterpret_cast<std::uintptr_t>(win.get()));
}

std::shared_ptr<Win> remove_window(MPI_Win handle) {
  std::shared_ptr<Win> taken = g_windows.take(bits_of(handle));
  detail::cache.drop(bits_of(handle));
  if (taken != nullptr && taken->internode != nullptr)
    g_internode_windows.take(taken->internode->id);
  return taken;
}

void stop_windows() {
  std::vector<MPI_Win> left;
  {
    const std::lock_guard<std::mutex> hold(g_windows.mutex);
    for (const auto& [bits, win] : g_windows.windows) left.push_back(win->handle);
  }
  for (const MPI_Win handle : left) remove_window(handle);
  g_controls.clear();
}

int raise_error(MPI_Win handle, int code) {
  real.Win_call_errhandler(handle, code);
  if (!error_handlers::failing_calls_return_success()) return code;
  MPI_Errhandler handler{};
  if (real.Win_get_errhandler(handle, &handler) != MPI_SUCCESS) return code;
  if (!error_handlers::is_users_handler(handler)) return code;
  real.Errhandler_free(&handler);
  return MPI_SUCCESS;
}

// ---- Serving and helping other ranks of this node -----------------------------------------------

mh::rma::RmaContext& thread_context() {
  thread_local mh::rma::RmaContext own(*services.node, *services.memory);
  return own;
}

void serve_own_node() {
  if (!g_windows.has_any()) return;
  const std::unique_lock<std::mutex> hold(g_windows.mutex, std::try_to_lock);
  if (!hold) return;
  for (const auto& [bits, win] : g_windows.windows) win->window.serve(thread_context());
}

bool help_operation() {
  if (!g_windows.has_any()) return false;
  const std::lock_guard<std::mutex> hold(g_windows.mutex);
  const std::uint64_t begin = ticks();
  mh::rma::HelpedChunk helped;
  const auto may_help = [](std::uint32_t rank) { return thief().may_help(rank); };
  const bool worked = std::ranges::any_of(g_windows.windows, [&](const auto& known) {
    return known.second->window.help(thread_context(), may_help, helped);
  });
  if (!worked) return false;
  observe::RankCounters& mine = services.counters();
  mine.others_chunks.add(1);
  mine.others_bytes.add(helped.bytes);
  mine.help_ticks.add(ticks() - begin);
  auto* row =
      reinterpret_cast<observe::Counter*>(services.node->area(config.me) + sizeof(RankArea));
  row[helped.owner].add(helped.bytes);
  return true;
}

}  // namespace mh::mpi::rma
