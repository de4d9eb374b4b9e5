// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/collective/arrivals.hpp"

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
  // acquire: pairs with the release in count_on() of the member, whose count is read here.
  return line_of(comm, member).arrivals.load(std::memory_order_acquire) >= comm.arrived;
}

// True if no rank waits at the communicator's arrival barrier any more. acquire: pairs with the
// release in switch_off() of the rank whose collective failed.
bool is_off(const Comm& comm) {
  return comm.off->load(std::memory_order_acquire) != 0 || comms::arrival_barriers_ended();
}

void switch_off(Comm& comm) {
  comms::end_arrival_barriers();
  if (comm.off != nullptr) comm.off->store(1, std::memory_order_release);
}

// The number of threads of this rank that are in collectives with an arrival barrier, for
// is_crowded(). relaxed: hints.
struct ThreadsInside {
  std::atomic<std::uint32_t> count{0};
  std::atomic<std::uint64_t> crowded_at{0};  // ticks: the count last exceeded the rank's cores
};
ThreadsInside g_threads;

void count_in(Comm& comm) {
  if (!switches.threads || std::exchange(comm.counted, true)) return;
  const std::uint32_t before = g_threads.count.fetch_add(1, std::memory_order_relaxed);
  if (wait::cores() != 0 && before >= wait::cores())
    g_threads.crowded_at.store(ticks(), std::memory_order_relaxed);
}

void count_out(Comm& comm) {
  if (std::exchange(comm.counted, false)) g_threads.count.fetch_sub(1, std::memory_order_relaxed);
  if (std::exchange(comm.waits_in_library, false))
    detail::waits_in_library.fetch_sub(1, std::memory_order_relaxed);
}

// Tells when a wait at an arrival barrier may end before all needed members have arrived; the rank
// then waits in the MPI library instead. `to_help`: if is_crowded(), or if the node is
// oversubscribed (more ranks than cores) and so this rank helps no other. `if_it_pays`: only if
// is_crowded(). `in_any_case`: never, because a late member may need a message that only this rank
// can move.
enum class Wait : std::uint8_t { to_help, if_it_pays, in_any_case };

bool ends_early(Wait when) {
  if (when == Wait::in_any_case) return false;
  // With several threads, a wait in the MPI library has a cost: a receive that another thread
  // starts meanwhile may end rendezvous on the node (G5 in arrival_table.hpp).
  const bool one_thread = !switches.threads;
  return is_crowded() || (when == Wait::to_help && one_thread && wait::is_oversubscribed());
}

void drain_rendezvous();

// Called before this rank leaves the wait loop to wait in the MPI library, although members are
// late. From then on no rank may need a message that only this rank can move, whether the receive
// of that message is already started or not.
void begin_wait_in_library(Comm& comm) {
  comm.waits_in_library = true;
  detail::waits_in_library.fetch_add(1, std::memory_order_relaxed);
  // seq_cst: pairs with the fence in started_receive(). Either this thread sees a receive that
  // another thread starts, or that thread sees `waits_in_library`.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (rndv::receives.needs_this_rank()) drain_rendezvous();
}

// Waits until the members for which needed(member) is true have arrived, or no rank waits at the
// arrival barrier any more (is_off()). Except with Wait::in_any_case, the function may return
// earlier (ends_early()), after begin_wait_in_library(): the caller then waits in the MPI library.
template <class Needed>
void wait_for(Comm& comm, Needed&& needed, Wait when = Wait::if_it_pays) {
  std::size_t settled = 0;  // members before this one have arrived or are not needed
  auto are_there = [&] {
    while (settled < comm.members.size() &&
           (!needed(comm.members[settled]) || has_arrived(comm, comm.members[settled]))) {
      ++settled;
    }
    if (settled == comm.members.size() || is_off(comm)) return true;
    return ends_early(when);
  };
  wait_until_shared(are_there);
  services.counters().collectives_with_arrival_barrier.add(1);
  if (settled != comm.members.size() && !is_off(comm)) begin_wait_in_library(comm);
}

void wait_for_all(Comm& comm, Wait when = Wait::if_it_pays) {
  wait_for(
      comm, [](const Comm::Member&) { return true; }, when);
}

template <class CountType>
void wait_for_senders(Comm& comm, const CountType* counts) {
  if (counts == nullptr) return;
  wait_for(comm, [&](const Comm::Member& member) { return counts[member.rank] > 0; });
}

// True if the communicator has an arrival barrier. Called only in collectives of the communicator:
// its first collective calls join(), which may give it an arrival barrier.
bool has_arrival_barrier(Comm& comm) {
  if (comm.group == kUnknownGroup) join(comm);
  return comm.line != nullptr;
}

