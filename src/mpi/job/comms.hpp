// SPDX-License-Identifier: BSD-3-Clause
// Records of communicators: which of their ranks share this node, and their arrival counts.
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

#include "coll/board_group.hpp"
#include "coll/sum_order.hpp"
#include "mpi/abi.hpp"
#include "mpi/handle_cache.hpp"
#include "mpi/job/arrival_table.hpp"
#include "steal/job.hpp"
#include "wait/pace.hpp"

namespace mh::mpi {

// A communicator's members, and which of them are on this node. Constant: a communicator and its
// duplicates share one object.
struct GroupOnNode {
  struct Member {
    int rank;                 // in the communicator
    std::uint32_t node_rank;  // on the node
  };

  int size;
  int rank;
  std::vector<std::int16_t> node_rank_of;  // by rank in the communicator; kElsewhere off this node
  std::vector<Member> members;             // members on this node, ascending by rank
  std::uint64_t hash;                      // of `members`
};

// The record of an adopted communicator. A receive under way shares the record, which may outlive
// the program's communicator.
struct Comm : std::enable_shared_from_this<Comm> {
  using Member = GroupOnNode::Member;

  MPI_Comm handle;
  std::uint64_t key;  // the same on all members of this node
  // The five fields from `size` to `members` repeat what `group_on_node` says, which owns the
  // arrays.
  int size;
  int rank;
  bool on_one_node;  // all members are on this node
  const std::int16_t* node_rank_of;
  std::span<const Member> members;  // this rank included
  std::shared_ptr<const GroupOnNode> group_on_node;
  steal::CopyOrder order;  // from the hint post_comm_access
  // The number of communicators that were made of this communicator, by a hash of their members on
  // this node and of the salt of adopt(). Guarded by the mutex of all communicators.
  std::unordered_map<std::uint64_t, std::uint64_t> children;

  // The index of this communicator in the arrival table. comms::join() sets it in the
  // communicator's first collective.
  std::uint32_t group = kUnknownGroup;
  // This rank's line in the arrival table, and the word GroupEntry::off of the communicator's
  // entry. That word is set once a collective of the communicator has failed on a rank (G4 in
  // arrival_table.hpp). Null before join(), and without an arrival barrier.
  ArrivalLines::Line* line = nullptr;
  std::atomic<std::uint32_t>* off = nullptr;
  std::uint64_t arrived = 0;   // collectives that this rank has entered
  std::uint64_t barriers = 0;  // barriers that this rank has entered
  bool inside = false;   // this rank is in a collective that it entered by the arrival barrier
  bool counted = false;  // ThreadsInside (arrivals.cpp) counts the thread in the collective
  bool waits_in_library = false;  // this rank waits in the library though members are late
  wait::Pace pace{};              // of its collectives (arrivals.hpp)
  coll::BoardGroup boards;  // empty before join(), and if the ranks cannot carry out collectives
  coll::SumOrders sums;     // whether the order of its floating-point sums is known

  static constexpr std::int16_t kElsewhere = -1;

