// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/job/comms.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/clock.hpp"
#include "base/settings.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "steal/chunking.hpp"

namespace mh::mpi::comms {
namespace {

// The communicators of this process that Manyhands has a record of (adopted ones, comms.hpp).
struct Communicators {
  std::mutex mutex;  // guards `by_handle`, and the children of each communicator
  std::unordered_map<std::uint64_t, std::shared_ptr<Comm>> by_handle;
  MPI_Group node_group{};  // of config.node_comm; constant between start() and stop()
};
Communicators g_communicators;

// The communicators that the calling thread is freeing, the innermost first.
constinit thread_local const BeingFreed* t_being_freed = nullptr;

constexpr std::uint64_t kWorldKey = 1;
constexpr int kShadowSalt = -2;
constexpr const char* kAccessKey = "post_comm_access";

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6U) + (hash >> 2U);
  hash ^= hash >> 33U;
  hash *= 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 33U);
}

// Returns the key of a communicator that is being made of `parent`. `on_node`: its members on this
// node. `salt` distinguishes constructors that not all members of the parent call. The parent
// counts the communicators that it has had with these members and salt, so each of them gets a key
// of its own.
std::uint64_t child_key(Comm& parent, const GroupOnNode& on_node, int salt) {
  const std::uint64_t like = mix(mix(parent.key, static_cast<std::uint64_t>(salt)), on_node.hash);
  const std::lock_guard<std::mutex> hold(g_communicators.mutex);
  return mix(like, ++parent.children[like]) | 2U;  // never 0 (a free entry) and never kWorldKey
}

// Translates, by one call of the library, the ranks of this node to ranks in `comm`; MPI_UNDEFINED
// for those outside it.
std::vector<int> ranks_in(MPI_Comm comm) {
  MPI_Group group{};
  real.Comm_group(comm, &group);
  std::vector<int> here(config.ranks);
  std::iota(here.begin(), here.end(), 0);
  std::vector<int> there(config.ranks, MPI_UNDEFINED);
  real.Group_translate_ranks(g_communicators.node_group, static_cast<int>(config.ranks),
                             here.data(), group, there.data());
  real.Group_free(&group);
  return there;
}

std::shared_ptr<const GroupOnNode> locate(MPI_Comm comm) {
  auto on_node = std::make_shared<GroupOnNode>();
  real.Comm_size(comm, &on_node->size);
  real.Comm_rank(comm, &on_node->rank);
  on_node->node_rank_of.assign(static_cast<std::size_t>(on_node->size), Comm::kElsewhere);
  const std::vector<int> there = ranks_in(comm);
  for (std::uint32_t rank = 0; rank < config.ranks; ++rank) {
    if (there[rank] == MPI_UNDEFINED) continue;
    on_node->node_rank_of[static_cast<std::size_t>(there[rank])] = static_cast<std::int16_t>(rank);
    on_node->members.push_back({.rank = there[rank], .node_rank = rank});
  }
  std::sort(on_node->members.begin(), on_node->members.end(),
            [](const Comm::Member& a, const Comm::Member& b) { return a.rank < b.rank; });
  on_node->hash = 0;
  for (const Comm::Member& member : on_node->members)
    on_node->hash = mix(on_node->hash, member.node_rank + 1);
  return on_node;
}

std::shared_ptr<Comm> describe(MPI_Comm handle, std::shared_ptr<const GroupOnNode> on_node) {
  auto comm = std::make_shared<Comm>();
  comm->handle = handle;
  comm->order = config.order;
  comm->size = on_node->size;
  comm->rank = on_node->rank;
  comm->node_rank_of = on_node->node_rank_of.data();
  comm->members = on_node->members;
  comm->on_one_node = on_node->members.size() == static_cast<std::size_t>(on_node->size);
  comm->group_on_node = std::move(on_node);
  return comm;
}

ArrivalTable& table() { return services.area(0).arrival_table; }

class TableLock {
 public:
  TableLock() {
    // acquire: pairs with the release in the destructor of the last holder's TableLock, maybe in
    // another process. If the holder dies, the launcher ends the whole MPI job. The holder needs a
    // fraction of a microsecond, so waiting ranks first spin. A yield at once would let another
    // thread of the same rank pass. Threads of two ranks would then no longer meet in the same
    // collective, and would wait for each other by time slices.
    for (int tries = 0; table().lock.exchange(1, std::memory_order_acquire) != 0; ++tries) {
      if (tries < kSpins) {
        spin_pause();
      } else {
        ::sched_yield();
      }
    }
  }
  ~TableLock() { table().lock.store(0, std::memory_order_release); }
  TableLock(const TableLock&) = delete;
  TableLock& operator=(const TableLock&) = delete;

