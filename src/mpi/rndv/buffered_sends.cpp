// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/buffered_sends.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/copy.hpp"

namespace mh::mpi::rndv {
namespace {

struct BufferedSend {
  PostedSend send;
  std::unique_ptr<std::byte[]> data;
};

// The messages to this rank that this process has buffered: copied to its own memory before a
// receive matched them (buffered_sends.hpp).
struct BufferedSends {
  std::mutex mutex;                     // guards `sends`
  std::vector<BufferedSend> sends;      // the oldest first
  std::atomic<std::uint32_t> count{0};  // relaxed: a hint; 0 in nearly every program
  // True once an RTS header may have been overwritten by another receive's message. The wait loop
  // then looks for sends whose headers are probably lost. relaxed: it reads the flag again and
  // again.
  std::atomic<bool> looks_for_overdue{false};
};
BufferedSends g_buffered;

void update_count() {
  g_buffered.count.store(static_cast<std::uint32_t>(g_buffered.sends.size()),
                         std::memory_order_relaxed);
}

std::uint64_t bytes_buffered() {
  const std::lock_guard<std::mutex> hold(g_buffered.mutex);
  std::uint64_t bytes = 0;
  for (const BufferedSend& one : g_buffered.sends) bytes += one.send.fields.bytes;
  return bytes;
}

// Buffers the message of a send that is posted to this rank, and releases its sender. The copy is
// entered in g_buffered before the sender is released, so that a thread which sees the send as over
// finds the copy. A message without memory for a copy stays posted; a message whose copy fails is
// lost. Called only after a receive was truncated or an RTS header overwritten, or in programs to
// which MPI errors return.
void buffer_send(const PostedSend& send) {
  const std::uint64_t bytes = send.fields.bytes;
  BufferedSend buffered{.send = send,
                        .data = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes])};
  p2p::SendSlot& slot = send.table_slot();
  if (buffered.data == nullptr || !slot.take(send.fields.generation)) return;
  const ReceiveBuffer copy{.address = buffered.data.get(),
                           .count = static_cast<MPI_Count>(bytes),
                           .type = MPI_BYTE,
                           .capacity = bytes,
                           .contiguous = true};
  static_cast<void>(copy_taken(send, copy));
  {
    const std::lock_guard<std::mutex> hold(g_buffered.mutex);
    g_buffered.sends.push_back(std::move(buffered));
    update_count();
  }
  release_sender(slot, send.sender);
}

// True if the RTS header of the send has probably been lost. The send must have been posted for
// tuning::kLostAfterNs. A synchronous send must not complete before a receive matches it, so its
// header must also be gone from the MPI library's unexpected messages.
bool is_overdue(const PostedSend& send, std::uint64_t now) {
  if (now < send.fields.posted_at + ticks_from_ns(tuning::kLostAfterNs)) return false;
  return send.fields.synchronous == 0 || !may_be_unexpected(send);
}

}  // namespace

void end_rendezvous_after_truncation() {
  if (!config.rendezvous) return;
  comms::end_rendezvous();
  for (const PostedSend& send : posted_sends()) buffer_send(send);
}

void start_to_buffer_overdue_sends() {
  g_buffered.looks_for_overdue.store(true, std::memory_order_relaxed);
}

void buffer_overdue_sends() {
  // The tick at which the wait loop next looks at the sends posted to this rank. Guarded by the
  // lock under which the wait loop calls its steps (wait/wait.cpp).
  static std::uint64_t next_look = 0;
  const bool is_needed =
      !switches.errors_are_fatal || g_buffered.looks_for_overdue.load(std::memory_order_relaxed);
  if (!is_needed || !config.rendezvous) return;
  const std::uint64_t now = ticks();
  if (now < next_look) return;
  next_look = now + ticks_from_ns(tuning::kLookForLostNs);
  for (const PostedSend& send : posted_sends()) {
    if (!is_overdue(send, now)) continue;
    if (bytes_buffered() + send.fields.bytes <= kMostBuffered) buffer_send(send);
  }
}

std::optional<Delivery> deliver_buffered(const PostedSend& send, const ReceiveBuffer& buffer) {
  if (g_buffered.count.load(std::memory_order_relaxed) == 0) return std::nullopt;
  std::unique_ptr<std::byte[]> data;
  {
    const std::lock_guard<std::mutex> hold(g_buffered.mutex);
    const auto at = std::ranges::find(g_buffered.sends, send, &BufferedSend::send);
    if (at == g_buffered.sends.end()) return std::nullopt;
    data = std::move(at->data);
    g_buffered.sends.erase(at);
    update_count();
  }
  const Delivery delivery = delivery_of(send.fields.bytes, buffer);
  unpack_to(buffer, data.get(), delivery.bytes);
  return delivery;
}

std::optional<PostedSend> oldest_buffered(const SendEnvelope& envelope) {
  if (g_buffered.count.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const std::lock_guard<std::mutex> hold(g_buffered.mutex);
  for (const BufferedSend& one : g_buffered.sends) {
    if (one.send.has(envelope)) return one.send;
  }
  return std::nullopt;
}

void discard_message(const PostedSend& send) {
  p2p::SendSlot& slot = send.table_slot();
  if (slot.take(send.fields.generation)) release_sender(slot, send.sender);
  const std::lock_guard<std::mutex> hold(g_buffered.mutex);
  std::erase_if(g_buffered.sends, [&](const BufferedSend& one) { return one.send == send; });
  update_count();
}

}  // namespace mh::mpi::rndv
