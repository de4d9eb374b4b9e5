// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/send.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <memory>
#include <new>

#include "base/clock.hpp"
#include "base/say.hpp"
#include "base/tuning.hpp"
#include "layout/pack.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/copy.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "mpi/tags.hpp"

namespace mh::mpi::rndv {
namespace {

// What only this process knows of a slot of its send table. Written by the thread that holds the
// slot.
struct Sent {
  p2p::RtsHeader header;
  MPI_Request sending = MPI_REQUEST_NULL;     // the header's own send
  MPI_Request completion = MPI_REQUEST_NULL;  // the user's request, for MPI_Cancel
  // The generation of the rendezvous send whose send was started last, and in the lowest bit
  // whether a blocking call holds the slot and gives it back. All else here is written before.
  // release: pairs with the acquire of other threads, for whom a rendezvous send that is not
  // started is not there yet.
  std::atomic<std::uint64_t> started{0};
  layout::LayoutPtr layout;  // null where the data is contiguous
  p2p::End from;             // the data
  bool resent = false;
  std::uint64_t next_try = 0;  // tick of the next attempt to push
  std::uint64_t patience = 0;  // ticks from then to the one after
};
std::array<Sent, p2p::SharedSendTable::kSlots> g_sent;

// Completion messages of the last rendezvous sends, by tag: whose request each completes. For
// MPI_Cancel, which must know a request whose rendezvous send is over. relaxed: a request is
// cancelled by the thread that started it, or by one it told.
struct Fin {
  std::atomic<MPI_Request> request{};
  std::atomic<std::uint64_t> sequence{0};  // the rendezvous send's, plus one; 0 for none
};
std::array<Fin, tags::kSendFins.count> g_fins;

struct Start {
  std::uint64_t generation;
  bool awaited;
};
Start start_of(Slot slot) {
  const std::uint64_t started = g_sent[slot].started.load(std::memory_order_acquire);
  return {.generation = started >> 1U, .awaited = (started & 1U) != 0};
}

// The slot is free again.
void give_back(Slot slot) {
  if (services.pipeline_engine) services.pipeline_engine->withdraw(slot);
  g_sent[slot].layout.reset();
  services.send_table.release(slot);
}

// ---- Delivering --------------------------------------------------------------------------------

// When (ticks) a rank was last seen to take a rendezvous send of this one: it is in MPI, and comes
// to the others by itself. Of the thread that does this rank's work.
std::array<std::uint64_t, node::kMaxRanks> g_taking_at{};

// A posted receive, and the buffer it was for when it was looked at.
struct FoundReceive {
  p2p::PostedReceive* posted = nullptr;
  std::uint64_t buffer = 0;
};

bool holds_header(std::uint64_t buffer, std::uint32_t rank, const p2p::RtsHeader& header) {
  p2p::RtsHeader found;
  return services.memory->read(&found, view_of(buffer, rank), sizeof found).ok() &&
         std::memcmp(&found, &header, sizeof found) == 0;
}

// The posted receive of `send`'s receiver in whose buffer this RTS header lies. None if several
// receives are posted for that buffer: the sender cannot tell which of them the library has
// matched.
FoundReceive find_posted(const p2p::SendSlot& send, const p2p::RtsHeader& mine) {
  p2p::PostedReceiveTable& table = services.area(send.to).posted_receives;
  const std::uint32_t extent = table.extent.load(std::memory_order_relaxed);
  FoundReceive found;
  for (std::uint32_t i = 0; i < extent; ++i) {
    p2p::PostedReceive& posted = table.posted_receives[i];
    // acquire: pairs with the receiver's open().
    if (posted.state.load(std::memory_order_acquire) != p2p::PostedState::open) continue;
    if (!posted.envelope().accepts(send.communicator, config.me, send.tag)) continue;
    const std::uint64_t buffer = posted.address.load(std::memory_order_relaxed);
    if (found.posted != nullptr && found.buffer == buffer) return {};
    if (found.posted == nullptr && holds_header(buffer, send.to, mine)) found = {&posted, buffer};
  }
  return found;
}

// As copy_to(), of data that is not contiguous: packed and written, by this thread alone.
bool pack_to(const memory::View& to, const p2p::End& from, std::uint64_t bytes) {
  constexpr std::uint64_t kStep = 64U << 10U;
  if (std::byte* here = services.memory->to_here(to, bytes); here != nullptr) {
    p2p::pack(from, {p2p::kRtsBytes, bytes}, here + p2p::kRtsBytes);
    p2p::pack(from, {0, p2p::kRtsBytes}, here);
    return services.memory->to_here(to, bytes) != nullptr;
  }
  const std::unique_ptr<std::byte[]> packed(new (std::nothrow) std::byte[kStep]);
  if (packed == nullptr) return false;
  const auto write = [&](std::uint64_t begin, std::uint64_t end) {
    p2p::pack(from, {begin, end}, packed.get());
    return services.memory->write(to.at(begin), packed.get(), end - begin).ok();
  };
  for (std::uint64_t at = p2p::kRtsBytes; at < bytes; at += kStep) {
    if (!write(at, std::min(at + kStep, bytes))) return false;
  }
  return write(0, p2p::kRtsBytes);
}

// The message comes to the target: all but the descriptor's place by several ranks, that place
// last, so that a failure leaves the descriptor as it was.
bool copy_to(const memory::View& to, const memory::View& from, std::uint64_t bytes) {
  constexpr std::uint64_t kHead = p2p::kRtsBytes;
  if (!copy_shared(to.at(kHead), from.at(kHead), bytes - kHead, config.order, nullptr))
    return false;
  return services.memory->write(to, reinterpret_cast<const void*>(from.address), kHead).ok();
}

bool push(Slot slot, p2p::SendSlot& send) {
  const p2p::RtsHeader mine = g_sent[slot].header;
  const auto [posted, buffer] = find_posted(send, mine);
  // While we looked, this rendezvous send may have come to its end, and the slot to another.
  if (posted == nullptr || !send.take(mine.generation)) return false;
  // Or the target may have come to another buffer.
  if (!posted->is_of(buffer) ||
      !posted->envelope().accepts(send.communicator, config.me, send.tag)) {
    send.change(p2p::SlotState::posted);
    return false;
  }
  // release: before anything is written there (who_moves).
  posted->bytes.store(send.bytes, std::memory_order_relaxed);
  posted->state.store(p2p::PostedState::pushing, std::memory_order_release);
  const memory::View to = view_of(buffer, send.to);
  const std::uint64_t bytes =
      std::min(send.bytes, posted->capacity.load(std::memory_order_relaxed));
  const bool there = g_sent[slot].layout == nullptr ? copy_to(to, send.from, bytes)
                                                    : pack_to(to, g_sent[slot].from, bytes);
  if (!there) {
    posted->state.store(p2p::PostedState::open, std::memory_order_release);
    send.change(p2p::SlotState::posted);
    return false;
  }
  posted->state.store(p2p::PostedState::pushed, std::memory_order_release);
  release_sender(send, config.me);
  return true;
}

bool try_to_push(Slot slot, p2p::SendSlot& send, std::uint64_t now) {
  if (!config.single_copy && !config.heaps_mapped) return false;
  Sent& sent = g_sent[slot];
  if (start_of(slot).generation != send.generation()) return false;
  if (now < sent.next_try) return false;
  if (now < g_taking_at[send.to] + ticks_from_ns(tuning::kFirstPushNs)) return false;
  sent.patience = std::min(2 * sent.patience, ticks_from_ns(tuning::kLastPushNs));
  sent.next_try = now + sent.patience;
  return push(slot, send);
}

// ---- Posting -----------------------------------------------------------------------------------

// Remembers a send that is started.
bool is_exchanged(SendPattern pattern) {
  if (pattern == SendPattern::nonblocking)
    return services.exchange_detector.starts_send() || receives.any_long_from_this_node();
  return pattern == SendPattern::exchanged ||
         (pattern == SendPattern::unknown && receives.any_long_from_this_node());
}

// Its receiver copies it alone, by loads: faster than any way that asks the kernel, or that copies
// twice, however busy both ranks are.
bool is_mapped(const OutgoingMessage& message, const datatypes::Info& info) {
  return config.heaps_mapped && info.contiguous && message.bytes >= config.mapped_threshold &&
         heaps::hold(message.buffer, message.bytes);
}

// A contiguous message to that rank of the node. Both cores of an exchange are busy, and what
// describing costs is not gained by overlap (docs/decisions/rendezvous); a third rank takes a hand
// in what the kernel copies, if it is long enough.
bool is_left_as_exchanged(const OutgoingMessage& message, std::uint32_t receiver) {
  if (!is_exchanged(message.pattern) || message.bytes >= config.exchange_threshold) return false;
  if (is_for_third_ranks(message.bytes) && services.node->has_idle_peer_except(receiver))
    return false;
  services.counters().messages_exchanged.add(1);
  return true;
}

// Whether somebody can move the message while this rank is in a call that does not help: its
// receiver reads it, or lends a core to a helper of this process.
bool moves_without_this_thread(const datatypes::Info& info) {
  if (info.contiguous && config.single_copy) return true;
  if (services.pipeline_engine && services.pipeline_engine->let_helpers_in()) return true;
  if (services.pipeline_engine && !services.helpers->hired())
    return false;  // another thread is at it
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  if (config.me == 0 && !said.test_and_set(std::memory_order_relaxed)) {
    print_message(
        "large {} messages go through the MPI library: there are no threads to help with them, or "
        "they may not run on the cores of other ranks (cpusets)",
        info.contiguous ? "contiguous" : "noncontiguous");
  }
  return false;
}

// Where scattered data lie, if all ranks of the node can reach it.
std::optional<layout::Compact> shape_of(const OutgoingMessage& message) {
  if (!config.heaps_mapped || message.layout == nullptr) return std::nullopt;
  const auto shape = layout::compact_of(*message.layout, message.count);
  if (!shape) return std::nullopt;
  const auto* begin = static_cast<const std::byte*>(message.buffer) + shape->low;
  return heaps::hold(begin, shape->reach()) ? shape : std::nullopt;
}

// A slot of the send table that says where the message is.
std::optional<Slot> taken_slot(const OutgoingMessage& message, std::uint32_t fin_tag) {
  const Comm& comm = *comms::find(message.comm);
  const auto shape = shape_of(message);
  const Slot slot =
      services.send_table.post({.from = view_of(message.buffer, config.me),
                                .bytes = message.bytes,
                                .communicator = comm.key,
                                .tag = message.tag,
                                .to = static_cast<std::uint32_t>(comm.on_node(message.dest)),
                                .contiguous = message.layout == nullptr,
                                .ordered = !switches.threads,
                                .synchronous = message.synchronous,
                                .shape = shape ? &*shape : nullptr},
                               fin_tag);
  if (slot == p2p::SendTable::kNone) {
    services.counters().messages_without_slot.add(1);
    return std::nullopt;
  }
  // The light half of a fence, pairs with the heavy one in drain_rendezvous() (arrivals.cpp):
  // either this rank sees the note, or the receiver the slot.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (!comms::rendezvous_ended()) return slot;
  services.counters().messages_ended.add(1);
  services.send_table.release(slot);
  return std::nullopt;
}

}  // namespace

bool may_use_rendezvous(OutgoingMessage& message, MPI_Datatype type, const datatypes::Info& info) {
  if (message.bytes < config.threshold) return false;
  if (message.buffer == nullptr && info.contiguous) return false;  // the library refuses it
  const bool mapped = is_mapped(message, info);
  if (!mapped && message.bytes < config.unmapped_threshold) return false;
  if (!mapped && !config.pipelines && !(info.contiguous && config.single_copy)) return false;
  if (!comms::allow_rendezvous()) return false;
  // A receiver with gaps in its buffer has to count the bytes (send_to_self).
  if (message.bytes > INT_MAX && real.Isend_c == nullptr) return false;
  const Comm* comm = comms::find(message.comm);
  if (comm == nullptr) return false;
  const std::int32_t there = comm->on_node(message.dest);
  if (there < 0 || there == static_cast<std::int32_t>(config.me)) return false;
  if (mapped) return true;
  if (info.contiguous && is_left_as_exchanged(message, static_cast<std::uint32_t>(there)))
    return false;
  if (!moves_without_this_thread(info)) return false;
  if (info.contiguous) return true;
  message.layout = layouts::of_rendezvous(type);
  message.count = message.bytes / info.size;
  return message.layout != nullptr;
}

std::optional<Slot> post_send(const OutgoingMessage& message, std::uint32_t fin_tag,
                              MPI_Request request) {
  free_finished_sends();
  const auto taken = taken_slot(message, fin_tag);
  if (!taken) return std::nullopt;
  const Slot slot = *taken;
  Sent& sent = g_sent[slot];
  sent.header = {.key = {config.key[0], config.key[1]},
                 .sender = config.me,
                 .slot = slot,
                 .bytes = message.bytes,
                 .generation = services.send_table.slot(slot).generation()};
  p2p::seal(sent.header);
  sent.layout = message.layout;
  sent.from = {.layout = message.layout.get(),
               .count = message.count,
               .base = layout::address_of(message.buffer)};
  if (services.pipeline_engine) services.pipeline_engine->announce(slot, sent.from);
  sent.completion = request;
  sent.resent = false;
  sent.patience = ticks_from_ns(tuning::kFirstPushNs);
  sent.next_try = ticks() + sent.patience;
  return slot;
}

int send_rts(Slot slot, const OutgoingMessage& message) {
  Sent& sent = g_sent[slot];
  const int code = next.Isend(&sent.header, p2p::kRtsBytes, MPI_BYTE, message.dest, message.tag,
                              message.comm, &sent.sending);
  if (code != MPI_SUCCESS) {
    give_back(slot);
    return code;
  }
  const std::uint64_t awaited = services.send_table.slot(slot).fin_tag == p2p::kNoFin ? 1 : 0;
  sent.started.store(sent.header.generation << 1U | awaited, std::memory_order_release);
  services.send_table.slot(slot).rts_sent.store(1, std::memory_order_release);
  services.counters().messages_by_rendezvous.add(1);
  services.counters().bytes_by_rendezvous.add(message.bytes);
  return MPI_SUCCESS;
}

int receive_fin(Slot slot, MPI_Request* request) {
  const auto fin_tag = static_cast<int>(services.send_table.slot(slot).fin_tag);
  // From anyone: the receiver, or this rank itself if it pushes.
  const int code =
      real.Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, fin_tag, config.node_comm, request);
  if (code == MPI_SUCCESS) {
    g_sent[slot].completion = *request;
    g_fins[fin_tag].request.store(*request, std::memory_order_relaxed);
    g_fins[fin_tag].sequence.store(services.send_table.slot(slot).sequence + 1,
                                   std::memory_order_relaxed);
  } else {
    give_back(slot);
  }
  return code;
}

