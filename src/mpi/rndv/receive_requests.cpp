// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/receive_requests.hpp"

#include "mpi/datatype/datatypes.hpp"
#include "mpi/handle_cache.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::rndv {

ReceiveTable receives;

namespace {

// Datatypes that the program has freed, and that a receive in the table of receive requests still
// needs.
struct KeptTypes {
  std::mutex mutex;
  std::vector<MPI_Datatype> types;  // guarded by `mutex`
};
KeptTypes g_kept;

// Adds 1 to a counter or subtracts 1. The caller holds the table's lock, or is the only thread.
void change(std::atomic<std::size_t>& counter, bool up) {
  counter.store(counter.load(std::memory_order_relaxed) + (up ? 1 : static_cast<std::size_t>(-1)),
                std::memory_order_relaxed);
}

bool is_long(const ReceiveRequest& request) {
  return request.buffer.capacity >= config.least_threshold;
}

// True if the nonblocking receive may get a rendezvous message that the sender cannot push, because
// the buffer is not posted. Only this rank can copy such a message, in the wait loop.
bool is_unposted(const ReceiveRequest& request) {
  return is_long(request) && request.posted == nullptr && !request.blocking &&
         !request.buffer.from_other_nodes_only;
}

bool needs_type(const ReceiveRequest& request, MPI_Datatype type) {
  return !request.buffer.contiguous && request.buffer.type == type;
}

}  // namespace

ReceiveRequest& ReceiveTable::make(const ReceiveBuffer& buffer, const MessageEnvelope& envelope) {
  const ThreadLock hold(mutex_);
  ReceiveRequest& request =
      unused_ == nullptr ? *new ReceiveRequest : *std::exchange(unused_, unused_->next_in_bucket_);
  request.buffer = buffer;
  request.envelope = envelope;
  return request;
}

void ReceiveTable::recycle(ReceiveRequest& request) {
  request.persistent = request.started = request.orphaned = request.blocking = false;
  request.is_held_message = request.ignores_status = request.entered_ = false;
  request.posted = nullptr;
  if (request.kept_comm) request.kept_comm.reset();
  if (request.incoming) request.incoming.reset();
  if (request.delivery) request.delivery.reset();
  request.claimed.store(false, std::memory_order_relaxed);
  request.next_in_bucket_ = std::exchange(unused_, &request);
}

void ReceiveTable::discard(ReceiveRequest& request) {
  const ThreadLock hold(mutex_);
  recycle(request);
}

ReceiveRequest** ReceiveTable::bucket_of(MPI_Request handle) {
  return &buckets_[place_in(kBuckets, bits_of(handle))];
}

void ReceiveTable::set_started(ReceiveRequest& request, bool now) {
  if (request.started == now) return;
  request.started = now;
  change(started_, now);
  ReceiveRequest*& list = lists_[is_long(request) ? kLong : kShort];
  if (now) {
    request.previous_ = nullptr;
    request.next_ = std::exchange(list, &request);
    if (request.next_ != nullptr) request.next_->previous_ = &request;
  } else {
    (request.previous_ != nullptr ? request.previous_->next_ : list) = request.next_;
    if (request.next_ != nullptr) request.next_->previous_ = request.previous_;
  }
  if (!is_long(request)) return;
  change(long_, now);
  if (now) request.unposted_ = is_unposted(request);
  if (request.unposted_) change(unposted_, now);
  if (!may_receive_rendezvous(request.buffer)) return;
  change(local_, now);
  if (now) services.exchange_detector.starts_receive();
}

void ReceiveTable::unlink(ReceiveRequest& request) {
  ReceiveRequest** at = bucket_of(request.handle);
  while (*at != &request) at = &(*at)->next_in_bucket_;
  *at = request.next_in_bucket_;
  request.entered_ = false;
  change(entries_, false);
}

void ReceiveTable::enter(ReceiveRequest& request, MPI_Request handle) {
  const ThreadLock hold(mutex_);
  request.handle = handle;
  ReceiveRequest** bucket = bucket_of(handle);
  for (ReceiveRequest* at = *bucket; at != nullptr; at = at->next_in_bucket_) {
    // The library has reused the handle of an older request, whose entry is still in the table. If
    // another thread has claimed the older request, that thread is completing the request.
    // Otherwise a call that is not intercepted has completed it, and its entry is removed here.
    if (at->handle != handle || at->claimed.load(std::memory_order_relaxed)) continue;
    set_started(*at, false);
    unlink(*at);
    if (at->posted != nullptr) services.posted_receives.close(at->posted);
    if (!at->pinned.load(std::memory_order_relaxed)) recycle(*at);
    break;
  }
  request.next_in_bucket_ = std::exchange(*bucket, &request);
  request.entered_ = true;
  change(entries_, true);
  if (!request.persistent) set_started(request, true);
}

void ReceiveTable::start(ReceiveRequest& request) {
  const ThreadLock hold(mutex_);
  set_started(request, true);
}

void ReceiveTable::finish(ReceiveRequest& request) {
  const ThreadLock hold(mutex_);
  set_started(request, false);
  if (!request.persistent && request.entered_) unlink(request);
}

void ReceiveTable::free(ReceiveRequest& request) {
  const ThreadLock hold(mutex_);
  if (request.started) {
    request.orphaned = true;
    return;
  }
  unlink(request);
  recycle(request);
}

void ReceiveTable::erase(ReceiveRequest& request) {
  const ThreadLock hold(mutex_);
  set_started(request, false);
  if (request.entered_) unlink(request);
  recycle(request);
}

ReceiveClaim ReceiveTable::claim_slow(MPI_Request handle) {
  const ThreadLock hold(mutex_);
  for (ReceiveRequest* at = *bucket_of(handle); at != nullptr; at = at->next_in_bucket_) {
    if (at->handle != handle || at->orphaned) continue;
    // acquire: pairs with the release in ~ReceiveClaim(), which does not take the lock of the
    // table.
    if (at->claimed.load(std::memory_order_acquire)) continue;
    at->claimed.store(true, std::memory_order_relaxed);
    return ReceiveClaim(at);
  }
  return {};
}

bool ReceiveTable::uses(MPI_Datatype type) {
  if (!has_entries()) return false;
  const ThreadLock hold(mutex_);
  for (ReceiveRequest* first : buckets_) {
    for (ReceiveRequest* at = first; at != nullptr; at = at->next_in_bucket_) {
      if (needs_type(*at, type)) return true;
    }
  }
  return false;
}

void ReceiveTable::keep_comm(const std::shared_ptr<Comm>& comm) {
  if (!has_entries()) return;
  const ThreadLock hold(mutex_);
  for (ReceiveRequest* first : buckets_) {
    for (ReceiveRequest* at = first; at != nullptr; at = at->next_in_bucket_) {
      if (at->buffer.comm == comm.get()) at->kept_comm = comm;
    }
  }
}

bool keep_type(MPI_Datatype type) {
  const std::lock_guard<std::mutex> hold(g_kept.mutex);
  std::erase_if(g_kept.types, [](MPI_Datatype kept) {
    if (receives.uses(kept)) return false;
    datatypes::forget_type(kept);
    next.Type_free(&kept);
    return true;
  });
  if (!receives.uses(type)) return false;
  g_kept.types.push_back(type);
  return true;
}

void free_kept_types() {
  const std::lock_guard<std::mutex> hold(g_kept.mutex);
  for (MPI_Datatype type : g_kept.types) next.Type_free(&type);
  g_kept.types.clear();
}

}  // namespace mh::mpi::rndv
