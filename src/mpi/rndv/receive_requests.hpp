// SPDX-License-Identifier: BSD-3-Clause
// The receive requests of the program that need a look when they complete, found by their handle.
//
// An RTS header may land in the buffer of such a receive. A receive that is shorter than any
// rendezvous message is among them, because a program may send it a message that is too long.
// Receives that no header fits into are not: the library's error is right for those. A completion
// call asks any() first, which is one load.
//
// States of a request: *started* from its start to its completion; a persistent one is *idle*
// between. A request that the program frees while it is started is *orphaned*, and the wait loop
// completes it.
//
// Threads. The table is locked where several threads may call. A thread that completes a request
// holds a ReceiveClaim from before the library completes it, because the library gives the handle
// away again at once. Any thread may fetch the message of a started receive, after pin() and until
// unpin(); complete() waits for the pin.
// Limit: a request completed by a call that is not intercepted stays until its handle comes again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "mpi/job/switches.hpp"
#include "mpi/rndv/receive_buffer.hpp"

namespace mh::mpi::internode {
class Incoming;
}

namespace mh::mpi::rndv {

// A message that is in the buffer of its receive.
struct Delivery {
  std::uint64_t bytes;
  // MPI_SUCCESS; MPI_ERR_TRUNCATE if the message was longer than the buffer; MPI_ERR_NO_MEM if
  // there was no memory to unpack it; MPI_ERR_INTERN if the message is lost.
  int code;
};

// A message from another node that is arriving.
struct IncomingMessage {
  std::shared_ptr<internode::Incoming> stream;
  Delivery delivery;  // once all of it is there
};

struct ReceiveRequest {
  MPI_Request handle = MPI_REQUEST_NULL;
  ReceiveBuffer buffer{};
  // The message that was asked for; the true one where the library knows another, because a probe
  // has held the message (held_messages.hpp).
  Envelope envelope{};
  bool is_held_message = false;
  bool persistent = false;
  bool started = false;
  bool orphaned = false;
  bool blocking = false;             // the thread that waits in the call fetches the message itself
  bool status_says_nothing = false;  // the library does not report the header's size
  p2p::PostedReceive* posted = nullptr;  // while the sender may push
  std::shared_ptr<Comm> kept_comm{};     // the buffer's, once the program has freed it

  // Written by the thread that has pinned the request.
  std::optional<IncomingMessage> incoming{};  // from another node, begun
  std::optional<Delivery> delivery{};         // the message is in the buffer

  // acquire when set, release when cleared: the next holder sees what the last one wrote.
  std::atomic<bool> claimed{false};
  std::atomic<bool> pinned{false};

  bool pin() { return !pinned.exchange(true, std::memory_order_acquire); }
  void unpin() { pinned.store(false, std::memory_order_release); }

