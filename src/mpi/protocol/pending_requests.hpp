// SPDX-License-Identifier: BSD-3-Clause
// Receives of the program that need a look when they complete.
//
// Words: an *entry* is a started receive in whose buffer a descriptor may land, whose source the
// library does not know, or which is too short for a descriptor where errors return. Its message
// may be fetched before the program completes the request (its sender may wait for that), and with
// several threads by another one than completes it; so an entry is shared, and its message is
// fetched by whoever takes it *in hand*.
//
// Nearly all requests are of no interest and are not here; every completion call first asks any(),
// one load. Limits: a request completed by a call we do not intercept stays in the pending requests
// until its handle is used again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpi/protocol/overlaps.hpp"
#include "mpi/protocol/receiver.hpp"
#include "mpi/protocol/short_receives.hpp"

namespace mh::mpi {

// What has to be done when a receive completes.
struct Receipt {
  ReceiveTarget target{};        // may be empty, if only the envelope is of interest
  std::shared_ptr<Comm> comm{};  // the target's, once the program may free it before the end
  bool persistent = false;
  // For a descriptor: one that meets it is lost (lost_descriptors.hpp). What it asks for.
  std::optional<Envelope> too_short{};
  std::optional<Envelope> envelope{};  // the true one, where the library knows another (probe.hpp)
};

class PendingReceive : public std::enable_shared_from_this<PendingReceive> {
 public:
  explicit PendingReceive(const Receipt& what) : receipt(what) {
    if (receipt.comm == nullptr) receipt.comm = comms::share(receipt.target.comm);
  }
  ~PendingReceive() { overlaps.remove(*this); }
  PendingReceive(const PendingReceive&) = delete;
  PendingReceive& operator=(const PendingReceive&) = delete;

  Receipt receipt;  // written by the thread that starts and completes the request
  // Some call has found it, and is about to complete the request. Taken by exchange (acquire),
  // given back by release: the next call sees what the last one did.
  std::atomic<bool> claimed{false};
  // Acquired by exchange, given back by release: the next holder sees what the last one fetched.
  std::atomic<bool> in_hand{false};
  std::optional<Coming> coming{};    // of the holder: from another node, begun
  std::optional<Fetched> fetched{};  // of the holder; read by the completing thread after it
  // Of one that is too short: the status with which it was over when it was looked at, and its
  // error, which a look may take away (MPICH 5). Of the thread that searches for lost descriptors.
  std::optional<MPI_Status> over{};
  int over_error = MPI_SUCCESS;

 private:
  friend class PendingRequests;
  // False for a persistent receive between its completion and its next start. Guarded by the
  // pending requests's mutex.
  bool under_way_ = false;
};
using PendingReceivePtr = std::shared_ptr<PendingReceive>;

class PendingRequests {
 public:
  // A receive is under way.
  [[nodiscard]] static bool any() {
    return receives_under_way.load(std::memory_order_relaxed) != 0;
  }
  // ... that may be of a message of this node, long enough to be described.
  [[nodiscard]] bool any_long() const { return long_.load(std::memory_order_relaxed) != 0; }
  // There is an entry, be it of a persistent receive that is not started.
  [[nodiscard]] bool has_entries() const { return entries_.load(std::memory_order_relaxed) != 0; }
  // A receive is under way whose sender cannot push: only this rank can move its message.
  [[nodiscard]] bool needs_this_rank() const {
    return unshown_.load(std::memory_order_relaxed) != 0;
  }

  void add(MPI_Request request, const Receipt& receipt);
  // A persistent receive: entered when it is made, under way from its start to its completion.
  void add_persistent(MPI_Request request, const Receipt& receipt);
  void start(PendingReceive& entry);
  // Short receives that are here from now on: one whose request the program frees; all for good,
  // because from now on an overrun is an error that returns.
  void adopt_short_receive(MPI_Request request);
  void adopt_short_receives();

