// SPDX-License-Identifier: BSD-3-Clause
// The table of receive requests in whose buffers an RTS header may land, by request handle.
//
// A receive shorter than any rendezvous message is in the table, because a message that is too long
// for the receive may come. A receive shorter than an RTS header is not in the table: the MPI
// library itself reports the truncation. A call that completes requests asks any() first, which is
// one load.
//
// A request is *started* from its start to its completion; between two starts a persistent request
// is *idle*. A request that the program frees while it is started is *orphaned*, and the wait loop
// completes it.
//
// Threads. The table has a lock, which is taken while switches.threads is true. A thread that
// completes a request takes a ReceiveClaim before the library completes the request, because the
// library may reuse the handle at once. Any thread may fetch the message of a started receive
// between pin() and unpin(); complete() waits until no other thread has pinned the request. Limit:
// if a call that is not intercepted completes a request, the entry stays until the library reuses
// the handle.
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

// A message from another node that is arriving, by internode pipeline, in the buffer of a receive.
struct IncomingMessage {
  std::shared_ptr<internode::Incoming> stream;
  Delivery delivery;  // the result, once all bytes have come
};

struct ReceiveRequest {
  MPI_Request handle = MPI_REQUEST_NULL;
  ReceiveBuffer buffer{};
  // The source and tag of the receive, or of the held message that the receive gets
  // (held_messages.hpp). In the second case the MPI library reports the envelope of this rank's
  // message to itself instead.
  MessageEnvelope envelope{};
  bool is_held_message = false;
  bool persistent = false;
  bool started = false;
  bool orphaned = false;
  bool blocking = false;        // the thread in the blocking call fetches the message itself
  bool ignores_status = false;  // MPI_Isendrecv: the library may not report the receive's size
  p2p::PostedReceive* posted = nullptr;  // not null while the sender may push
  // Keeps the Comm of the receive's communicator alive: set for a held message, and after the
  // program has freed the communicator. Null otherwise.
  std::shared_ptr<Comm> kept_comm{};

  // These members are written by the thread that has pinned the request by pin().
  std::optional<IncomingMessage> incoming{};  // from another node, begun to arrive
  std::optional<Delivery> delivery{};         // set once the message is in the buffer

  // These flags are set with acquire and cleared with release, so the thread that sets a flag sees
  // the writes of the thread that cleared it. `claimed`: a thread has the ReceiveClaim. `pinned`: a
  // thread has pinned the request and may fetch its message.
  std::atomic<bool> claimed{false};
  std::atomic<bool> pinned{false};

  bool pin() { return !pinned.exchange(true, std::memory_order_acquire); }
  void unpin() { pinned.store(false, std::memory_order_release); }

 private:
  friend class ReceiveTable;
  ReceiveRequest* next_in_bucket_ = nullptr;  // or in the list of unused requests
  ReceiveRequest* next_ = nullptr;            // in a list of started requests
  ReceiveRequest* previous_ = nullptr;
  bool entered_ = false;
  bool unposted_ = false;  // counted in ReceiveTable::unposted_
};

// The right of the calling thread to complete a request, claimed before the MPI library completes
// the request. Empty if the handle is not in the table, or if another thread has claimed the
// request. The destructor ends the claim.
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
  // Makes the claim empty, because its request no longer exists.
  void drop() { request_ = nullptr; }

 private:
  ReceiveRequest* request_ = nullptr;
};

class ReceiveTable {
 public:
  // The functions from any() to needs_this_rank() are hints, from relaxed loads. True if a receive
  // is started (any), if a started receive is *long*, long enough for a rendezvous message
  // (any_long), and if a rank of this node may send to such a receive (any_long_from_this_node).
  [[nodiscard]] bool any() const { return started_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool any_long() const { return long_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] bool any_long_from_this_node() const {
    return local_.load(std::memory_order_relaxed) != 0;
  }
  // True if the table has an entry: a receive is started, or a persistent receive exists.
  [[nodiscard]] bool has_entries() const { return entries_.load(std::memory_order_relaxed) != 0; }
  // True if a long nonblocking receive is started whose buffer is not posted. Its sender cannot
  // push, so only this rank can copy its message.
  [[nodiscard]] bool needs_this_rank() const {
    return unposted_.load(std::memory_order_relaxed) != 0;
  }

  // Makes a request for a receive with this buffer, source and tag, which is not in the table yet.
  // The caller then calls enter(), or discard() if the MPI library has not started the receive.
  [[nodiscard]] ReceiveRequest& make(const ReceiveBuffer& buffer, const MessageEnvelope& envelope);
  void discard(ReceiveRequest& request);
  // Enters a request into the table under its handle, after the MPI library has made it (a
  // persistent receive) or started it.
  void enter(ReceiveRequest& request, MPI_Request handle);
  void start(ReceiveRequest& request);
  // Ends a started request and removes it from the table; a persistent request stays in the table.
  void finish(ReceiveRequest& request);
  // Called when the program frees the request. A started request becomes orphaned: the wait loop
  // completes it.
  void free(ReceiveRequest& request);
  // Removes the request, started or not, from the table. Needed because the MPI library may reuse
  // the handle.
  void erase(ReceiveRequest& request);

  [[nodiscard]] ReceiveClaim claim(MPI_Request handle) {
    if (!has_entries()) return {};
    return claim_slow(handle);
  }

  // True if a receive in the table, started or persistent, still needs this datatype to write its
  // message to its buffer.
  [[nodiscard]] bool uses(MPI_Datatype type);
  // Called when the program frees the communicator. The receives in the table that use `comm` then
  // keep the Comm object alive.
  void keep_comm(const std::shared_ptr<Comm>& comm);

  // The started receives for which wanted(request) is true; `wanted` is called with the table
  // locked, and must pin (ReceiveRequest::pin()) every request that the caller uses afterwards.
  // `all`: includes the receives too short for a rendezvous message.
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

  // Guards all members of the table. The counters, which are atomic, are written with the lock, and
  // read without it (relaxed).
  std::mutex mutex_;
  std::atomic<std::size_t> entries_{0};
  std::atomic<std::size_t> started_{0};
  std::atomic<std::size_t> long_{0};
  std::atomic<std::size_t> local_{0};  // long receives that a rank of this node may match
  std::atomic<std::size_t> unposted_{0};
  std::array<ReceiveRequest*, 2> lists_{};
  ReceiveRequest* unused_ = nullptr;  // requests are reused, and never deleted
  std::array<ReceiveRequest*, kBuckets> buckets_{};
};

[[gnu::visibility("hidden")]] extern ReceiveTable receives;

// Called when the program frees a datatype. True if a receive in the table still needs the
// datatype; a later call of keep_type() or free_kept_types() then frees the datatype. Any thread.
bool keep_type(MPI_Datatype type);
// Frees all datatypes that keep_type() has kept. Called by MPI_Finalize.
void free_kept_types();

}  // namespace mh::mpi::rndv
