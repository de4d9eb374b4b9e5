// SPDX-License-Identifier: BSD-3-Clause
// The windows whose operations and synchronisation Manyhands carries out (src/rma), by handle.
//
// Such a window is *ours*. Each rank of its communicator reaches the memory of all ranks on its
// node. All ranks are on one node, unless windows over several nodes may be ours (remote.hpp). The
// ranks decide together when the window is made. The MPI library still makes the window and its
// memory: handle, group, attributes, name, info and error handler are the library's. Every other
// window is entirely the library's.
//
// Threads: *callers* are the threads that make the window's calls; the *server* is the thread that
// holds the mutex of TargetServer (serving.cpp). The comments of each field name its writer. A
// *counted* request (rma/piece.hpp) is under way until its target has reported that the request is
// carried out. A *result* is awaited until the origin has stored the value.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/cacheline.hpp"
#include "mpi/abi.hpp"
#include "mpi/handle_cache.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/thief_watch.hpp"
#include "mpi/rma/control_pool.hpp"
#include "node/segment.hpp"
#include "rma/window.hpp"

namespace mh::mpi::rma {

// ---- Requests to ranks of other nodes, and their answers ----------------------------------------

// The state of this rank's requests to, and from, a rank of the window on another node.
struct RemoteRank {
  int world_rank = 0;

  // Both are counted up by threads that make the window's calls. `sent`: counted requests to the
  // other rank. `awaited`: results that the other rank still owes to this rank. The RMA server
  // (serving.hpp) counts `awaited` down when it has stored a result: release, pairs with the
  // acquire in has_results().
  alignas(kCacheLine) std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> awaited{0};
  std::uint64_t locks = 0;  // lock requests; guarded by the window's mutex

  // Written by the RMA server (serving.hpp) when an answer comes. release: pairs with the acquires
  // of the threads that wait in the window's calls.
  alignas(kCacheLine) std::atomic<std::uint64_t> done{0};  // carried out, of `sent`
  std::atomic<std::uint64_t> granted{0};                   // of `locks`
  std::atomic<bool> failed{false};                         // a request has failed; callers reset it

  // Counted requests that came from the other rank: how many this rank has carried out, how many of
  // these it has reported to the other rank, and whether one that is not reported has failed. Used
  // by the RMA server (serving.hpp) only.
  std::uint64_t carried_out = 0;
  std::uint64_t reported = 0;
  bool has_failed = false;
};

// The buffer of this rank for the result of an operation, which a rank on another node will send.
struct AwaitedResult {
  mh::rma::RmaBuffer buffer;
  layout::LayoutPtr layout;     // layout of the buffer
  layout::StreamRange range{};  // of the buffer's stream
};

struct InternodeState {
  // The most rounds of a dissemination barrier: the logarithm of the number of ranks.
  static constexpr std::size_t kRounds = 32;

  std::uint64_t id = 0;                 // unique in the MPI job
  std::unique_ptr<RemoteRank[]> peers;  // by rank in the window

  std::mutex mutex;  // guards the next two
  std::unordered_map<std::uint64_t, AwaitedResult> results;
  std::uint64_t asked = 0;  // number of the last request with a result

  // The number of barriers over the window that this rank has entered. Written by the thread in a
  // barrier.
  std::uint64_t barriers = 0;
  // For each round of a barrier, the number of messages that have come for it, over all barriers.
  // release by the RMA server (serving.hpp), acquire in barrier().
  std::array<std::atomic<std::uint64_t>, kRounds> arrived{};
};

// ---- Windows of ours, by handle -----------------------------------------------------------------

enum class Flavor : std::uint8_t { created, allocated, shared, dynamic };

struct Win {
  Win(MPI_Win made, Flavor kind, Comm& arrivals, const ControlName& name, node::Segment shared,
      std::vector<mh::rma::Exposed> exposed, std::unique_ptr<InternodeState> other_nodes);
  Win(const Win&) = delete;
  Win& operator=(const Win&) = delete;
  ~Win();

