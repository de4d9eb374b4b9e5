// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/collective/arrivals.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "wait/wait.hpp"

namespace mh::mpi::arrivals {
namespace {

const ArrivalLines::Line& line_of(const Comm& comm, const Comm::Member& member) {
  return services.area(member.node_rank).arrival_lines.line[comm.group];
}

bool has_arrived(const Comm& comm, const Comm::Member& member) {
  // acquire: pairs with the release in count_on() of that rank.
  return line_of(comm, member).arrivals.load(std::memory_order_acquire) >= comm.arrived;
}

// acquire: pairs with switch_off() of the rank whose collective failed.
bool is_off(const Comm& comm) {
  return comm.off->load(std::memory_order_acquire) != 0 || comms::has_failed_collective();
}

void switch_off(Comm& comm) {
  comms::note_failed_collective();
  if (comm.off != nullptr) comm.off->store(1, std::memory_order_release);
}

// Threads of this rank in collectives that came through a gate, and when these were last more than
// its cores, in ticks. relaxed: hints.
std::atomic<std::uint32_t> g_threads_inside{0};
std::atomic<std::uint64_t> g_crowded_at{0};

void count_in(Comm& comm) {
  if (!switches.threads || std::exchange(comm.counted, true)) return;
  const std::uint32_t before = g_threads_inside.fetch_add(1, std::memory_order_relaxed);
  if (wait::cores() != 0 && before >= wait::cores())
    g_crowded_at.store(ticks(), std::memory_order_relaxed);
}

void count_out(Comm& comm) {
  if (std::exchange(comm.counted, false)) g_threads_inside.fetch_sub(1, std::memory_order_relaxed);
  if (std::exchange(comm.unhelped, false)) detail::unhelped.fetch_sub(1, std::memory_order_relaxed);
}

// For a while: a look at who is in collectives at the moment would find one thread now and then.
bool is_crowded() {
  const std::uint64_t since = g_crowded_at.load(std::memory_order_relaxed);
  return since != 0 && ticks() - since < ticks_from_ns(tuning::kCrowdedNs);
}

// The message that a late member needs may be one that only this rank can move.
enum class Wait : std::uint8_t { if_it_pays, in_any_case };

void settle_described();

// Waits in the library though members are late: nobody may need a message that only this rank
// moves, be its receive started before or from now on.
void go_unhelped(Comm& comm) {
  comm.unhelped = true;
  detail::unhelped.fetch_add(1, std::memory_order_relaxed);
  // seq_cst: pairs with started_receive(). One of the two sees what the other has counted.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (rndv::receives.needs_this_rank()) settle_described();
}

// Waits for the members for which needed(member).
template <class Needed>
void wait_for(Comm& comm, Needed&& needed, Wait when = Wait::if_it_pays) {
  std::size_t settled = 0;  // members before this one are there or not needed
  auto are_there = [&] {
    while (settled < comm.members.size() &&
           (!needed(comm.members[settled]) || has_arrived(comm, comm.members[settled]))) {
      ++settled;
    }
    if (settled == comm.members.size() || is_off(comm)) return true;
    return when == Wait::if_it_pays && is_crowded();
  };
  wait_until_shared(are_there);
  services.counters().collectives_gated.add(1);
  if (settled != comm.members.size() && !is_off(comm)) go_unhelped(comm);
}

void wait_for_all(Comm& comm, Wait when = Wait::if_it_pays) {
  wait_for(
      comm, [](const Comm::Member&) { return true; }, when);
}

template <class Count>
void wait_for_senders(Comm& comm, const Count* counts) {
  if (counts == nullptr) return;
  wait_for(comm, [&](const Comm::Member& member) { return counts[member.rank] > 0; });
}

// From now on nothing is described.
void announce_end_of_rendezvous() {
  // Has every running thread of the machine pass a fence, so that post() needs none; some 20 ms.
  // Where it is refused, looks at what is described take longer than a store is on its way.
  if (comms::end_rendezvous()) ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

// Before the first collective on it.
void join(Comm& comm) {
  comms::join(comm);
  if (comm.group == kNoGroup && comm.members.size() > 1) announce_end_of_rendezvous();
}

// In a collective on it.
bool has_gate(Comm& comm) {
  if (comm.group == kUnknownGroup) join(comm);
  return comm.line != nullptr;
}

// Counts the arrival. False when nobody can wait on this communicator.
bool arrive(Comm& comm) {
  if (!has_gate(comm)) return false;
  // An error handler did not let the last one return.
  if (std::exchange(comm.inside, true)) switch_off(comm);
  count_in(comm);
  comm.arrived = detail::count_on(comm.line->arrivals);
  return true;
}

int left(Comm* comm, int result) {
  if (comm == nullptr) return result;
  comm->inside = false;
  count_out(*comm);
  if (result != MPI_SUCCESS) switch_off(*comm);
  return result;
}

// Whether a message for this rank is described and nobody moves it yet.
bool is_described_for_me() {
  for (std::uint32_t rank = 0; rank < config.ranks; ++rank) {
    for (const p2p::SendSlot& slot : services.area(rank).send_table.slots) {
      const auto posted = slot.posted();
      if (posted && posted->to == config.me) return true;
    }
  }
  return false;
}

// Before a call of the library where nobody helps, while a receive is under way that only this rank
// can fill. From now on nothing is described. What was described before is on its way, or in the
// library, where a few looks find it; or no receive is there for it yet, so there is an end.
void settle_described() {
  constexpr int kLooks = 16;
  announce_end_of_rendezvous();
  const std::uint64_t end = ticks() + ticks_from_ns(tuning::kSettleNs);
  for (int i = 0; rndv::receives.needs_this_rank(); ++i) {
    if (i >= kLooks && (!is_described_for_me() || ticks() > end)) return;
    kick_progress();
    wait::note_failed_poll();
  }
}

// Counts the arrival; null where there is nothing left to wait for. Where a receive is under way
// whose message only this rank can move, a member may be kept from arriving by just that: then all
// are waited for, in the wait loop, whatever this rank needs.
Comm* entered(Comm* comm) {
  services.exchange_detector.completes();
  if (comm == nullptr || !arrive(*comm)) {
    const bool alone = comm != nullptr && comm->size == 1;
    if (!alone && rndv::receives.needs_this_rank()) settle_described();
    return nullptr;
  }
  const bool tight =
      comm->pace.tight(ticks, [] { return ticks_from_ns(tuning::kTightCollectivesNs); });
  if (rndv::receives.needs_this_rank()) {
    wait_for_all(*comm, Wait::in_any_case);
    return nullptr;
  }
  return tight ? nullptr : comm;
}

// The tight loop is over, or another communicator comes in between.
void end_tight_loop() {
  if (detail::tight.comm != nullptr && detail::tight.left > 1) {
    detail::tight.comm->pace.give_back(detail::tight.left - 1);
  }
  detail::tight = {};
}

// As before, and lets the further calls of a tight loop pass.
Comm* entered(MPI_Comm handle) {
  if (!switches.active) return nullptr;
  end_tight_loop();
  Comm* comm = comms::find(handle);
  Comm* to_wait_on = entered(comm);
  if (comm == nullptr || comm->line == nullptr || switches.threads) return to_wait_on;
  if (!switches.errors_are_fatal) return to_wait_on;
  if (const std::uint32_t granted = comm->pace.grant(); granted != 0) {
    detail::tight = {
        .handle = handle, .left = granted + 1, .arrivals = &comm->line->arrivals, .comm = comm};
  }
  return to_wait_on;
}

}  // namespace

void all(MPI_Comm handle, bool moves_data) {
  Comm* comm = entered(handle);
  if (comm != nullptr && moves_data) wait_for_all(*comm);
}

void on_root(MPI_Comm handle, int root, bool moves_data) {
  Comm* comm = entered(handle);
  if (comm == nullptr || !moves_data || root == comm->rank) return;
  wait_for(*comm, [root](const Comm::Member& member) { return member.rank == root; });
}

void at_root(MPI_Comm handle, int root, bool moves_data) {
  Comm* comm = entered(handle);
  if (comm != nullptr && moves_data && root == comm->rank) wait_for_all(*comm);
}

void on_lower(MPI_Comm handle, bool moves_data) {
  Comm* comm = entered(handle);
  if (comm == nullptr || !moves_data) return;
  wait_for(*comm, [comm](const Comm::Member& member) { return member.rank < comm->rank; });
}

void none(MPI_Comm handle) { entered(handle); }

void on_counts(MPI_Comm handle, const int* counts, std::optional<int> root) {
  Comm* comm = entered(handle);
  if (comm != nullptr && root.value_or(comm->rank) == comm->rank) wait_for_senders(*comm, counts);
}
void on_counts(MPI_Comm handle, const MPI_Count* counts, std::optional<int> root) {
  Comm* comm = entered(handle);
  if (comm != nullptr && root.value_or(comm->rank) == comm->rank) wait_for_senders(*comm, counts);
}

bool barrier(MPI_Comm handle) {
  Comm* comm = comms::find(handle);
  return comm != nullptr && has_gate(*comm) && barrier(*comm);
}

bool barrier(Comm& comm) {
  const std::uint64_t count = comm.barriers = detail::count_on(comm.line->barriers);
  std::size_t settled = 0;
  auto are_there = [&] {
    // acquire: pairs with the release in count_on() of that rank.
    while (settled < comm.members.size() &&
           line_of(comm, comm.members[settled]).barriers.load(std::memory_order_acquire) >= count) {
      ++settled;
    }
    return settled == comm.members.size();
  };
  wait_until_shared(are_there);
  services.counters().collectives_gated.add(1);
  return comm.on_one_node;
}

void leave(Comm& comm) { count_out(comm); }

void detail::started_beside_unhelped() {
  if (rndv::receives.needs_this_rank()) settle_described();
}

int left(MPI_Comm handle, int result) {
  return switches.active ? left(comms::find(handle), result) : result;
}

}  // namespace mh::mpi::arrivals

namespace mh::mpi::windows {
namespace {

std::mutex g_mutex;
std::unordered_map<std::uint64_t, std::unique_ptr<Comm>> g_windows;

Comm* find(MPI_Win win) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = g_windows.find(bits_of(win));
  return at == g_windows.end() ? nullptr : at->second.get();
}

}  // namespace

Comm* adopt(MPI_Comm comm, MPI_Win win) {
  auto gate = comms::shadow(comm);
  if (gate == nullptr) return nullptr;
  arrivals::join(*gate);
  restore(win, std::move(gate));
  return find(win);
}

std::unique_ptr<Comm> take(MPI_Win win) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = g_windows.find(bits_of(win));
  if (at == g_windows.end()) return nullptr;
  std::unique_ptr<Comm> taken = std::move(at->second);
  g_windows.erase(at);
  arrivals::leave(*taken);
  return taken;
}

void restore(MPI_Win win, std::unique_ptr<Comm> gate) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_windows[bits_of(win)] = std::move(gate);
}

}  // namespace mh::mpi::windows

void mh::mpi::before_unhelped() {
  if (switches.active && rndv::receives.needs_this_rank()) arrivals::settle_described();
}

void mh::mpi::arrivals::window(MPI_Win win) {
  if (Comm* comm = switches.active ? entered(windows::find(win)) : nullptr) wait_for_all(*comm);
}

void mh::mpi::arrivals::window_none(MPI_Win win) {
  if (switches.active) entered(windows::find(win));
}

int mh::mpi::arrivals::left_window(MPI_Win win, int result) {
  return switches.active ? left(windows::find(win), result) : result;
}