  // Returns the rank on this node of the member `rank_in_comm`; kElsewhere if the member is on
  // another node, and for a wildcard or a bad rank.
  [[nodiscard]] std::int32_t on_node(int rank_in_comm) const {
    if (rank_in_comm < 0 || rank_in_comm >= size) return kElsewhere;
    return node_rank_of[rank_in_comm];
  }
  // True if the member `rank_in_comm` is on another node; false for a wildcard or a bad rank.
  [[nodiscard]] bool is_elsewhere(int rank_in_comm) const {
    return rank_in_comm >= 0 && rank_in_comm < size && on_node(rank_in_comm) == kElsewhere;
  }
};

namespace comms {

namespace detail {
inline HandleCache<1024> cache;
Comm* find_slow(MPI_Comm handle);
}  // namespace detail

// Returns the record of a communicator, null if it was not adopted. Any thread may call this
// function. The record is valid until the communicator is freed.
inline Comm* find(MPI_Comm handle) {
  std::uint64_t word = 0;
  if (detail::cache.find(bits_of(handle), word)) [[likely]]
    return reinterpret_cast<Comm*>(word);
  return detail::find_slow(handle);
}

// Returns the record of the communicator with this key; null if the program has freed the
// communicator.
Comm* find_key(std::uint64_t key);
// Shares the record of a communicator, so that it lives while a message may still come on the
// communicator. Null gives null.
inline std::shared_ptr<Comm> share(Comm* comm) {
  return comm == nullptr ? nullptr : comm->shared_from_this();
}
// Returns the communicator on which an error of a call on `comm` is raised: its handle, or
// MPI_COMM_WORLD once the program has freed `comm`.
MPI_Comm for_errors(const Comm& comm);

// Ends arrival barriers and rendezvous on the node for good. Called when a collective has failed on
// a rank, or when failing collectives may return MPI_SUCCESS (G4 in arrival_table.hpp).
void end_arrival_barriers();
bool arrival_barriers_ended();
// Ends rendezvous on this node for good: a communicator has no arrival barrier (G5 in
// arrival_table.hpp), a collective has failed (G4), a receive was truncated
// (rndv/buffered_sends.hpp), or an RTS header was overwritten (rndv/receive.hpp). After the call,
// no rank posts a further rendezvous send.
void end_rendezvous();
bool rendezvous_ended();  // only while switches.active
// True while messages of this node may go by rendezvous. May be called only while switches.active
// is true.
bool allow_rendezvous();

void start();  // adopts MPI_COMM_WORLD and MPI_COMM_SELF
void stop();

// Adopts a communicator, that is, makes its record, after its constructor has succeeded on all
// members of `parent` that are in `fresh`. `fresh` is MPI_COMM_NULL on a rank outside it, and is no
// intercommunicator. `salt` distinguishes constructors that not all members of the parent call.
void adopt(MPI_Comm parent, MPI_Comm fresh, int salt = 0);
// Adopts (makes a record of) a communicator that has the ranks of `parent` in the same order.
void adopt_duplicate(MPI_Comm parent, MPI_Comm fresh);
// Sets Comm::order from the hint post_comm_access, if `info` has it: the order in which the program
// reads received data (CAB-MPI, III-E1). Ignores unknown values, and communicators that are not
// adopted.
void read_hints(MPI_Comm handle, MPI_Info info);
// Makes the record of a second arrival barrier over the members of `parent`, for a window or
// another object that has collectives of its own.
std::unique_ptr<Comm> make_shadow(MPI_Comm parent);
// Finds or makes the communicator's entry in the arrival table. Sets Comm::group and, unless that
// is kNoGroup, also off, line and boards. Each member of the communicator calls this function in
// its first collective of the communicator; the members do not wait for each other.
void join(Comm& comm);
// Called when the communicator is freed: gives up this rank's share of the communicator's entry in
// the arrival table; the last member frees the entry. If this rank has never called join(), no
// member has, and there is no entry.
void leave(Comm& comm);
// Takes the record of a communicator out of the table in which find() looks, before the library
// frees the handle; null if the communicator was not adopted. The record lives on while a receive
// shares it. The caller follows up with leave(), or with restore() if the library could not free
// the communicator.
std::shared_ptr<Comm> forget(MPI_Comm handle);
void restore(std::shared_ptr<Comm> comm);

// While an object of this class lives, find() still finds the forgotten record `comm` (null: none)
// in the calling thread. The library calls the program's delete callbacks in that thread, before it
// frees the handle. A callback may free a further communicator.
class BeingFreed {
 public:
  explicit BeingFreed(Comm* comm);
  ~BeingFreed();
  BeingFreed(const BeingFreed&) = delete;
  BeingFreed& operator=(const BeingFreed&) = delete;

 private:
  friend Comm* detail::find_slow(MPI_Comm handle);
  Comm* comm_;
  const BeingFreed* outer_;  // of the callback in which this object lives
};

}  // namespace comms
}  // namespace mh::mpi