  MPI_Win handle;
  Flavor flavor;
  MPI_Group group;  // of the window
  Comm* comm;       // the communicator's record, with the window's own arrival barrier
  ControlName control_name;
  node::Segment control;  // the shared memory of `window`, mapped as long as the window lives
  mh::rma::Window window;
  std::unique_ptr<InternodeState> internode;  // for a window over several nodes, else null
  // Guards the epochs and the deferred operations of `window`, for programs with several threads in
  // MPI.
  std::mutex mutex;
  // For each target: how many of its posts (MPI_Win_post) for this rank the calls of MPI_Win_start
  // have already used up. The target counts its posts in Posts (rma/control.hpp).
  std::vector<std::uint32_t> posts_used;
  // The part of RankPart::completed (how often origins have completed an access epoch to this
  // rank's memory) that belongs to exposure epochs which this rank has ended.
  std::uint64_t completes_used = 0;

  [[nodiscard]] std::uint32_t ranks() const { return window.ranks(); }
  [[nodiscard]] bool is_elsewhere(std::uint32_t rank) const {
    return window.exposed(rank).is_elsewhere();
  }
};

namespace detail {
inline HandleCache<64> cache;
Win* find_slow(MPI_Win handle);
}  // namespace detail

// Returns the window behind a handle if it is ours, null if it is the library's. Thread-safe. The
// pointer is valid until the window is freed.
inline Win* find_window(MPI_Win handle) {
  std::uint64_t word = 0;
  if (detail::cache.find(bits_of(handle), word)) [[likely]]
    return reinterpret_cast<Win*>(word);
  return detail::find_slow(handle);
}

// Returns the window over several nodes with this InternodeState::id; null if this rank has not
// made the window yet, or has freed it.
std::shared_ptr<Win> find_internode(std::uint64_t id);
bool has_internode_windows();

// Decides with the other ranks whether a window that the library has made is ours, that is, served
// by Manyhands, and takes it over if it is. Collective.
void adopt_window(MPI_Comm comm, MPI_Win handle, Flavor flavor, const void* base,
                  std::int64_t bytes, std::int64_t unit);
// Removes a window of ours from the table before the library frees it, and returns it. Null if the
// window was not ours.
std::shared_ptr<Win> remove_window(MPI_Win handle);
// Makes find_window() find the window. Called for a new window, and again for a window that the
// library could not free.
void insert_window(const std::shared_ptr<Win>& win);
// Called in MPI_Finalize: removes all windows and unmaps all control memory that was kept for later
// windows.
void stop_windows();

// True if an operation without an epoch is an error with this library. Open MPI permits such
// operations in shared windows, and programs may rely on this.
#if defined(MH_ABI_OPENMPI)
inline bool is_strict(const Win& win) { return win.flavor != Flavor::shared; }
// True for Open MPI, in which MPI_Win_complete without MPI_Win_start may succeed.
inline constexpr bool kCompletesWithoutStart = true;
inline constexpr bool kSyncsInLocksAlone = false;
inline constexpr bool kLocksNobody = false;
#else
inline bool is_strict(const Win& /*win*/) { return true; }
inline constexpr bool kCompletesWithoutStart = false;
inline constexpr bool kSyncsInLocksAlone = true;  // MPI_Win_sync is an error outside lock epochs
inline constexpr bool kLocksNobody = true;        // the library accepts locks of MPI_PROC_NULL
#endif

// Calls the window's error handler with `code` and returns the code for the program. The returned
// code is MPI_SUCCESS for a library in which a failing call returns success after a handler of the
// program has run (MPICH 5).
int raise_error(MPI_Win handle, int code);

// ---- Helping other ranks with one-sided operations ----------------------------------------------

// Returns the calling thread's state for one-sided operations, which the first call makes.
mh::rma::RmaContext& thread_context();
// Carries out one step (a chunk) of `run`, an OperationRun or a PieceRun. Returns true when the run
// is over: done, failed, or abandoned because dead ranks hold chunks.
template <class Run>
bool advance_run(Run& run, ThiefWatch& watch) {
  if (run.step(thread_context())) return true;
  if (!run.all_claimed() || !watch.left_to_the_dead()) return false;
  run.give_up();
  return true;
}
// Carries out one chunk of a one-sided operation of another rank of the node, in any window.
// Returns true if there was such a chunk. Any thread may call this function.
bool help_operation();
// Carries out the active messages (rma/control.hpp) by which other ranks of this node ask this rank
// to access its own memory. Costs a load if there are no windows.
void serve_own_node();

}  // namespace mh::mpi::rma
