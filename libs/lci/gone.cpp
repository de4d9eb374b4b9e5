// SPDX-License-Identifier: BSD-3-Clause
// The death of a peer: each operation of this rank that waits for the peer ends with Code::gone.
//
// Messages that arrived before the death can still be received. The transport reports puts to the
// dead peer as failed; this file ends all other operations.
#include <mutex>

#include "lci/state.hpp"

namespace mh::lci::detail {
namespace {

// Delivers the notice of a peer's death to the queue or handler of an endpoint. False: the queue is
// full; progress() tries again.
bool deliver_notice(DeviceState& /*device*/, Deferred& step) {
  const auto& notice = static_cast<Notice&>(step);
  const Event event{
      .endpoint = notice.endpoint, .rank = notice.rank, .kind = Kind::gone, .code = Code::gone};
  return notice.endpoint->deliver(*notice.endpoint, event, nullptr);
}

// Ends a posted receive from the dead peer, of an endpoint with a queue or a handler: delivers its
// failure. False: the queue is full; progress() tries again.
bool fail_pooled(DeviceState& device, Deferred& step) {
  auto& receive = static_cast<PooledReceive&>(step);
  const Event event{.endpoint = receive.endpoint,
                    .context = receive.context,
                    .tag = receive.tag,
                    .rank = receive.rank,
                    .kind = Kind::received,
                    .code = Code::gone};
  if (!receive.endpoint->deliver(*receive.endpoint, event, nullptr)) return false;
  device.free_receives.give(&receive);
  return true;
}

void fail(DeviceState& device, UserReceive& receive, int rank) {
  if (receive.done != nullptr) {
    const Event event{.rank = rank, .kind = Kind::received, .code = Code::gone};
    EndpointState::complete(event, receive.done);
    return;
  }
  auto& pooled = static_cast<PooledReceive&>(receive);
  if (!fail_pooled(device, pooled)) device.defer(pooled, fail_pooled);
}

void end_receives(DeviceState& device, int rank) {
  const auto from_it = [rank](std::uint64_t key) { return rank_of_key(key) == rank; };
  device.table.take_all(Side::receive, from_it, [&](MatchNode* node) {
    fail(device, *static_cast<UserReceive*>(node), rank);
  });
}

void end_records(DeviceState& device, int rank) {
  for (LargeMessage& record : device.records) {
    bool ended = false;
    for (const bool sends : {false, true}) {
      std::uint64_t waiting = waiting_for(rank, sends);
      ended = ended || record.phase.compare_exchange_strong(waiting, kIdle);
    }
    if (!ended) continue;
    record.event.code = Code::gone;
    device.finish_or_defer(record);
  }
}

}  // namespace

void DeviceState::handle_gone(int rank) {
  if (peer(rank).gone.exchange(true, std::memory_order_seq_cst)) return;
  {
    Peer& dead = peer(rank);
    const std::lock_guard guard(dead.waiting_lock);  // later waiters read Peer::gone
    ult::detail::wake_all(dead.waiting.pop_all());
  }
  end_receives(*this, rank);
  end_records(*this, rank);
  for (auto& slot : endpoints) {
    EndpointState* endpoint = slot.load(std::memory_order_acquire);
    if (endpoint == nullptr || endpoint->config.completion == Completion::synchronizer) continue;
    Notice& notice = endpoint->notices[static_cast<std::size_t>(rank)];
    if (!deliver_notice(*this, notice)) defer(notice, deliver_notice);
  }
}

}  // namespace mh::lci::detail
