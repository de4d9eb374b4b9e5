// SPDX-License-Identifier: BSD-3-Clause
// Arrival barriers: how a rank waits for a late neighbour in a blocking collective and helps
// meanwhile.
//
// Every rank counts its arrival in the node segment (one store to a line of its own). A rank whose
// part of the collective depends on others waits here, in the wait loop, until those have arrived;
// then the library's own blocking call runs, with its own algorithm and its own bits in the result,
// and is over at once. The non-blocking forms are not used: they are up to three times slower on
// small data and may add in another order.
//
// A rank waits only for those whose data it needs, so a program that relies on a collective not
// being synchronising (a root that runs ahead) is not made to wait.
//
// Looking at the lines of others costs about a cache miss each. So a rank looks only while
// collectives come more than 10 µs apart on average; a tight loop of them has no wait worth
// filling. This choice is each rank's own: arrivals are always counted, so others may look or not.
//
// Nor does a rank look while more of its threads are in collectives than it has cores. A thread
// that waits in the library keeps its core for a time slice unless another thread wants the
// library, so threads that wait here and threads that wait there hold each other up by
// milliseconds. All of them wait in the library then, as they do without us.
//
// A collective may fail on one rank alone (a bad count, MPI_ERRORS_RETURN): its arrival was counted
// then, and nobody else counts one. So after a failure nobody waits at that arrival barrier any
// more (arrival_table.hpp, G4). Barriers are counted by themselves and stay exact.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/cacheline.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "wait/wait.hpp"

namespace mh::mpi::arrivals {

namespace detail {
// The communicator whose collectives come in a tight loop just now; never with several threads.
// `left`: calls that may pass, and one. Written by the thread that calls MPI; of our own line in
// the segment it is the only writer, too.
struct alignas(kCacheLine) TightLoop {
  MPI_Comm handle{};
  std::uint32_t left = 0;
  std::atomic<std::uint64_t>* arrivals = nullptr;
  Comm* comm = nullptr;
};

inline TightLoop tight;

// Threads of this rank that wait in the library for late members of a communicator.
inline std::atomic<std::uint32_t> unhelped{0};
void started_beside_unhelped();

// Counts an arrival of this rank, the only writer of the line, and returns the count.
inline std::uint64_t count_on(std::atomic<std::uint64_t>& arrivals) {
  const std::uint64_t count = arrivals.load(std::memory_order_relaxed) + 1;
  // release: pairs with has_arrived() of those that depend on this rank.
  arrivals.store(count, std::memory_order_release);
  return count;
}
}  // namespace detail

// The way past an arrival barrier in a tight loop of collectives: counts the arrival and is true if
// there is nothing to wait for. If false, nothing is counted yet and the arrival barrier itself
// must follow. As short as it can be, and without a call, so that a wrapper which gets by here
// saves no registers: Open MPI's whole reduction of 8 bytes may take 90 ns. Only where errors are
// fatal: nobody looks at what comes back.
inline bool passes(MPI_Comm handle) {
  detail::TightLoop& tight = detail::tight;
  if (handle != tight.handle || tight.left <= 1 || rndv::receives.needs_this_rank()) return false;
  --tight.left;
  detail::count_on(*tight.arrivals);
  return true;
}
// Before a communicator goes away, and before all do.
inline void forget(MPI_Comm handle) {
  if (handle == detail::tight.handle) detail::tight = {};
}
inline void stop() { detail::tight = {}; }
// No thread is in a collective on it any more, were it that an error handler did not return.
void leave(Comm& comm);

// The needs of a rank in a collective on `comm`; `moves_data` is false where the call has nothing
// to move and so must not wait (a count of zero).
void all(MPI_Comm comm, bool moves_data);
void on_root(MPI_Comm comm, int root, bool moves_data);  // others need the root: broadcast, scatter
void at_root(MPI_Comm comm, int root, bool moves_data);  // the root needs all: reduce, gather
void on_lower(MPI_Comm comm, bool moves_data);           // prefix reductions
void none(MPI_Comm comm);                                // counts the arrival only
// Those that send this rank something: counts by rank in the communicator. `root`: the one rank
// that is sent anything. The array is read only if this rank has to look.
void on_counts(MPI_Comm comm, const int* counts, std::optional<int> root = std::nullopt);
void on_counts(MPI_Comm comm, const MPI_Count* counts, std::optional<int> root = std::nullopt);
void window(MPI_Win win);
void window_none(MPI_Win win);  // as none()

// A receive that other threads may have to know of is under way from now on. (The thread that
// started it may do without MPI until another one's collective is over.)
inline void started_receive() {
  if (!switches.threads) return;
  // seq_cst: pairs with go_unhelped().
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (detail::unhelped.load(std::memory_order_relaxed) != 0) detail::started_beside_unhelped();
}

// What the collective that followed has returned.
int left(MPI_Comm comm, int result);
int left_window(MPI_Win win, int result);

// The whole barrier, where all members are on this node: true if it is done, false if the library's
// barrier still has to run (after the members of this node have arrived).
bool barrier(MPI_Comm comm);
// The same for the arrival barrier of a window, or of a communicator that has one.
bool barrier(Comm& comm);

namespace detail {
// done(), and the library's progress, on which a late rank may depend.
template <class Done>
auto kicking(Done& done) {
  return [&done, looks = 0]() mutable {
    constexpr int kKickEvery = 8;  // looks at memory between two kicks at the library
    if (done()) return true;
    if (++looks % kKickEvery == 0) kick_progress();
    return false;
  };
}
}  // namespace detail

// Waits until done().
template <class Done>
void wait_until(Done&& done) {
  wait::until(detail::kicking(done));
}
// Likewise, in a call of the program that holds no lock: wait::until_shared().
template <class Done>
void wait_until_shared(Done&& done) {
  wait::until_shared(detail::kicking(done));
}

}  // namespace mh::mpi::arrivals

namespace mh::mpi {
// Before a call of the library that may wait for other ranks, and in which nobody is waited for.
void before_unhelped();
}  // namespace mh::mpi

namespace mh::mpi::windows {

// A window's collectives have an order of their own, so it has an arrival barrier of its own: null
// where it has none, else valid until the window is freed.
Comm* adopt(MPI_Comm comm, MPI_Win win);
// As comms::take() and comms::restore().
std::unique_ptr<Comm> take(MPI_Win win);
void restore(MPI_Win win, std::unique_ptr<Comm> gate);
}  // namespace mh::mpi::windows