 private:
  friend class ReceiveTable;
  ReceiveRequest* next_in_bucket_ = nullptr;  // or in the list of unused ones
  ReceiveRequest* next_ = nullptr;            // of the started ones
  ReceiveRequest* previous_ = nullptr;
  bool entered_ = false;
  bool unposted_ = false;  // counted as such
};

// A request that the calling thread is about to complete; empty for a handle that is not in the
// table, or that another thread claims. Ends the claim.
class ReceiveClaim {
 public:
  ReceiveClaim() = default;
  explicit ReceiveClaim(ReceiveRequest* request) : request_(request) {}
  ReceiveClaim(ReceiveClaim&& other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
  ReceiveClaim& operator=(ReceiveClaim&& other) noexcept {
    std::swap(request_, other.request_);
    return *this;
  }
  ReceiveClaim(const ReceiveClaim&) = delete;
  ReceiveClaim& operator=(const ReceiveClaim&) = delete;
  ~ReceiveClaim() {
    if (request_ != nullptr) request_->claimed.store(false, std::memory_order_release);
  }

  explicit operator bool() const { return request_ != nullptr; }
  ReceiveRequest* operator->() const { return request_; }
  ReceiveRequest& operator*() const { return *request_; }
  // The request is gone.
  void drop() { request_ = nullptr; }

 private:
  ReceiveRequest* request_ = nullptr;
};

class ReceiveTable {
 public:
  // A receive is started.
  [[nodiscard]] bool any() const { return started_.load(std::memory_order_relaxed) != 0; }
  // ... that is long enough for a rendezvous message; of this node.
  [[nodiscard]] bool any_long() const { return long_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool any_long_from_this_node() const {
    return local_.load(std::memory_order_relaxed) != 0;
  }
  // The only started receive, if it is contiguous and too short for a rendezvous message. For
  // programs with one thread in MPI; null otherwise.
  [[nodiscard]] const ReceiveRequest* only_short() const {
    if (started_.load(std::memory_order_relaxed) != 1 || switches.threads) return nullptr;
    const ReceiveRequest* only = lists_[kShort];
    return only != nullptr && only->buffer.contiguous && !only->is_held_message ? only : nullptr;
  }
  // A receive is started, or a persistent one may be.
  [[nodiscard]] bool has_entries() const { return entries_.load(std::memory_order_relaxed) != 0; }
  // A long receive is started whose sender cannot push: only this rank can move its message.
  [[nodiscard]] bool needs_this_rank() const {
    return unposted_.load(std::memory_order_relaxed) != 0;
  }

  // A blank request, to be filled and either entered or discarded.
  [[nodiscard]] ReceiveRequest& make();
  void discard(ReceiveRequest& request);
  // From now on found by its handle. The library has made, or started, the request.
  void enter(ReceiveRequest& request, MPI_Request handle);
  // A request in the table begins; ends, and stays if it is persistent.
  void start(ReceiveRequest& request);
  void finish(ReceiveRequest& request);
  // The program has freed the request. One that is started is orphaned.
  void free(ReceiveRequest& request);
  // The handle may be another's from now on: the request goes, started or not.
  void erase(ReceiveRequest& request);

  [[nodiscard]] ReceiveClaim claim(MPI_Request handle) {
    if (!has_entries()) return {};
    return claim_slow(handle);
  }

  // Whether a started receive still needs this datatype to place its message.
  [[nodiscard]] bool uses(MPI_Datatype type);
  // The program frees the communicator. Started receives keep it.
  void keep_comm(const std::shared_ptr<Comm>& comm);

  // Started receives for which wanted(request), called under the lock, is true. The caller has
  // pinned them there, or looks at them under the lock alone. `all`: the short ones, too.
  template <class Wanted>
  std::vector<ReceiveRequest*> select(bool all, Wanted&& wanted) {
    const ThreadLock hold(mutex_);
    std::vector<ReceiveRequest*> found;
    for (std::size_t list = all ? kShort : kLong; list <= kLong; ++list) {
      for (ReceiveRequest* at = lists_[list]; at != nullptr; at = at->next_) {
        if (wanted(*at)) found.push_back(at);
      }
    }
    return found;
  }

 private:
  static constexpr std::size_t kBuckets = 1024;
  static constexpr std::size_t kShort = 0;  // lists of started receives
  static constexpr std::size_t kLong = 1;

  [[nodiscard]] ReceiveClaim claim_slow(MPI_Request handle);
  [[nodiscard]] ReceiveRequest** bucket_of(MPI_Request handle);
  void set_started(ReceiveRequest& request, bool now);
  void unlink(ReceiveRequest& request);
  void recycle(ReceiveRequest& request);

  std::mutex mutex_;  // guards all but the counters, which are written under it
  std::atomic<std::size_t> entries_{0};
  std::atomic<std::size_t> started_{0};
  std::atomic<std::size_t> long_{0};
  std::atomic<std::size_t> local_{0};  // long ones from this node
  std::atomic<std::size_t> unposted_{0};
  std::array<ReceiveRequest*, 2> lists_{};
  ReceiveRequest* unused_ = nullptr;  // memory of requests is used again, and never given back
  std::array<ReceiveRequest*, kBuckets> buckets_{};
};

[[gnu::visibility("hidden")]] extern ReceiveTable receives;

// The program frees a type. True if a started receive still needs it to place its message: then
// the type is freed once none does. Any thread.
bool keep_type(MPI_Datatype type);
// Before the library ends: frees all types that were kept.
void free_kept_types();

}  // namespace mh::mpi::rndv
