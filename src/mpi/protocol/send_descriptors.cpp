// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/send_descriptors.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/protocol/receive_target.hpp"
#include "mpi/protocol/transfer.hpp"

namespace mh::mpi::send_descriptors {

std::atomic<std::uint32_t> kept_count{0};

namespace {

std::mutex g_mutex;  // guards what follows
// Send descriptors whose descriptors a probe has taken out of the library; some may be received by
// now.
std::vector<SendDescriptor> g_taken_out;
std::vector<Kept> g_kept;  // the oldest first

std::uint64_t bytes_kept() {
  std::uint64_t bytes = 0;
  for (const Kept& one : g_kept) bytes += one.send.says.bytes;
  return bytes;
}

void count_kept() {
  kept_count.store(static_cast<std::uint32_t>(g_kept.size()), std::memory_order_relaxed);
}

p2p::SendSlot& slot_of(const SendDescriptor& send) {
  return services.area(send.sender).send_queue.slots[send.slot];
}

void add(Kept kept) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  while (!g_kept.empty() && bytes_kept() > kMostKept) g_kept.erase(g_kept.begin());
  g_kept.push_back(std::move(kept));
  count_kept();
}

}  // namespace

SendDescriptor of(const p2p::Descriptor& descriptor) {
  return {
      .sender = descriptor.sender,
      .slot = descriptor.slot,
      .says = {.generation = descriptor.generation, .bytes = descriptor.bytes, .to = config.me}};
}

void note_taken_out(const SendDescriptor& send) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_taken_out.push_back(send);
}

void release_unread(const SendDescriptor& send) {
  p2p::SendSlot& slot = slot_of(send);
  if (slot.take(send.says.generation)) release_sender(slot, send.sender);
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_kept, [&](const Kept& kept) { return kept.send == send; });
  count_kept();
}

// It is kept before its sender may post another in the slot, so that who finds the send descriptor
// over finds the message.
void keep(const SendDescriptor& send) {
  p2p::SendSlot& slot = slot_of(send);
  if (!slot.take(send.says.generation)) return;
  const std::uint64_t bytes = send.says.bytes;
  Kept kept{.send = send,
            .data = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes])};
  if (kept.data) {
    bring({.sender = send.sender,
           .slot = send.slot,
           .to = end_at(kept.data.get()),
           .bytes = bytes,
           .order = config.order});
    add(std::move(kept));
  }
  release_sender(slot, send.sender);
}

bool has_room_for(const SendDescriptor& send) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  return bytes_kept() + send.says.bytes <= kMostKept;
}

std::vector<SendDescriptor> taken_out() {
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_taken_out, [](const SendDescriptor& send) {
    if (slot_of(send).state_of(send.says.generation) == p2p::SlotState::posted) return false;
    return std::none_of(g_kept.begin(), g_kept.end(),
                        [&](const Kept& kept) { return kept.send == send; });
  });
  return g_taken_out;
}

bool is_kept(std::uint32_t sender, std::uint64_t communicator, int tag) {
  if (kept_count.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> hold(g_mutex);
  return std::any_of(g_kept.begin(), g_kept.end(), [&](const Kept& kept) {
    const SendDescriptor& send = kept.send;
    return send.sender == sender && send.says.communicator == communicator && send.says.tag == tag;
  });
}

std::optional<Kept> take_kept(const p2p::Descriptor& descriptor) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = std::find_if(g_kept.begin(), g_kept.end(),
                               [&](const Kept& kept) { return kept.send == of(descriptor); });
  if (at == g_kept.end()) return std::nullopt;
  Kept found = std::move(*at);
  g_kept.erase(at);
  count_kept();
  return found;
}

void forget_before(std::uint32_t sender, const p2p::SendSlot& later) {
  if (kept_count.load(std::memory_order_relaxed) == 0) return;
  // One that lies in the buffer of a receive was matched before, and may be fetched later.
  if (switches.threads || later.ordered == 0) return;
  if (receives_under_way.load(std::memory_order_relaxed) != 0) return;
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_kept, [&](const Kept& kept) {
    const p2p::Posted& says = kept.send.says;
    return kept.send.sender == sender && says.communicator == later.communicator &&
           says.tag == later.tag && says.sequence < later.sequence &&
           std::ranges::find(g_taken_out, kept.send) == g_taken_out.end();
  });
  count_kept();
}

}  // namespace mh::mpi::send_descriptors