  // Null if the request is not here. With several threads to be asked before the library completes
  // the request: afterwards its handle may already be another thread's. So with several threads the
  // entry is the caller's alone as long as it keeps the pointer: who asks meanwhile has a handle
  // that the library has given away again, to a request that is none of ours.
  PendingReceivePtr find(MPI_Request request);
  [[nodiscard]] bool is_under_way(const PendingReceivePtr& entry);
  // The receive is over. A persistent one stays entered.
  void finish(MPI_Request request, const PendingReceivePtr& entry);
  // The request is freed. A receive under way still is, until conclude().
  void remove(MPI_Request request);
  void conclude(PendingReceive& entry);

  // Receives whose requests the program freed.
  struct Orphan {
    MPI_Request request;
    PendingReceivePtr entry;
  };
  void adopt_orphan(MPI_Request request, const PendingReceivePtr& entry);
  // Gives up the orphans for which over(orphan), called under their lock.
  template <class Over>
  void end_orphans(Over&& over) {
    const Guard hold(orphans_mutex_);
    std::erase_if(orphans_, std::forward<Over>(over));
  }

  // Whether a receive under way, or one that holds its type, will still need this datatype to place
  // its message.
  [[nodiscard]] bool uses(MPI_Datatype type);

  // Entries under way for which picked(request, entry), called under the pending requests' lock.
  template <class Picked>
  std::vector<PendingReceivePtr> select(Picked&& picked) {
    const Guard hold(mutex_);
    std::vector<PendingReceivePtr> found;
    for (auto& [bits, held] : entries_by_handle_) {
      if (held.entry->under_way_ && picked(held.request, *held.entry)) found.push_back(held.entry);
    }
    return found;
  }

 private:
  using Guard = std::lock_guard<std::mutex>;
  struct Held {
    MPI_Request request;
    PendingReceivePtr entry;
  };

  static PendingReceivePtr make(const Receipt& receipt);
  void adopt(MPI_Request request, const ShortReceive& receive);
  [[nodiscard]] bool orphans_use(MPI_Datatype type);
  void put(MPI_Request request, PendingReceivePtr entry);
  void set_under_way(PendingReceive& entry, bool now);

  std::atomic<std::size_t> entries_{0};
  std::atomic<std::size_t> long_{0};     // targets of this node with room for a described message
  std::atomic<std::size_t> unshown_{0};  // targets under way not on the posted-receive table
  std::mutex mutex_;
  // Never destroyed: what is left at the end of the process refers to what is gone by then.
  std::unordered_map<std::uint64_t, Held>& entries_by_handle_ =
      *new std::unordered_map<std::uint64_t, Held>;
  std::mutex orphans_mutex_;
  std::vector<Orphan>& orphans_ = *new std::vector<Orphan>;
};

[[gnu::visibility("hidden")]] extern PendingRequests pending_requests;

// Keeps the type of a buffer with gaps while its message is placed and no entry speaks for it: a
// type that the program freed before is given back as soon as nothing uses it, by any thread. Of no
// cost with one thread.
class TypeHold {
 public:
  TypeHold() = default;
  explicit TypeHold(const ReceiveTarget& target);
  ~TypeHold();
  TypeHold(TypeHold&& other) noexcept : held_(std::exchange(other.held_, std::nullopt)) {}
  TypeHold& operator=(TypeHold&& other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  TypeHold(const TypeHold&) = delete;
  TypeHold& operator=(const TypeHold&) = delete;

 private:
  std::optional<MPI_Datatype> held_;
};

// The program frees a type. True if a receive under way still needs it to place its message: then
// it is freed once none does. (The library would keep it alive for its own request only.) Any
// thread.
bool keep_type(MPI_Datatype type);
// Before the library ends: frees all that were kept.
void free_kept_types();

// What the program no longer waits for and only the wait loop brings to its end: receives and
// persistent sends whose requests it freed, persistent sends that could not be described. relaxed,
// a hint.
inline std::atomic<std::size_t> detached_operations{0};

}  // namespace mh::mpi
