// SPDX-License-Identifier: BSD-3-Clause
// Arrival barriers: a rank waits for late ranks of its node before a blocking collective, and helps
// meanwhile.
//
// Every rank counts its arrival in the node segment (one store to a cache line of its own). A rank
// that needs data of other ranks waits in the wait loop until these ranks have arrived. Then the
// library's own blocking call runs, with its own algorithm and bitwise the same result, and returns
// at once. Manyhands does not use the library's nonblocking forms, which are up to three times
// slower on small data and may add in another order.
//
// A rank waits only for the ranks whose data it needs. A program that relies on a collective that
// does not synchronise, such as a root that runs ahead, is therefore not delayed.
//
// Reading the lines of other ranks costs about a cache miss each. A rank therefore reads them only
// while collectives come more than 10 µs apart on average; a tight loop of collectives has no wait
// worth filling. Each rank decides alone whether to read, because every rank always counts its
// arrival.
//
// A rank does not wait while more of its threads are in collectives than it has cores. A thread
// that waits in the library keeps its core for a time slice unless another thread wants the
// library. Threads in the wait loop and threads in the library would therefore delay each other by
// milliseconds, so all of them wait in the library in this case.
//
// A collective may fail on one rank alone (a bad count, MPI_ERRORS_RETURN). The failing rank has
// counted an arrival that no other rank counts. After a failure no rank waits at that arrival
// barrier any more (arrival_table.hpp, G4). Barriers have their own count, which stays exact: a
// rank always waits in a barrier.
//
// Thread-safe as MPI allows: one thread at a time in the collectives of a communicator.
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
// The communicator whose collectives come in a tight loop now. Not used with several threads in
// MPI: one thread writes this object and this rank's line. `left`: the calls that may still take
// the short path, plus one.
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

// Counts an arrival in this rank's line and returns the count. This rank is the line's only writer.
inline std::uint64_t count_on(std::atomic<std::uint64_t>& arrivals) {
  const std::uint64_t count = arrivals.load(std::memory_order_relaxed) + 1;
  // release: pairs with the acquire in has_arrived() of the ranks that depend on this rank.
  arrivals.store(count, std::memory_order_release);
  return count;
}
}  // namespace detail

// The short path through an arrival barrier, in a tight loop of collectives. Returns true if there
// is nothing to wait for; the arrival is then counted. Returns false with nothing counted; the full
// arrival barrier must follow. Short and without a call, so that a wrapper on this path saves no
// registers: Open MPI's whole reduction of 8 bytes takes 90 ns. Only used while errors are fatal,
// since nothing checks the result of the collective.
inline bool passes_tight_loop(MPI_Comm handle) {
  detail::TightLoop& tight = detail::tight;
  if (handle != tight.handle || tight.left <= 1 || rndv::receives.needs_this_rank()) return false;
  --tight.left;
  detail::count_on(*tight.arrivals);
  return true;
}
// forget_comm() precedes the freeing of a communicator, end_tight_loops() precedes MPI_Finalize.
inline void forget_comm(MPI_Comm handle) {
  if (handle == detail::tight.handle) detail::tight = {};
}
inline void end_tight_loops() { detail::tight = {}; }
// Ends this rank's part in a communicator's collectives, also if an error handler left the last
// collective. Precondition: no thread is in a collective of the communicator.
void leave(Comm& comm);

// Gives the communicator its arrival barrier, before its first collective.
void join(Comm& comm);

// True if this rank has more threads in collectives than cores, or had so a moment ago.
bool is_crowded();

// Enter a collective on `comm`. `moves_data` is false if the call moves no data (a count of zero)
// and so must not wait. Each function waits for the ranks that this rank needs:
void all(MPI_Comm comm, bool moves_data);  // every rank needs all ranks
// every rank needs the root: broadcast, scatter
void on_root(MPI_Comm comm, int root, bool moves_data);
void at_root(MPI_Comm comm, int root, bool moves_data);  // the root needs all: reduce, gather
void on_lower(MPI_Comm comm, bool moves_data);           // a rank needs all lower ranks: scans
void none(MPI_Comm comm);                                // no rank; only counts the arrival
// A rank needs the ranks with a positive count, which send to it. `root`: the only rank that
// receives anything. The array is read only if this rank has to wait.
void on_counts(MPI_Comm comm, const int* counts, std::optional<int> root = std::nullopt);
void on_counts(MPI_Comm comm, const MPI_Count* counts, std::optional<int> root = std::nullopt);
void window(MPI_Win win);
void window_none(MPI_Win win);  // as none()

// Called after a receive has started. The thread that started the receive may stay outside MPI
// until another thread's collective is over, so a thread of this rank that waits in the library
// must learn of the receive.
inline void started_receive() {
  if (!switches.threads) return;
  // seq_cst: pairs with go_unhelped().
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (detail::unhelped.load(std::memory_order_relaxed) != 0) detail::started_beside_unhelped();
}

// Ends a collective that has returned `result`. Returns `result`.
int left(MPI_Comm comm, int result);
int left_window(MPI_Win win, int result);

// Carries out a barrier; true if the barrier is complete, because all members are on this node.
// Otherwise the library's barrier must still run; members on this node have arrived if the
// communicator has an arrival barrier.
bool barrier(MPI_Comm comm);
// Does the same for a communicator, or the Comm of a window, that has an arrival barrier.
bool barrier(Comm& comm);

namespace detail {
// Polls done(), and drives the library's progress, on which a late rank may depend.
template <class Done>
auto with_progress(Done& done) {
  return [&done, looks = 0]() mutable {
    constexpr int kKickEvery = 8;  // polls between two calls of the library's progress
    if (done()) return true;
    if (++looks % kKickEvery == 0) kick_progress();
    return false;
  };
}
}  // namespace detail

// Waits until done() is true.
template <class Done>
void wait_until(Done&& done) {
  wait::until(detail::with_progress(done));
}
// Waits by wait::until_shared(), in a call of the program that holds no lock.
template <class Done>
void wait_until_shared(Done&& done) {
  wait::until_shared(detail::with_progress(done));
}

}  // namespace mh::mpi::arrivals

namespace mh::mpi {
// Called before a call of the library that may wait for other ranks without an arrival barrier.
void before_unhelped();
}  // namespace mh::mpi

namespace mh::mpi::windows {

// Gives a window an arrival barrier of its own, since its collectives have an order of their own.
// Null if the window gets none; otherwise valid until the window is freed.
Comm* adopt_arrival_barrier(MPI_Comm comm, MPI_Win win);
// Work like comms::forget() and comms::restore().
std::unique_ptr<Comm> remove_arrival_barrier(MPI_Win win);
void restore_arrival_barrier(MPI_Win win, std::unique_ptr<Comm> shadow);
}  // namespace mh::mpi::windows