void await_fin(Slot slot) {
  constexpr int kKickEvery = 4;  // looks at the flag between two kicks at the library
  p2p::SendSlot& send = services.send_table.slot(slot);
  int looks = 0;
  wait::until_shared([&] {
    // acquire: pairs with the receiver's last change; after it the buffer is ours again.
    if (send.state() == p2p::SlotState::done) return true;
    if (++looks % kKickEvery == 0) kick_progress();
    return false;
  });
  wait_request(&g_sent[slot].sending, MPI_STATUS_IGNORE);
  give_back(slot);
}

void free_finished_sends() {
  if (services.send_table.empty()) return;
  // Who finds another at it goes on: that one may wait, and need the library for it.
  static std::atomic_flag one_reaper = ATOMIC_FLAG_INIT;
  if (one_reaper.test_and_set(std::memory_order_acquire)) return;
  services.send_table.for_each([](Slot slot, p2p::SendSlot& send) {
    const Start start = start_of(slot);
    if (start.awaited || !send.is_done(start.generation)) return;
    wait_request(&g_sent[slot].sending, MPI_STATUS_IGNORE);
    give_back(slot);
  });
  one_reaper.clear(std::memory_order_release);
}

bool cancel_send(MPI_Request request) {
  return services.send_table.any_of([&](Slot slot, p2p::SendSlot& send) {
    Sent& sent = g_sent[slot];
    const Start start = start_of(slot);
    if (start.awaited || sent.completion != request) return false;
    // The request of a rendezvous send that is over may be complete, and its handle another's by
    // now.
    if (send.state_of(start.generation) == p2p::SlotState::free) return false;
    if (!send.take(start.generation)) return true;  // its receiver has it
    MPI_Status status;
    next.Cancel(&sent.sending);
    wait_request(&sent.sending, &status);
    int cancelled = 0;
    real.Test_cancelled(&status, &cancelled);
    if (cancelled == 0) {
      send.change(p2p::SlotState::posted);
      return true;
    }
    real.Cancel(&sent.completion);
    const auto fin_tag = static_cast<int>(send.fin_tag);
    if (tags::kSendFins.contains(fin_tag)) g_fins[fin_tag].sequence.store(0);
    give_back(slot);
    return true;
  });
}

