// SPDX-License-Identifier: BSD-3-Clause
// Communicators as we know them: which of their ranks share this node, and their arrival counts.
//
// A communicator is *adopted* when its constructor returns, on every member alike and without
// communication. Its key is computed from its parent's key, its members on this node, and the
// number of communicators with these members that the parent has had. The first collective reserves
// a line in the segment; most short-lived communicators never need one. Intercommunicators, and
// communicators whose constructors are not intercepted, are not adopted: the library gets every
// call on them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "mpi/abi.hpp"
#include "mpi/handle_cache.hpp"
#include "mpi/job/arrival_table.hpp"
#include "steal/job.hpp"
#include "wait/pace.hpp"

namespace mh::mpi {

// The members of a group that are on this node. Constant, so a communicator and its duplicates
// share it.
struct Place {
  struct Member {
    int rank;                 // in the communicator
    std::uint32_t node_rank;  // on the node
  };

  int size;
  int rank;
  std::vector<std::int16_t> node_rank_of;  // by rank in the communicator; kElsewhere off this node
  std::vector<Member> members;             // those on this node, ascending by rank
  std::uint64_t hash;                      // of `members`
};

// Shared by those who may still refer to it when it is freed: receives under way.
struct Comm : std::enable_shared_from_this<Comm> {
  using Member = Place::Member;

  MPI_Comm handle;
  std::uint64_t key;  // the same on all members of this node
  // Copies from `place`, which owns the arrays:
  int size;
  int rank;
  bool on_one_node;  // all members are here
  const std::int16_t* node_rank_of;
  std::span<const Member> members;  // this one included
  std::shared_ptr<const Place> place;
  steal::CopyOrder order;  // post_comm_access
  // Made of it so far, by members and salt. Guarded by the mutex of all communicators.
  std::unordered_map<std::uint64_t, std::uint64_t> children;

  // Its collectives. The first of them looks for the group (comms::join()). `line` is this rank's
  // own, null before that and without an arrival barrier; `off` the group's switch. The counts are
  // of what this rank has entered. `inside`: it has not come back from its last collective, in a
  // call that came through the gate. `counted`: ... and its thread is among those in collectives;
  // `unhelped`: it went there though members were late.
  std::uint32_t group = kUnknownGroup;
  ArrivalLines::Line* line = nullptr;
  std::atomic<std::uint32_t>* off = nullptr;
  std::uint64_t arrived = 0;
  std::uint64_t barriers = 0;
  bool inside = false;
  bool counted = false;
  bool unhelped = false;
  wait::Pace pace{};  // of its collectives: when gating pays, see arrivals.hpp

  static constexpr std::int16_t kElsewhere = -1;

  // Rank on this node of `rank`, kElsewhere for another node, a wildcard or a bad rank.
  [[nodiscard]] std::int32_t on_node(int rank_in_comm) const {
    if (rank_in_comm < 0 || rank_in_comm >= size) return kElsewhere;
    return node_rank_of[rank_in_comm];
  }
  // A member on another node; not a wildcard or a bad rank.
  [[nodiscard]] bool is_elsewhere(int rank_in_comm) const {
    return rank_in_comm >= 0 && rank_in_comm < size && on_node(rank_in_comm) == kElsewhere;
  }
};

namespace comms {

namespace detail {
inline HandleCache<1024> cache;
Comm* find_slow(MPI_Comm handle);
}  // namespace detail

// Null for a communicator that was not adopted. Any thread. Valid until the communicator is freed.
inline Comm* find(MPI_Comm handle) {
  std::uint64_t word = 0;
  if (detail::cache.find(bits_of(handle), word)) [[likely]]
    return reinterpret_cast<Comm*>(word);
  return detail::find_slow(handle);
}

// The one with that key, null if it was freed.
Comm* find_key(std::uint64_t key);
// Keeps it while a message may still come on it; null stays null.
inline std::shared_ptr<Comm> share(Comm* comm) {
  return comm == nullptr ? nullptr : comm->shared_from_this();
}
// The communicator on which an error of `comm` is raised: its handle, or MPI_COMM_WORLD once it is
// freed.
MPI_Comm for_errors(const Comm& comm);

// A collective has failed on some rank of this node (arrival_table.hpp, G4).
void note_failed_collective();
bool has_failed_collective();
// Rendezvous ends on this node, for good: a communicator has no arrival barrier (G5), a collective
// has failed (G4), a receive was truncated (rndv/buffered_sends.hpp), or a header was overwritten
// (rndv/receive.hpp). True the first time.
bool end_rendezvous();
bool rendezvous_ended();  // only while switches.active
// A message may go by rendezvous, as far as the node is concerned. Only while switches.active.
bool allow_rendezvous();

void start();  // adopts MPI_COMM_WORLD and MPI_COMM_SELF
void stop();

// After a constructor succeeded on all of `parent`'s members that are in `fresh` (which may be
// MPI_COMM_NULL here, but is no intercommunicator). `salt` tells apart constructors that not all of
// the parent's members call.
void adopt(MPI_Comm parent, MPI_Comm fresh, int salt = 0);
// Likewise, where `fresh` has the ranks of `parent` in their order.
void adopt_duplicate(MPI_Comm parent, MPI_Comm fresh);
// A second arrival barrier over the members of `parent`, for an object with collectives of its own
// (a window).
std::unique_ptr<Comm> shadow(MPI_Comm parent);
// In its first collective. Every member of a group joins it, since all of them have called that.
void join(Comm& comm);
// When it is freed. A rank that has never joined leaves nothing: nor has any other member.
void leave(Comm& comm);
// Before the communicator is freed: it is no longer found, but lives on as long as somebody shares
// it. Null if it was not adopted. To be followed by leave() or, if it could not be freed,
// restore().
std::shared_ptr<Comm> take(MPI_Comm handle);
void restore(std::shared_ptr<Comm> comm);

}  // namespace comms
}  // namespace mh::mpi
