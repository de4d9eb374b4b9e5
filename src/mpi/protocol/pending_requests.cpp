// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/pending_requests.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/internode.hpp"

namespace mh::mpi {

PendingRequests pending_requests;

namespace {

struct Orphan {
  MPI_Request request;
  PendingReceivePtr entry;
};
std::mutex g_held_mutex;
std::vector<MPI_Datatype> g_held;

bool is_held(MPI_Datatype type) {
  if (!switches.threads) return false;
  const std::lock_guard<std::mutex> hold(g_held_mutex);
  return std::find(g_held.begin(), g_held.end(), type) != g_held.end();
}

std::mutex g_orphans_mutex;
// Never destroyed: what is left at the end of the process refers to what is gone by then.
std::vector<Orphan>& g_orphans = *new std::vector<Orphan>;

// To place what comes there.
bool needs_type(const ReceiveTarget& place) { return place.capacity != 0 && !place.contiguous; }

bool scatters(const PendingReceive& entry, MPI_Datatype type) {
  const ReceiveTarget& place = entry.receipt.target.place();
  return needs_type(place) && place.type == type;
}

bool orphans_use(MPI_Datatype type) {
  if (detached_operations.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> hold(g_orphans_mutex);
  return std::any_of(g_orphans.begin(), g_orphans.end(),
                     [type](const Orphan& orphan) { return scatters(*orphan.entry, type); });
}

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
  under_way_.fetch_add(change, std::memory_order_relaxed);
  const ReceiveTarget& target = entry.receipt.target;
  if (awaits_long(target)) {
    long_.fetch_add(change, std::memory_order_relaxed);
    if (now) services.exchanges.starts_receive();
  }
  if (!target || target.shown != nullptr || target.by_internode) return;
  unshown_.fetch_add(change, std::memory_order_relaxed);
}

void PendingRequests::add(MPI_Request request, const Receipt& receipt) {
  auto entry = std::make_shared<PendingReceive>(receipt);
  const Guard hold(mutex_);
  set_under_way(*entry, true);
  put(request, std::move(entry));
}

void PendingRequests::add_persistent(MPI_Request request, const Receipt& receipt) {
  auto entry = std::make_shared<PendingReceive>(receipt);
  const Guard hold(mutex_);
  put(request, std::move(entry));
}

void PendingRequests::start(PendingReceive& entry) {
  const Guard hold(mutex_);
  set_under_way(entry, true);
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

namespace {

bool take_in_hand(PendingReceive& entry) {
  return !entry.in_hand.exchange(true, std::memory_order_acquire);
}
void put_down(PendingReceive& entry) { entry.in_hand.store(false, std::memory_order_release); }

// Waits for whoever has the entry in hand. Never called by the thread that has: a fetch is the only
// thing done meanwhile.
void await_hand(PendingReceive& entry) {
  wait::until([&] { return take_in_hand(entry); });
}

// Whether something has to be done with what comes there.
bool matters(const ReceiveTarget& target) { return target || target.bounce != nullptr; }

// What came for the entry, which the caller has in hand; its receive has completed with `status`.
void bring(PendingReceive& entry, const MPI_Status& status) {
  if (entry.coming) {
    internode::finish(*entry.coming->incoming);
    entry.fetched = entry.coming->fetched;
    entry.coming.reset();
  }
  const ReceiveTarget& target = entry.receipt.target;
  if (entry.fetched) return;
  if (target.bounce) overlaps.begin_fetch(target);
  entry.fetched = fetch(target, status);
  if (target.bounce) overlaps.end_fetch(target);
}

// The receive of an entry that is out of everybody's hands has completed with `status`.
int account(PendingReceive& entry, MPI_Status* status) {
  Receipt& receipt = entry.receipt;
  if (receipt.envelope) set_envelope(status, *receipt.envelope);
  if (!matters(receipt.target)) return MPI_SUCCESS;
  await_hand(entry);
  bring(entry, *status);
  const auto fetched = std::exchange(entry.fetched, std::nullopt);
  put_down(entry);
  hide(receipt.target);
  if (fetched) set_bytes(status, fetched->bytes);
  if (receipt.target.bounce) {
    overlaps.put_in_place(receipt.target, *status);
    Overlaps::finish(receipt.target);
  }
  if (!fetched) return MPI_SUCCESS;
  return fetched->code;
}

}  // namespace

int settle_request(MPI_Request request, const PendingReceivePtr& entry, MPI_Status* status) {
  if (!pending_requests.is_under_way(entry)) return MPI_SUCCESS;
  const TypeHold hold(entry->receipt.target);
  pending_requests.finish(request, entry);
  return account(*entry, status);
}

bool drop_request(MPI_Request request, const PendingReceivePtr& entry, MPI_Status* status) {
  if (!pending_requests.is_under_way(entry)) return false;
  pending_requests.finish(request, entry);
  if (entry->receipt.envelope) set_envelope(status, *entry->receipt.envelope);
  hide(entry->receipt.target);
  return true;
}

void peek(MPI_Request request, MPI_Status* status) {
  const PendingReceivePtr entry = pending_requests.find(request);
  if (!pending_requests.is_under_way(entry)) return;
  const Receipt& receipt = entry->receipt;
  if (receipt.envelope) set_envelope(status, *receipt.envelope);
  if (!matters(receipt.target)) return;
  await_hand(*entry);
  bring(*entry, *status);
  if (entry->fetched) set_bytes(status, entry->fetched->bytes);
  put_down(*entry);
  if (receipt.target.bounce) overlaps.put_in_place(receipt.target, *status);
}

Head fetch_head(PendingReceive& entry) {
  // Who has it in hand has read what landed.
  if (!pending_requests.is_under_way(entry.shared_from_this()) || !take_in_hand(entry))
    return Head::over;
  const bool here = entry.fetched || entry.coming;
  if (!here) entry.fetched = fetch(entry.receipt.target);
  const Head head = here ? Head::over : entry.fetched ? Head::fetched : Head::may_come;
  put_down(entry);
  return head;
}

namespace {

// Whether a look into the buffer is worth its price. Where the buffer has gaps a look costs a
// message to ourselves, so the library is asked first whether something came, unless that does
// harm: another thread may complete the request just then, and some libraries take a persistent
// request that was looked at for a completed one.
bool may_have_landed(MPI_Request request, const Receipt& receipt, bool patient) {
  if (receipt.target.contiguous) return true;
  if (switches.threads || receipt.persistent) return patient;
  int flag = 0;
  MPI_Status status{};
  return real.Request_get_status(request, &flag, &status) == MPI_SUCCESS && flag != 0;
}

}  // namespace

void settle_landed() {
  constexpr double kEveryNs = 3e3;
  constexpr double kGatherEveryNs = 30e3;
  // Used by the one thread that has the wait loop's hands.
  static std::uint64_t next_look = 0;
  static std::uint64_t next_gather = 0;
  if (!pending_requests.any()) return;
  const std::uint64_t now = ticks();
  if (now < next_look) return;
  next_look = now + ticks_from_ns(kEveryNs);
  const bool patient = now >= next_gather;
  if (patient) next_gather = now + ticks_from_ns(kGatherEveryNs);

  const auto landed = pending_requests.select([&](MPI_Request request, PendingReceive& entry) {
    const Receipt& receipt = entry.receipt;
    if (!receipt.target || !may_have_landed(request, receipt, patient)) return false;
    if (!take_in_hand(entry)) return false;
    if (!entry.fetched && !entry.coming) {
      entry.coming = coming_to(receipt.target);
      if (!entry.coming && descriptor_in(receipt.target)) return true;
    }
    put_down(entry);
    return false;
  });
  for (const PendingReceivePtr& entry : landed) {
    entry->fetched = fetch(entry->receipt.target);
    put_down(*entry);
  }
}

void adopt_orphan(MPI_Request request, const PendingReceivePtr& entry) {
  const std::lock_guard<std::mutex> hold(g_orphans_mutex);
  g_orphans.push_back({request, entry});
  detached_operations.fetch_add(1, std::memory_order_relaxed);
}

void progress_orphans() {
  if (detached_operations.load(std::memory_order_relaxed) == 0) return;
  struct Completed {
    Orphan orphan;
    MPI_Status status;
    TypeHold hold;
  };
  std::vector<Completed> completed;
  {
    const std::lock_guard<std::mutex> hold(g_orphans_mutex);
    std::erase_if(g_orphans, [&](Orphan& orphan) {
      if (orphan.entry->receipt.target.bounce && overlaps.is_placing()) return false;
      int flag = 0;
      MPI_Status status{};
      next.Test(&orphan.request, &flag, &status);
      if (flag == 0) return false;
      completed.push_back({orphan, status, TypeHold(orphan.entry->receipt.target)});
      return true;
    });
  }
  for (auto& [orphan, status, hold] : completed) {
    pending_requests.conclude(*orphan.entry);
    account(*orphan.entry, &status);
    if (orphan.request != MPI_REQUEST_NULL) next.Request_free(&orphan.request);
    detached_operations.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace mh::mpi