std::optional<int> fin_tag_of(MPI_Request request) {
  std::optional<int> found;
  std::uint64_t last = 0;
  for (int tag = 0; tag < tags::kSendFins.count; ++tag) {
    const std::uint64_t sequence = g_fins[tag].sequence.load(std::memory_order_relaxed);
    if (sequence <= last) continue;
    if (g_fins[tag].request.load(std::memory_order_relaxed) != request) continue;
    last = sequence;
    found = tag;
  }
  return found;
}

bool push_sends() {
  if (services.send_table.empty()) return false;
  const std::uint64_t now = ticks();
  return services.send_table.any_of([&](Slot slot, p2p::SendSlot& send) {
    // acquire: pairs with the receiver's claim; `job` is valid from here on. If the receiver is
    // done by now and its job slot serves another message, a chunk of that is claimed in good
    // order.
    const p2p::SlotState state = send.state();
    if (state == p2p::SlotState::posted) return try_to_push(slot, send, now);
    if (state != p2p::SlotState::claimed) return false;
    g_taking_at[send.to] = now;
    const std::uint64_t job = send.job.load(std::memory_order_relaxed);
    if (p2p::OnPipeline::is(job)) return false;  // the pipeline engine's
    return thief().run_one_chunk(services.area(send.to).jobs.jobs[job], send.to);
  });
}

void resend_requested() {
  if (!services.send_table.resends_wanted()) return;
  services.send_table.for_each([](Slot slot, p2p::SendSlot& send) {
    // acquire: pairs with the receiver's release in receive_by_library().
    if (send.state() != p2p::SlotState::resend) return;
    if (g_sent[slot].resent) return;
    g_sent[slot].resent = true;
    send_by_library(slot, send);
  });
}

}  // namespace mh::mpi::rndv