 private:
  static constexpr int kSpins = 1000;  // some tens of microseconds
};

std::uint32_t make_entry(std::uint64_t key, std::size_t members) {
  ArrivalTable& all = table();
  if (all.frozen != 0) return kNoGroup;
  for (std::uint32_t index = 0; index < kGroups; ++index) {
    if (all.entries[index].key != 0) continue;
    all.entries[index].key = key;
    all.entries[index].to_leave = static_cast<std::uint32_t>(members);
    // relaxed, for all words reset below: the arrival table's lock publishes them, since each
    // member takes the lock to find the entry.
    all.entries[index].off.store(0, std::memory_order_relaxed);
    for (std::uint32_t rank = 0; rank < config.ranks; ++rank) {
      ArrivalLines::Line& line = services.area(rank).arrival_lines.line[index];
      line.arrivals.store(0, std::memory_order_relaxed);
      line.barriers.store(0, std::memory_order_relaxed);
      if (index < coll::kBoards) services.area(rank).boards[index].reset();
    }
    return index;
  }
  all.frozen = 1;
  return kNoGroup;
}

std::uint32_t find_or_make_entry(const Comm& comm) {
  const TableLock hold;
  for (std::uint32_t index = 0; index < kGroups; ++index) {
    if (table().entries[index].key == comm.key) return index;
  }
  return make_entry(comm.key, comm.members.size());
}

void insert(std::shared_ptr<Comm> comm) {
  const std::uint64_t bits = bits_of(comm->handle);
  Comm* found = comm.get();
  const std::lock_guard<std::mutex> hold(g_communicators.mutex);
  g_communicators.by_handle[bits] = std::move(comm);
  detail::cache.drop(bits);
  detail::cache.fill(bits, reinterpret_cast<std::uintptr_t>(found));
}

void adopt_at(Comm& parent, MPI_Comm fresh, std::shared_ptr<const GroupOnNode> on_node, int salt) {
  auto comm = describe(fresh, std::move(on_node));
  comm->order = parent.order;
  comm->key = child_key(parent, *comm->group_on_node, salt);
  insert(std::move(comm));
}

}  // namespace

Comm* detail::find_slow(MPI_Comm handle) {
  if (!switches.active) return nullptr;
  for (const BeingFreed* at = t_being_freed; at != nullptr; at = at->outer_) {
    if (at->comm_ != nullptr && at->comm_->handle == handle) return at->comm_;
  }
  Comm* found = nullptr;
  {
    const std::lock_guard<std::mutex> hold(g_communicators.mutex);
    const auto at = g_communicators.by_handle.find(bits_of(handle));
    if (at != g_communicators.by_handle.end()) found = at->second.get();
  }
  cache.fill(bits_of(handle), reinterpret_cast<std::uintptr_t>(found));
  return found;
}

Comm* find_key(std::uint64_t key) {
  const std::lock_guard<std::mutex> hold(g_communicators.mutex);
  const auto at = std::find_if(g_communicators.by_handle.begin(), g_communicators.by_handle.end(),
                               [key](const auto& known) { return known.second->key == key; });
  return at == g_communicators.by_handle.end() ? nullptr : at->second.get();
}

MPI_Comm for_errors(const Comm& comm) {
  return find(comm.handle) == &comm ? comm.handle : MPI_COMM_WORLD;
}

void start() {
  real.Comm_group(config.node_comm, &g_communicators.node_group);
  auto world = describe(MPI_COMM_WORLD, locate(MPI_COMM_WORLD));
  world->key = kWorldKey;
  join(*world);
  auto self = describe(MPI_COMM_SELF, locate(MPI_COMM_SELF));
  self->key = child_key(*world, *self->group_on_node, kShadowSalt);
  insert(std::move(world));
  insert(std::move(self));
}

void stop() {
  const std::lock_guard<std::mutex> hold(g_communicators.mutex);
  for (const auto& [bits, comm] : g_communicators.by_handle) detail::cache.drop(bits);
  g_communicators.by_handle.clear();
  real.Group_free(&g_communicators.node_group);
}

void adopt(MPI_Comm parent, MPI_Comm fresh, int salt) {
  if (fresh == MPI_COMM_NULL) return;
  Comm* origin = find(parent);
  if (origin != nullptr) adopt_at(*origin, fresh, locate(fresh), salt);
}

void adopt_duplicate(MPI_Comm parent, MPI_Comm fresh) {
  Comm* origin = find(parent);
  if (origin != nullptr) adopt_at(*origin, fresh, origin->group_on_node, 0);
}