// Counts this rank's arrival in a collective. Returns false if the communicator has no arrival
// barrier.
bool count_arrival(Comm& comm) {
  if (!has_arrival_barrier(comm)) return false;
  // `inside` is still true if an error handler of the program has left the last collective by
  // longjmp(). That collective has failed, so no rank waits at the arrival barrier any more.
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

// True if another rank has posted a rendezvous send to this rank, and no rank moves its message
// yet.
bool is_rendezvous_for_me_waiting() {
  for (std::uint32_t rank = 0; rank < config.ranks; ++rank) {
    for (const p2p::SendSlot& slot : services.area(rank).send_table.slots) {
      const auto posted = slot.posted();
      if (posted && posted->to == config.me) return true;
    }
  }
  return false;
}

// Called before this rank enters a call of the MPI library in which it cannot help, while a started
// receive exists that only this rank can fill. Ends rendezvous on the node, then waits for the
// rendezvous messages that were already sent. Either a rank already moves such a message, or the
// library finds its RTS header in a few polls. A message that is still posted after kSettleNs has
// no started receive, so the loop ends.
void drain_rendezvous() {
  constexpr int kLooks = 16;
  comms::end_rendezvous();
  const std::uint64_t end = ticks() + ticks_from_ns(tuning::kSettleNs);
  for (int i = 0; rndv::receives.needs_this_rank(); ++i) {
    if (i >= kLooks && (!is_rendezvous_for_me_waiting() || ticks() > end)) return;
    kick_progress();
    wait::note_failed_poll();
  }
}

// Tells whether a collective has the data of every member at every member, so that no rank leaves
// it before all have entered.
enum class Leaves : std::uint8_t { after_all, early };

// Called before the MPI library's part of a collective on `comm` (null: not adopted), after this
// rank has waited for the members of this node where there is an arrival barrier. A rank of this
// node outside the collective may send a message that only this rank can move, while a member on
// another node waits for that sender. No such sender exists if all members are on this node, or if
// all ranks of this node are in the collective, each by its only thread.
void prepare_library_part(const Comm* comm, Leaves leaves) {
  if (!rndv::receives.needs_this_rank()) return;
  const bool have_arrived =
      comm != nullptr && (comm->line == nullptr ? comm->size == 1 : !is_off(*comm));
  const bool nobody_outside = leaves == Leaves::after_all && !switches.threads && have_arrived &&
                              comm->members.size() == config.ranks;
  if (!nobody_outside && !(have_arrived && comm->on_one_node)) drain_rendezvous();
}

// Counts this rank's arrival in a collective on `comm`. Returns `comm` if the caller may have to
// wait for members, else null. A started receive whose message only this rank can move may keep
// another member from arriving. With such a receive, this function itself waits for all members in
// the wait loop, even if the rank needs none of them for the collective.
Comm* enter_collective(Comm* comm, Leaves leaves = Leaves::early) {
  services.exchange_detector.completes();
  if (comm == nullptr || !count_arrival(*comm)) {
    prepare_library_part(comm, leaves);
    return nullptr;
  }
  const bool tight =
      comm->pace.tight(ticks, [] { return ticks_from_ns(tuning::kTightCollectivesNs); });
  if (rndv::receives.needs_this_rank()) {
    wait_for_all(*comm, Wait::in_any_case);
    prepare_library_part(comm, leaves);
    return nullptr;
  }
  return tight ? nullptr : comm;
}

// Ends the short path that enter_collective() has granted to the next calls on a communicator
// (passes_tight_loop()). Gives those calls that the program has not made back to the communicator's
// Pace (wait/pace.hpp), which detects tight loops. Called when all granted calls are made, or a
// collective on another communicator begins.
void end_tight_loop() {
  if (detail::tight.comm != nullptr) detail::tight.comm->pace.give_back(detail::tight.left);
  detail::tight = {};
}

// Does enter_collective() for the communicator with this handle. In a tight loop of collectives,
// whose waits are too short to be filled, it grants the next calls the short path of
// passes_tight_loop().
Comm* enter_collective(MPI_Comm handle, Leaves leaves = Leaves::early) {
  if (!switches.active) return nullptr;
  end_tight_loop();
  Comm* comm = comms::find(handle);
  Comm* to_wait_on = enter_collective(comm, leaves);
  if (comm == nullptr || comm->line == nullptr || switches.threads) return to_wait_on;
  if (!switches.errors_are_fatal) return to_wait_on;
  if (const std::uint32_t granted = comm->pace.grant(); granted != 0) {
    detail::tight = {
        .handle = handle, .left = granted, .arrivals = &comm->line->arrivals, .comm = comm};
  }
  return to_wait_on;
}

}  // namespace

// True also for tuning::kCrowdedNs after more threads than cores were in collectives, because the
// number of threads in collectives may be small for a moment by chance.
bool is_crowded() {
  const std::uint64_t since = g_threads.crowded_at.load(std::memory_order_relaxed);
  return since != 0 && ticks() - since < ticks_from_ns(tuning::kCrowdedNs);
}

void join(Comm& comm) {
  comms::join(comm);
  if (comm.group == kNoGroup && comm.members.size() > 1) comms::end_rendezvous();
}

void all(MPI_Comm handle, bool moves_data) {
  Comm* comm = enter_collective(handle, moves_data ? Leaves::after_all : Leaves::early);
  if (comm != nullptr && moves_data) wait_for_all(*comm, Wait::to_help);
}

