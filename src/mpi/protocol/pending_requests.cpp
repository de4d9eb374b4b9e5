// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/pending_requests.hpp"

#include <algorithm>
#include <utility>

#include "mpi/datatype/datatypes.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/internode_receive.hpp"

namespace mh::mpi {

PendingRequests pending_requests;

namespace {

std::mutex g_held_mutex;
std::vector<MPI_Datatype> g_held;

bool is_held(MPI_Datatype type) {
  if (!switches.threads) return false;
  const std::lock_guard<std::mutex> hold(g_held_mutex);
  return std::find(g_held.begin(), g_held.end(), type) != g_held.end();
}

// To place what comes there.
bool needs_type(const ReceiveTarget& place) { return place.capacity != 0 && !place.contiguous; }

bool scatters(const PendingReceive& entry, MPI_Datatype type) {
  const ReceiveTarget& place = entry.receipt.target.place();
  return needs_type(place) && place.type == type;
}

std::mutex g_kept_mutex;
std::vector<MPI_Datatype> g_kept_types;  // guarded by it

}  // namespace

TypeHold::TypeHold(const ReceiveTarget& target) {
  if (!switches.threads || !needs_type(target.place())) return;
  held_ = target.place().type;
  const std::lock_guard<std::mutex> hold(g_held_mutex);
  g_held.push_back(*held_);
}

TypeHold::~TypeHold() {
  if (!held_) return;
  const std::lock_guard<std::mutex> hold(g_held_mutex);
  g_held.erase(std::find(g_held.begin(), g_held.end(), *held_));
}

void PendingRequests::put(MPI_Request request, PendingReceivePtr entry) {
  const auto [at, is_new] = entries_by_handle_.try_emplace(bits_of(request), Held{request, entry});
  if (!is_new) {
    // That request has been completed by a call that nobody saw; or by one of another thread, which
    // has the entry in its hands, and the last word on it.
    if (!switches.threads) set_under_way(*at->second.entry, false);
    at->second = Held{request, std::move(entry)};
  }
  entries_.store(entries_by_handle_.size(), std::memory_order_relaxed);
}

void PendingRequests::set_under_way(PendingReceive& entry, bool now) {
  if (entry.under_way_ == now) return;
  entry.under_way_ = now;
  const std::size_t change = now ? 1 : static_cast<std::size_t>(-1);
  receives_under_way.fetch_add(change, std::memory_order_relaxed);
  const ReceiveTarget& target = entry.receipt.target;
  if (awaits_long(target)) {
    long_.fetch_add(change, std::memory_order_relaxed);
    if (now) services.exchanges.starts_receive();
  }
  if (!target || target.shown != nullptr || target.by_internode) return;
  unshown_.fetch_add(change, std::memory_order_relaxed);
}

PendingReceivePtr PendingRequests::make(const Receipt& receipt) {
  auto entry = std::make_shared<PendingReceive>(receipt);
  overlaps.add(entry, entry->receipt.target);
  return entry;
}

void PendingRequests::add(MPI_Request request, const Receipt& receipt) {
  PendingReceivePtr entry = make(receipt);
  const Guard hold(mutex_);
  set_under_way(*entry, true);
  put(request, std::move(entry));
}

void PendingRequests::add_persistent(MPI_Request request, const Receipt& receipt) {
  PendingReceivePtr entry = make(receipt);
  const Guard hold(mutex_);
  put(request, std::move(entry));
}

void PendingRequests::start(PendingReceive& entry) {
  entry.over.reset();
  entry.over_error = MPI_SUCCESS;
  const Guard hold(mutex_);
  set_under_way(entry, true);
}

void PendingRequests::adopt(MPI_Request request, const ShortReceive& receive) {
  const Receipt receipt{.target = target_of(receive), .persistent = receive.persistent != 0};
  if (!receipt.target) return;
  receive.under_way != 0 ? add(request, receipt) : add_persistent(request, receipt);
}

void PendingRequests::adopt_short_receive(MPI_Request request) {
  if (const auto receive = short_receives.take(request)) adopt(request, *receive);
}

void PendingRequests::adopt_short_receives() {
  short_receives.take_all(
      [&](MPI_Request request, const ShortReceive& receive) { adopt(request, receive); });
}

PendingReceivePtr PendingRequests::find(MPI_Request request) {
  if (!has_entries()) return nullptr;
  const Guard hold(mutex_);
  const auto at = entries_by_handle_.find(bits_of(request));
  if (at == entries_by_handle_.end()) return nullptr;
  const PendingReceivePtr& entry = at->second.entry;
  if (!switches.threads) return entry;
  if (entry->claimed.exchange(true, std::memory_order_acquire)) return nullptr;
  return {entry.get(), [kept = entry](PendingReceive* claimed) {
            claimed->claimed.store(false, std::memory_order_release);
          }};
}

bool PendingRequests::is_under_way(const PendingReceivePtr& entry) {
  if (!entry) return false;
  const Guard hold(mutex_);
  return entry->under_way_;
}

void PendingRequests::finish(MPI_Request request, const PendingReceivePtr& entry) {
  const Guard hold(mutex_);
  set_under_way(*entry, false);
  if (entry->receipt.persistent) return;
  const auto at = entries_by_handle_.find(bits_of(request));
  // The handle may have come back as another thread's receive.
  if (at == entries_by_handle_.end() || at->second.entry != entry) return;
  entries_by_handle_.erase(at);
  entries_.store(entries_by_handle_.size(), std::memory_order_relaxed);
}

void PendingRequests::remove(MPI_Request request) {
  const Guard hold(mutex_);
  entries_by_handle_.erase(bits_of(request));
  entries_.store(entries_by_handle_.size(), std::memory_order_relaxed);
}

void PendingRequests::conclude(PendingReceive& entry) {
  const Guard hold(mutex_);
  set_under_way(entry, false);
}

bool PendingRequests::orphans_use(MPI_Datatype type) {
  if (detached_operations.load(std::memory_order_relaxed) == 0) return false;
  const Guard hold(orphans_mutex_);
  return std::any_of(orphans_.begin(), orphans_.end(),
                     [type](const Orphan& orphan) { return scatters(*orphan.entry, type); });
}

bool PendingRequests::uses(MPI_Datatype type) {
  if (has_entries()) {
    const Guard hold(mutex_);
    if (std::any_of(entries_by_handle_.begin(), entries_by_handle_.end(),
                    [type](const auto& held) { return scatters(*held.second.entry, type); })) {
      return true;
    }
  }
  // In this order, in which receives go.
  return orphans_use(type) || is_held(type);
}

bool keep_type(MPI_Datatype type) {
  const std::lock_guard<std::mutex> hold(g_kept_mutex);
  std::erase_if(g_kept_types, [](MPI_Datatype kept) {
    if (pending_requests.uses(kept)) return false;
    datatypes::forget_type(kept);
    next.Type_free(&kept);
    return true;
  });
  if (!pending_requests.uses(type)) return false;
  g_kept_types.push_back(type);
  return true;
}

void free_kept_types() {
  const std::lock_guard<std::mutex> hold(g_kept_mutex);
  for (MPI_Datatype type : g_kept_types) next.Type_free(&type);
  g_kept_types.clear();
}

void PendingRequests::adopt_orphan(MPI_Request request, const PendingReceivePtr& entry) {
  const Guard hold(orphans_mutex_);
  orphans_.push_back({request, entry});
  detached_operations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace mh::mpi
