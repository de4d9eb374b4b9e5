// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/settle.hpp"

#include <utility>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/internode_receive.hpp"
#include "mpi/protocol/overlaps.hpp"

namespace mh::mpi {
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

// A descriptor has landed in the head of a receive under way, or not: its message is
// fetched now.
enum class Head : std::uint8_t { over, fetched, may_come };

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

// A message is on its way straight to its place: by the wait loop no other is put there. relaxed: a
// hint of the calling thread's own wait.
std::atomic<std::size_t> g_placing{0};

bool is_placing() { return g_placing.load(std::memory_order_relaxed) != 0; }

// Fetches the messages of descriptors that have landed in this memory. True if none can land there
// any more; false if one may, but none has.
bool clear_the_way(const ReceiveTarget& place) {
  const Memory memory = Memory::of(place);
  for (;;) {
    bool none_to_come = true;
    bool fetched = false;
    for (const PendingReceivePtr& entry : overlaps.heads_in(memory)) {
      const Head head = fetch_head(*entry);
      fetched = fetched || head == Head::fetched;
      none_to_come = none_to_come && head != Head::may_come;
    }
    // While one was fetched, another may have landed.
    if (!fetched) return none_to_come;
  }
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
  if (target.bounce) begin_fetch(target);
  entry.fetched = fetch(target, status);
  if (target.bounce) end_fetch(target);
}

// The receive of an entry that is out of everybody's hands has completed with `status`.
int account(PendingReceive& entry, MPI_Status* status) {
  Receipt& receipt = entry.receipt;
  if (receipt.envelope) set_envelope(status, *receipt.envelope);
  if (!matters(receipt.target)) return std::exchange(entry.over_error, MPI_SUCCESS);
  await_hand(entry);
  bring(entry, *status);
  const auto fetched = std::exchange(entry.fetched, std::nullopt);
  put_down(entry);
  hide(receipt.target);
  if (fetched) set_bytes(status, fetched->bytes);
  if (receipt.target.bounce) {
    put_in_place(receipt.target, *status);
    receipt.target.bounce->placed = false;  // a persistent one may be started again
  }
  if (!fetched) return MPI_SUCCESS;
  return fetched->code;
}

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

void begin_fetch(const ReceiveTarget& target) {
  target.bounce->straight = !is_placing() && clear_the_way(target.bounce->place);
  g_placing.fetch_add(1, std::memory_order_relaxed);
}

void end_fetch(const ReceiveTarget& target) {
  target.bounce->straight = false;
  g_placing.fetch_sub(1, std::memory_order_relaxed);
}

void put_in_place(const ReceiveTarget& target, const MPI_Status& status) {
  if (target.bounce->placed) return;
  target.bounce->placed = true;
  int cancelled = 0;
  real.Test_cancelled(&status, &cancelled);
  if (cancelled != 0) return;
  MPI_Count bytes = 0;
  real.Get_elements_x(&status, MPI_BYTE, &bytes);
  if (bytes <= 0) return;
  clear_the_way(target.bounce->place);
  unpack_to(target.bounce->place, target.bounce->memory.get(), static_cast<std::uint64_t>(bytes));
}

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
  if (receipt.target.bounce) put_in_place(receipt.target, *status);
}

void settle_landed() {
  // Used by the one thread that has the wait loop's hands.
  static std::uint64_t next_look = 0;
  static std::uint64_t next_gather = 0;
  if (!pending_requests.any()) return;
  const std::uint64_t now = ticks();
  if (now < next_look) return;
  next_look = now + ticks_from_ns(tuning::kLookAtLandedNs);
  const bool patient = now >= next_gather;
  if (patient) next_gather = now + ticks_from_ns(tuning::kGatherLandedNs);

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

void progress_orphans() {
  if (detached_operations.load(std::memory_order_relaxed) == 0) return;
  struct Completed {
    PendingRequests::Orphan orphan;
    MPI_Status status;
    TypeHold hold;
  };
  std::vector<Completed> completed;
  pending_requests.end_orphans([&](PendingRequests::Orphan& orphan) {
    if (orphan.entry->receipt.target.bounce && is_placing()) return false;
    int flag = 0;
    MPI_Status status{};
    next.Test(&orphan.request, &flag, &status);
    if (flag == 0) return false;
    completed.push_back({orphan, status, TypeHold(orphan.entry->receipt.target)});
    return true;
  });
  for (auto& [orphan, status, hold] : completed) {
    pending_requests.conclude(*orphan.entry);
    account(*orphan.entry, &status);
    if (orphan.request != MPI_REQUEST_NULL) next.Request_free(&orphan.request);
    detached_operations.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace mh::mpi