void on_root(MPI_Comm handle, int root, bool moves_data) {
  Comm* comm = enter_collective(handle);
  if (comm == nullptr || !moves_data || root == comm->rank) return;
  wait_for(*comm, [root](const Comm::Member& member) { return member.rank == root; });
}

void at_root(MPI_Comm handle, int root, bool moves_data) {
  Comm* comm = enter_collective(handle);
  if (comm != nullptr && moves_data && root == comm->rank) wait_for_all(*comm);
}

void on_lower(MPI_Comm handle, bool moves_data) {
  Comm* comm = enter_collective(handle);
  if (comm == nullptr || !moves_data) return;
  wait_for(*comm, [comm](const Comm::Member& member) { return member.rank < comm->rank; });
}

void none(MPI_Comm handle) { enter_collective(handle); }

void alone(MPI_Comm handle) {
  if (!switches.active) return;
  if (Comm* comm = comms::find(handle)) count_arrival(*comm);
  if (rndv::receives.needs_this_rank()) drain_rendezvous();
}

void on_counts(MPI_Comm handle, const int* counts, std::optional<int> root) {
  Comm* comm = enter_collective(handle);
  if (comm != nullptr && root.value_or(comm->rank) == comm->rank) wait_for_senders(*comm, counts);
}
void on_counts(MPI_Comm handle, const MPI_Count* counts, std::optional<int> root) {
  Comm* comm = enter_collective(handle);
  if (comm != nullptr && root.value_or(comm->rank) == comm->rank) wait_for_senders(*comm, counts);
}

bool barrier(MPI_Comm handle) {
  Comm* comm = comms::find(handle);
  if (comm != nullptr && has_arrival_barrier(*comm) && barrier(*comm)) return true;
  prepare_library_part(comm, Leaves::after_all);
  return false;
}

bool barrier(Comm& comm) {
  const std::uint64_t count = comm.barriers = detail::count_on(comm.line->barriers);
  std::size_t settled = 0;
  auto are_there = [&] {
    // acquire: pairs with the release in count_on() of the member, whose count is read here.
    while (settled < comm.members.size() &&
           line_of(comm, comm.members[settled]).barriers.load(std::memory_order_acquire) >= count) {
      ++settled;
    }
    return settled == comm.members.size();
  };
  wait_until_shared(are_there);
  services.counters().collectives_with_arrival_barrier.add(1);
  return comm.on_one_node;
}

void leave(Comm& comm) { count_out(comm); }

void detail::started_beside_wait_in_library() {
  if (rndv::receives.needs_this_rank()) drain_rendezvous();
}

int left(MPI_Comm handle, int result) {
  return switches.active ? left(comms::find(handle), result) : result;
}

}  // namespace mh::mpi::arrivals

namespace mh::mpi::windows {
namespace {

// The windows that have an arrival barrier of their own: by the window's handle, the window's
// *shadow*, an entry like that of a communicator (comms::make_shadow()).
struct WindowBarriers {
  std::mutex mutex;  // guards `by_window`
  std::unordered_map<std::uint64_t, std::unique_ptr<Comm>> by_window;
};
WindowBarriers g_windows;

Comm* find_comm(MPI_Win win) {
  const std::lock_guard<std::mutex> hold(g_windows.mutex);
  const auto at = g_windows.by_window.find(bits_of(win));
  return at == g_windows.by_window.end() ? nullptr : at->second.get();
}

}  // namespace

Comm* adopt_arrival_barrier(MPI_Comm comm, MPI_Win win) {
  auto shadow = comms::make_shadow(comm);
  if (shadow == nullptr) return nullptr;
  arrivals::join(*shadow);
  restore_arrival_barrier(win, std::move(shadow));
  return find_comm(win);
}

std::unique_ptr<Comm> remove_arrival_barrier(MPI_Win win) {
  const std::lock_guard<std::mutex> hold(g_windows.mutex);
  const auto at = g_windows.by_window.find(bits_of(win));
  if (at == g_windows.by_window.end()) return nullptr;
  std::unique_ptr<Comm> taken = std::move(at->second);
  g_windows.by_window.erase(at);
  arrivals::leave(*taken);
  return taken;
}

void restore_arrival_barrier(MPI_Win win, std::unique_ptr<Comm> shadow) {
  const std::lock_guard<std::mutex> hold(g_windows.mutex);
  g_windows.by_window[bits_of(win)] = std::move(shadow);
}

}  // namespace mh::mpi::windows

void mh::mpi::prepare_wait_in_library() {
  if (switches.active && rndv::receives.needs_this_rank()) arrivals::drain_rendezvous();
}

void mh::mpi::arrivals::window(MPI_Win win) {
  if (Comm* comm = switches.active ? enter_collective(windows::find_comm(win)) : nullptr)
    wait_for_all(*comm);
}

void mh::mpi::arrivals::window_none(MPI_Win win) {
  if (switches.active) enter_collective(windows::find_comm(win));
}

int mh::mpi::arrivals::left_window(MPI_Win win, int result) {
  return switches.active ? left(windows::find_comm(win), result) : result;
}