void read_hints(MPI_Comm handle, MPI_Info info) {
  if (handle == MPI_COMM_NULL || info == MPI_INFO_NULL) return;
  Comm* comm = find(handle);
  if (comm == nullptr) return;
  char value[16] = {};
  int flag = 0;
  real.Info_get(info, kAccessKey, static_cast<int>(sizeof value) - 1, value, &flag);
  if (flag == 0) return;
  const std::string_view wanted = value;
  if (wanted == "lo-to-hi") comm->order = steal::order_for(AccessOrder::low_to_high);
  if (wanted == "hi-to-lo") comm->order = steal::order_for(AccessOrder::high_to_low);
  if (wanted == "random") comm->order = steal::order_for(AccessOrder::random);
}

std::unique_ptr<Comm> make_shadow(MPI_Comm parent) {
  Comm* origin = find(parent);
  if (origin == nullptr) return nullptr;
  auto comm = std::make_unique<Comm>(*origin);
  comm->children.clear();
  comm->group = kUnknownGroup;
  comm->line = nullptr;
  comm->arrived = comm->barriers = 0;
  comm->inside = comm->counted = comm->waits_in_library = false;
  comm->boards = {};
  comm->key = child_key(*origin, *comm->group_on_node, kShadowSalt);
  return comm;
}

// Returns the boards by which the ranks of a communicator carry out its collectives, if all its
// ranks are on this node. Empty for other communicators, if no boards are left, and if buffers may
// be in the memory of an accelerator.
coll::BoardGroup boards_of(const Comm& comm) {
  if (!config.rounds || !comm.on_one_node || comm.group >= coll::kBoards) return {};
  std::vector<coll::Board*> boards;
  for (const Comm::Member& member : comm.members)
    boards.push_back(&services.area(member.node_rank).boards[comm.group]);
  return {std::move(boards), static_cast<std::uint32_t>(comm.rank)};
}

void join(Comm& comm) {
  comm.group = comm.members.size() < 2 ? kNoGroup : find_or_make_entry(comm);
  if (comm.group == kNoGroup) return;
  comm.off = &table().entries[comm.group].off;
  comm.line = &services.own_area().arrival_lines.line[comm.group];
  comm.boards = boards_of(comm);
}

void leave(Comm& comm) {
  if (comm.group == kNoGroup || comm.group == kUnknownGroup) return;
  const TableLock hold;
  ArrivalTable::GroupEntry& entry = table().entries[comm.group];
  if (--entry.to_leave == 0) entry.key = 0;
}

void end_arrival_barriers() {
  table().failed.store(1, std::memory_order_relaxed);
  end_rendezvous();
}
bool arrival_barriers_ended() { return table().failed.load(std::memory_order_relaxed) != 0; }

void end_rendezvous() {
  if (!switches.active) return;
  auto& state = table().rendezvous;
  if (state.load(std::memory_order_relaxed) == RendezvousPhase::over) return;
  RendezvousPhase expected = RendezvousPhase::allowed;
  state.compare_exchange_strong(expected, RendezvousPhase::ending, std::memory_order_relaxed);
  // This membarrier() makes every running thread of the machine pass a fence (in about 20 ms). A
  // thread that posts a rendezvous send then either sees that rendezvous ends, or its send is
  // visible to this thread. post_in_table() (rndv/send.cpp) therefore needs no fence instruction.
  // Where the kernel refuses the call, a send that was posted meanwhile is found later: by
  // drain_rendezvous(), which polls, or by buffer_overdue_sends().
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
  state.store(RendezvousPhase::over, std::memory_order_relaxed);
}
bool rendezvous_ended() {
  return table().rendezvous.load(std::memory_order_relaxed) != RendezvousPhase::allowed;
}

bool allow_rendezvous() {
  return switches.switched_on.load(std::memory_order_relaxed) && !rendezvous_ended();
}

std::shared_ptr<Comm> forget(MPI_Comm handle) {
  const std::lock_guard<std::mutex> hold(g_communicators.mutex);
  detail::cache.drop(bits_of(handle));
  const auto at = g_communicators.by_handle.find(bits_of(handle));
  if (at == g_communicators.by_handle.end()) return nullptr;
  std::shared_ptr<Comm> taken = std::move(at->second);
  g_communicators.by_handle.erase(at);
  return taken;
}

void restore(std::shared_ptr<Comm> comm) { insert(std::move(comm)); }

BeingFreed::BeingFreed(Comm* comm) : comm_(comm), outer_(std::exchange(t_being_freed, this)) {}
BeingFreed::~BeingFreed() { t_being_freed = outer_; }

}  // namespace mh::mpi::comms
