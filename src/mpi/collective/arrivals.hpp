// SPDX-License-Identifier: BSD-3-Clause
// Arrival barriers: a rank waits for late ranks of its node before a blocking collective, and helps
// meanwhile.
//
// Every rank counts its arrival in the node segment (one store to a cache line of its own). A rank
// that needs data of other ranks waits in the wait loop until these ranks have arrived. Then it
// makes the MPI library's own blocking call, which has the library's algorithm and bitwise the
// library's result, and need not wait any more. Manyhands does not use the library's nonblocking
// collectives, which are up to three times slower on small data and may add in another order.
//
// A rank waits only for the ranks whose data it needs. A program that relies on a collective that
// does not synchronise, such as a root that runs ahead, is therefore not delayed.
//
// Reading the count of another rank costs about a cache miss. A rank therefore reads the counts
// only while collectives come more than 10 µs apart on average; a tight loop of collectives has no
// wait worth filling. Each rank can decide this alone, because every rank always counts its
// arrival.
//
// A rank does not wait at an arrival barrier while more of its threads are in collectives than it
// has cores. A thread that waits in the library keeps its core for a time slice unless another
// thread wants to call the library. Threads in the wait loop and threads in the library would
// therefore delay each other by milliseconds, so all threads wait in the library in this case. On
// an oversubscribed node, with more ranks than cores, a rank helps no other. If every rank needs
// every rank, a rank of such a node also waits in the library.
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
// The communicator whose collectives currently come in a tight loop (wait/pace.hpp), and the next
// calls on it that may skip the full arrival barrier (passes_tight_loop()). Not used while
// switches.threads is true, that is, while several threads may call MPI. Therefore only one thread
// writes this object and the arrival counts of this rank. `left`: how many such calls are left.
// `arrivals`: this rank's count of arrivals on the communicator.
struct alignas(kCacheLine) TightLoop {
  MPI_Comm handle{};
  std::uint32_t left = 0;
  std::atomic<std::uint64_t>* arrivals = nullptr;
  Comm* comm = nullptr;
};

inline TightLoop tight;

// The number of threads of this rank that wait in the MPI library, where they cannot help, for late
// members of a communicator. Ordered by the seq_cst fences in begin_wait_in_library() and
// started_receive().
inline std::atomic<std::uint32_t> waits_in_library{0};
void started_beside_wait_in_library();

// Adds one to a count of this rank's arrivals in the node segment, and returns the new count. Only
// this rank writes the count.
inline std::uint64_t count_on(std::atomic<std::uint64_t>& arrivals) {
  const std::uint64_t count = arrivals.load(std::memory_order_relaxed) + 1;
  // release: pairs with the acquire in has_arrived(), or barrier(), of the ranks that wait for this
  // rank.
  arrivals.store(count, std::memory_order_release);
  return count;
}
}  // namespace detail

// The short path through an arrival barrier, in a tight loop of collectives. Returns true if this
// rank need not wait for other ranks; its arrival is then counted. Returns false, without counting,
// if the caller must go through the full arrival barrier. The function is short and calls no other
// function on this path, so that the wrapper of an MPI call need not save registers: Open MPI's
// whole reduction of 8 bytes takes 90 ns. Used only while errors are fatal, since no code checks
// the result of the collective.
inline bool passes_tight_loop(MPI_Comm handle) {
  detail::TightLoop& tight = detail::tight;
  if (handle != tight.handle || tight.left == 0 || rndv::receives.needs_this_rank()) return false;
  --tight.left;
  detail::count_on(*tight.arrivals);
  return true;
}
// These functions end a tight loop, after which the next collective goes through the full arrival
// barrier. forget_comm() is called before a communicator is freed, end_tight_loops() before
// MPI_Finalize.
inline void forget_comm(MPI_Comm handle) {
  if (handle == detail::tight.handle) detail::tight = {};
}
inline void end_tight_loops() { detail::tight = {}; }
// Called before the communicator is freed. From then on no thread of this rank counts as being in
// one of its collectives (is_crowded()), even if an error handler of the program has left the
// communicator's last collective by longjmp(). Precondition: no thread is in a collective of the
// communicator.
void leave(Comm& comm);

// Called in the first collective of the communicator: gives it an arrival barrier and boards for
// rounds (coll/board_group.hpp). If the table of arrivals is full, rendezvous ends on this node for
// good, because a rank in a collective without an arrival barrier could take no message of
// Manyhands (arrival_table.hpp, invariant G5).
void join(Comm& comm);

// True if this rank has more threads in collectives than cores, or had so in the last
// tuning::kCrowdedNs nanoseconds. Its threads then do not wait at arrival barriers.
bool is_crowded();

