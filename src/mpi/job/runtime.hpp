// SPDX-License-Identifier: BSD-3-Clause
// The process's place in the job: its node, its areas in the segment, its private communicators.
//
// Started at the end of MPI_Init*, stopped at the begin of MPI_Finalize, written by nobody in
// between except where noted. While `active` is false every wrapper forwards its call unchanged.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "lend/channel.hpp"
#include "lend/lender.hpp"
#include "lend/pool.hpp"
#include "lend/workers.hpp"
#include "mpi/abi.hpp"
#include "mpi/job/gate_table.hpp"
#include "mpi/next.hpp"
#include "node/node.hpp"
#include "observe/counters.hpp"
#include "p2p/carrier.hpp"
#include "p2p/exchanges.hpp"
#include "p2p/landing.hpp"
#include "p2p/lent_copies.hpp"
#include "p2p/outbox.hpp"
#include "steal/chunking.hpp"
#include "steal/slots.hpp"
#include "steal/thief.hpp"

namespace mh::mpi {

// What a rank keeps in the node segment behind its record. The row of helped bytes follows it, then
// the cells of its belts.
struct alignas(kCacheLine) RankArea {
  observe::Counters counters;
  steal::JobSlots jobs;
  p2p::SharedOutbox outbox;
  p2p::LandingBoard landings;
  p2p::Belts belts;
  lend::Lendings lendings;
  GateLines gates;
  GateTable gate_table;  // used in the area of rank 0 only
  // short_sent[r] != 0: this rank has sent rank r an ordinary message of just a descriptor's size.
  // Written by this rank, read by receivers that probe; relaxed, ordered by the message itself.
  std::atomic<std::uint8_t> short_sent[node::kMaxRanks];
};

// MH_THRESHOLD is brought up to this: a message that is hardly longer than its descriptor gains
// nothing.
inline constexpr std::uint64_t kLeastThreshold = 4096;

struct Runtime {
  bool started = false;     // between start() and stop()
  bool active = false;      // the node segment is there and agreed on
  bool describing = false;  // large messages may travel as descriptors: one of the next three
  bool reaching = false;    // ranks may read and write each other's memory
  bool carrying = false;    // messages may go by belts (p2p/belt.hpp)
  bool cells_pay = false;   // maybe also those that the kernel could copy: it is slow at it
  bool wiring = false;      // messages to other nodes may go by wires (wires.hpp)
  bool willing = false;     // nothing on this node speaks against helping with messages
  bool multiple = false;    // the library has granted MPI_THREAD_MULTIPLE
  // Several threads may be in calls of ours: that, or helpers that take turns (in_loop.hpp). Set
  // later only while no call is under way.
  bool threads = false;
  // No communicator has had an error handler but MPI_ERRORS_ARE_FATAL: what fails does not return.
  bool errors_are_fatal = false;
  std::atomic<bool> switched_on{true};  // MPI_Pcontrol; relaxed, takes effect soon

  std::optional<node::Node> node;
  std::uint32_t me = 0;     // rank on the node
  std::uint32_t ranks = 0;  // of the node
  int world_rank = 0;
  std::uint64_t key[2] = {0, 0};         // opens every descriptor of this node
  std::uint64_t threshold = 0;           // bytes from which messages are described
  std::uint64_t exchange_threshold = 0;  // ... dense ones whose sender receives a long one, too

  MPI_Comm node_comm{};  // ranks of this node, in order; carries completions and resent data
  MPI_Comm wire_comm{};  // a duplicate of MPI_COMM_WORLD, only while `wiring`
  MPI_Comm self_comm{};  // this rank alone; holds messages that a probe had to take out
  std::optional<steal::SlotKeeper> keeper;
  std::optional<steal::Chunking> chunking;
  steal::Order order = steal::Order::both_ends;
  p2p::Outbox outbox;
  p2p::Landings landings;
  p2p::Exchanges exchanges;

  // Only where cores are lent. The pool goes with stop() or not at all: a program may call exit()
  // from a helper's thread, or in a child that has no helpers.
  lend::Pool* helpers = nullptr;
  bool sharing_loops = false;                  // they are exposed to others
  std::optional<lend::Lender> lender;          // the core this rank waits on
  std::optional<lend::Workers> workers;        // its further ones
  std::optional<p2p::LentCopies> lent_copies;  // only where a third rank could help a pair
  std::optional<p2p::Carrier> carrier;         // only while `carrying`

  [[nodiscard]] RankArea& area(std::uint32_t rank) const {
    return *reinterpret_cast<RankArea*>(node->area(rank));
  }
  [[nodiscard]] observe::Counters& counters() const { return area(me).counters; }
};

extern Runtime g;

// This thread's hands (scratch memory, victim state), made at the first use. Only while active.
steal::Thief& thief();

// Drives the MPI library's own progress from a wait that looks at memory only.
void poke_library();

// A lock that only programs with MPI_THREAD_MULTIPLE pay for.
class ThreadLock {
 public:
  explicit ThreadLock(std::mutex& mutex) : mutex_(g.threads ? &mutex : nullptr) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  ~ThreadLock() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  ThreadLock(const ThreadLock&) = delete;
  ThreadLock& operator=(const ThreadLock&) = delete;

 private:
  std::mutex* mutex_;
};

// After the library's MPI_Init* succeeded: collective over MPI_COMM_WORLD.
void start();
// Before the library's MPI_Finalize: collective over MPI_COMM_WORLD.
void stop();

}  // namespace mh::mpi
