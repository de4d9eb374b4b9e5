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

bool has_arrived(const Comm& comm, const Comm::Member& member) {
  // acquire: pairs with the release in count_on() of that rank.
  return member.line->arrivals.load(std::memory_order_acquire) >= comm.arrived;
}

// acquire: pairs with switch_off() of the rank whose collective failed.
bool is_off(const Comm& comm) {
  return comm.off->load(std::memory_order_acquire) != 0 || comms::has_failed_collective();
}

void switch_off(Comm& comm) {
  comms::note_failed_collective();
  if (comm.off != nullptr) comm.off->store(1, std::memory_order_release);
}

// Waits for the members for which needed(member).
template <class Needed>
void wait_for(Comm& comm, Needed&& needed) {
  std::size_t settled = 0;  // members before this one are there or not needed
  auto are_there = [&] {
    while (settled < comm.members.size() &&
           (!needed(comm.members[settled]) || has_arrived(comm, comm.members[settled]))) {
      ++settled;
    }
    return settled == comm.members.size() || is_off(comm);
  };
  wait_until(are_there, wait::OfferedTasks::may_run);
  services.counters().collectives_gated.add(1);
}

void wait_for_all(Comm& comm) {
  wait_for(comm, [](const Comm::Member&) { return true; });
}

template <class Count>
void wait_for_senders(Comm& comm, const Count* counts) {
  if (counts == nullptr) return;
  wait_for(comm, [&](const Comm::Member& member) { return counts[member.rank] > 0; });
}

// Counts the arrival. False when nobody can wait on this communicator.
bool arrive(Comm& comm) {
  if (comm.line == nullptr) return false;
  // An error handler did not let the last one return.
  if (std::exchange(comm.inside, true)) switch_off(comm);
  comm.arrived = detail::count_on(comm.line->arrivals);
  return true;
}

int left(Comm* comm, int result) {
  if (comm == nullptr) return result;
  comm->inside = false;
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
  // Has every running thread of the machine pass a fence, so that post() needs none; some 20 ms.
  // Where it is refused, the looks below take longer than a store is on its way.
  if (comms::end_rendezvous()) ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
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
    wait_for_all(*comm);
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
  return comm != nullptr && comm->line != nullptr && barrier(*comm);
}

bool barrier(Comm& comm) {
  const std::uint64_t count = comm.barriers = detail::count_on(comm.line->barriers);
  std::size_t settled = 0;
  auto are_there = [&] {
    // acquire: pairs with the release in count_on() of that rank.
    while (settled < comm.members.size() &&
           comm.members[settled].line->barriers.load(std::memory_order_acquire) >= count) {
      ++settled;
    }
    return settled == comm.members.size();
  };
  wait_until(are_there, wait::OfferedTasks::may_run);
  services.counters().collectives_gated.add(1);
  return comm.on_one_node;
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
  if (gate != nullptr) restore(win, std::move(gate));
  return find(win);
}

std::unique_ptr<Comm> take(MPI_Win win) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = g_windows.find(bits_of(win));
  if (at == g_windows.end()) return nullptr;
  std::unique_ptr<Comm> taken = std::move(at->second);
  g_windows.erase(at);
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
