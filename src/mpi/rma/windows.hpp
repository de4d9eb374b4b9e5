// SPDX-License-Identifier: BSD-3-Clause
// The windows whose operations and synchronisation are ours (src/rma), by their handles.
//
// A window is ours if each rank of its communicator reaches the memory of all on its node, and
// there is no other node, or what goes to other nodes may be ours as well (remote.hpp): decided
// together, when the window is made. The MPI library makes the window all the same, and its memory:
// handle, group, attributes, name, info and error handler are the library's. Every other window is
// the library's in all, as without us.
//
// Words: a request that is *counted* (rma/piece.hpp) is under way until its target has said
// that it is carried out; a *result* is awaited until it lies in its place. Each word names who
// writes it: *callers* are the threads that make the window's calls, the *server* is the thread
// that has the serving lock (serving.cpp).
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
#include "mpi/protocol/watch.hpp"
#include "node/segment.hpp"
#include "rma/window.hpp"

namespace mh::mpi::rma {

// ---- Ranks of other nodes: what was asked of them, and what they have answered ------------------

// Another rank of the window.
struct Peer {
  int world_rank = 0;

  // By callers. Counted requests to it; results that it owes, which the server counts down by
  // release when they are in place, and callers acquire.
  alignas(kCacheLine) std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> awaited{0};
  std::uint64_t locks = 0;  // asked for; with the window's mutex

  // By the server, by release, acquired by callers that wait.
  alignas(kCacheLine) std::atomic<std::uint64_t> done{0};  // of `sent`
  std::atomic<std::uint64_t> granted{0};                   // of `locks`
  std::atomic<bool> failed{false};  // something that was asked for; callers take it back

  // The server's own: counted requests from that rank that are carried out, and that it knows of.
  std::uint64_t handled = 0;
  std::uint64_t told = 0;
};

// Where a result goes that a peer owes this rank.
struct AwaitedResult {
  mh::rma::End place;
  layout::LayoutPtr layout;  // of the place
  layout::Range range{};     // of its stream
};

struct Spanning {
  static constexpr std::size_t kRounds = 32;  // of a barrier: logarithm of the number of ranks

  std::uint64_t id = 0;           // the window's, in the job
  std::unique_ptr<Peer[]> peers;  // by rank in the window

  std::mutex mutex;  // guards the next two
  std::unordered_map<std::uint64_t, AwaitedResult> results;
  std::uint64_t asked = 0;

  std::uint64_t barriers = 0;  // that this rank has entered; by the thread that is in one
  // Messages of each round of barriers. By the server by release, acquired in the barrier.
  std::array<std::atomic<std::uint64_t>, kRounds> arrived{};
};

// ---- Windows ------------------------------------------------------------------------------------

enum class Flavor : std::uint8_t { created, allocated, shared, dynamic };

struct Win {
  Win(MPI_Win made, Flavor kind, Comm& arrivals, node::Segment shared,
      std::vector<mh::rma::Exposed> exposed, std::unique_ptr<Spanning> other_nodes);
  Win(const Win&) = delete;
  Win& operator=(const Win&) = delete;
  ~Win();

  MPI_Win handle;
  Flavor flavor;
  MPI_Group group;        // of the window
  Comm* gate;             // its arrival barrier
  node::Segment control;  // the memory of the window's control, mapped as long as the window lives
  mh::rma::Window window;
  std::unique_ptr<Spanning> spanning;  // of a window over several nodes
  // Guards the window's epochs, of programs with several threads in MPI.
  std::mutex mutex;
  std::vector<std::uint32_t> posts_seen;  // by rank: epochs that were exposed to this one and used
  std::uint64_t completed_seen = 0;       // epochs to this rank that it has waited for

  [[nodiscard]] std::uint32_t ranks() const { return window.ranks(); }
  [[nodiscard]] bool is_elsewhere(std::uint32_t rank) const {
    return window.exposed(rank).is_elsewhere();
  }
};

namespace detail {
inline HandleCache<64> cache;
Win* find_slow(MPI_Win handle);
}  // namespace detail

// Null for a window that is the library's. Any thread. Valid until the window is freed.
inline Win* find(MPI_Win handle) {
  std::uint64_t word = 0;
  if (detail::cache.find(bits_of(handle), word)) [[likely]]
    return reinterpret_cast<Win*>(word);
  return detail::find_slow(handle);
}

// By Spanning::id. Null for a window that is not made yet, or was freed.
std::shared_ptr<Win> find_spanning(std::uint64_t id);
// A load: whether there are windows over several nodes.
bool any_spanning();

// After the library has made the window, on all its ranks. Collective; does nothing where the
// window stays the library's.
void adopt(MPI_Comm comm, MPI_Win handle, Flavor flavor, const void* base, std::int64_t bytes,
           std::int64_t unit);
// Before the window is freed: it is no longer found. Null if it was not ours.
std::shared_ptr<Win> take(MPI_Win handle);
// It is found from now on, for the first time or once more.
void enter(const std::shared_ptr<Win>& win);
void stop();

// What no epoch allows is an error. Where the library lets it through all the same (Open MPI in
// shared windows), programs may rely on that.
#if defined(MH_ABI_OPENMPI)
inline bool strict(const Win& win) { return win.flavor != Flavor::shared; }
inline constexpr bool kCompletesWithoutStart = true;
inline constexpr bool kSyncsInLocksAlone = false;
inline constexpr bool kLocksNobody = false;
#else
inline bool strict(const Win& /*win*/) { return true; }
inline constexpr bool kCompletesWithoutStart = false;
inline constexpr bool kSyncsInLocksAlone = true;  // MPI_Win_sync
inline constexpr bool kLocksNobody = true;        // MPI_PROC_NULL
#endif

// Calls the window's error handler, as the library would. What the call then returns: the code, or
// MPI_SUCCESS where the library lets a handler of the program have the last word.
int raise(MPI_Win handle, int code);

// ---- Hands --------------------------------------------------------------------------------------

// This thread's.
mh::rma::Hands& hands();
// A step of a Running or PieceRun. True when it is over: done, failed, or left to dead ranks, who
// will never do their chunks.
template <class Run>
bool advance(Run& run, Watch& watch) {
  if (run.step(hands())) return true;
  if (!run.all_claimed() || !watch.left_to_the_dead()) return false;
  run.give_up();
  return true;
}
// One chunk of an operation of another rank. True if there was one. With the wait loop's hands.
bool help();
// What others have asked this rank to do in its own memory. With the wait loop's hands; a load
// where there are no windows.
void serve();

}  // namespace mh::mpi::rma