// These functions enter a collective on `comm`: they count the arrival of this rank. `moves_data`
// is false if the call moves no data (a count of zero) and so must not wait. The functions differ
// in the ranks that this rank needs, and therefore waits for:
void all(MPI_Comm comm, bool moves_data);  // every rank needs all ranks
// enters a collective in which every rank needs the root (broadcast, scatter)
void on_root(MPI_Comm comm, int root, bool moves_data);
void at_root(MPI_Comm comm, int root, bool moves_data);  // the root needs all: reduce, gather
void on_lower(MPI_Comm comm, bool moves_data);           // a rank needs all lower ranks: scans
void none(MPI_Comm comm);                                // no rank; only counts the arrival
// enters a collective that the library will probably refuse on this rank alone: only counts the
// arrival, and never waits, because the other ranks may be in a round, which counts no arrivals
void alone(MPI_Comm comm);
// These functions enter a collective in which this rank needs the ranks with a positive count in
// `counts`, which send data to it. `root`: the only rank that receives data, if the call has a
// root. The array is read only if this rank may have to wait.
void on_counts(MPI_Comm comm, const int* counts, std::optional<int> root = std::nullopt);
void on_counts(MPI_Comm comm, const MPI_Count* counts, std::optional<int> root = std::nullopt);
// These functions enter a collective on a window: they count the arrival of this rank, and differ
// in the ranks for which it waits.
void window(MPI_Win win);       // every rank needs all ranks
void window_none(MPI_Win win);  // no rank; only counts the arrival

// Called after a receive has started. The thread that started the receive may stay outside MPI
// until another thread's collective is over. A thread that waits in the MPI library cannot copy the
// message that the receive gets. If there is such a thread, the calling thread therefore ends
// rendezvous on the node, as begin_wait_in_library() would have done.
inline void started_receive() {
  if (!switches.threads) return;
  // seq_cst: pairs with the fence in begin_wait_in_library(). Either this thread sees that another
  // thread waits in the MPI library, or that thread sees the started receive.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (detail::waits_in_library.load(std::memory_order_relaxed) != 0)
    detail::started_beside_wait_in_library();
}

// Called when a collective on `comm` has returned `result` on this rank, which thereby leaves it.
// An error ends arrival barriers and rendezvous on the node for good. Returns `result`.
int left(MPI_Comm comm, int result);
int left_window(MPI_Win win, int result);

// Carries out a barrier among the members of `comm` on this node. True if the barrier is complete,
// because all members are on this node. If false, the caller makes the MPI library's barrier, in
// which this rank takes no message: rendezvous may have ended for that (arrival_table.hpp, G5).
bool barrier(MPI_Comm comm);
// Carries out a barrier as barrier(MPI_Comm) does. `comm` has an arrival barrier. It is the entry
// of a communicator, or the *shadow* of a window, an entry that stands for the window
// (comms::make_shadow()).
bool barrier(Comm& comm);

namespace detail {
// Makes a condition for the wait loop: each test of it calls done(). Every few tests also drive the
// progress of the MPI library, on which a late rank may depend.
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

// Waits in the wait loop until done() is true. Drives the MPI library's progress meanwhile.
template <class Done>
void wait_until(Done&& done) {
  wait::until(detail::with_progress(done));
}
// Waits until done() is true, as wait_until() does, in a call of the program that holds no lock:
// among many waiting threads, the server may test done() in place of this thread
// (wait::until_shared()).
template <class Done>
void wait_until_shared(Done&& done) {
  wait::until_shared(detail::with_progress(done));
}

}  // namespace mh::mpi::arrivals

namespace mh::mpi {
// Called before a call of the MPI library that may wait for other ranks without an arrival barrier,
// so that this rank cannot help during the call. If the message of a started receive can be copied
// by this rank alone, rendezvous ends on the node (arrival_table.hpp, G5).
void prepare_wait_in_library();
}  // namespace mh::mpi

namespace mh::mpi::windows {

// Gives a window an arrival barrier of its own, since the order of its collectives is independent
// of the order of the collectives on `comm`, the communicator of the window. Returns the entry of
// the window, which is valid until the window is freed; null if it gets no arrival barrier.
Comm* adopt_arrival_barrier(MPI_Comm comm, MPI_Win win);
// Called before a window is freed: removes its arrival barrier and returns it; null if the window
// has none. If the MPI library could not free the window, restore_arrival_barrier() puts the
// arrival barrier back.
std::unique_ptr<Comm> remove_arrival_barrier(MPI_Win win);
void restore_arrival_barrier(MPI_Win win, std::unique_ptr<Comm> shadow);
}  // namespace mh::mpi::windows
