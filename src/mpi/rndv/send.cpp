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
#include "observe/trace.hpp"

namespace mh::mpi::rndv {
namespace {

using observe::EventKind;
using observe::LeftBecause;

// The facts of a rendezvous send that only this rank reads; one object for each slot of this rank's
// send table. The thread that posts the send writes all members; the wait loop's steps also write
// the last three members, under the lock that lets one thread at a time do these steps
// (wait/wait.cpp).
struct SentMessage {
  p2p::RtsHeader header;                      // the send buffer of `sending`
  MPI_Request sending = MPI_REQUEST_NULL;     // of the header's MPI_Isend
  MPI_Request completion = MPI_REQUEST_NULL;  // the program's request, for MPI_Cancel
  // Tells for which send of this slot an RTS header was sent last: twice its generation
  // (SendSlot::word), plus 1 if a blocking call awaits the send and frees the slot. Written after
  // all other members. release: pairs with the acquire in started_send(), by which other threads
  // ignore a send whose header has not been sent.
  std::atomic<std::uint64_t> started{0};
  layout::LayoutPtr layout;                              // null where the data is contiguous
  p2p::End from;                                         // the send buffer
  steal::CopyOrder order = steal::CopyOrder::both_ends;  // from the communicator's info key
  bool resent = false;              // serve_resends() has sent the message through the library
  std::uint64_t next_push = 0;      // tick of the next attempt to push
  std::uint64_t push_interval = 0;  // ticks from the next attempt to the one after it
};

// The request that a FIN completes; the FIN's tag is the index in RendezvousSends::fins. relaxed
// suffices for both members: MPI_Cancel comes after the start of the request, in the same thread or
// in a thread that the program has synchronised with the starting thread.
struct FinTarget {
  std::atomic<MPI_Request> request{};
  std::atomic<std::uint64_t> sequence{0};  // of the send, plus one; 0: no send
};

// The rendezvous sends of this process: what only this rank knows of them.
struct RendezvousSends {
  std::array<SentMessage, p2p::SharedSendTable::kSlots> by_slot;
  // The requests that FINs complete, by FIN tag. MPI_Cancel looks up its request in this array even
  // if the slot of the send has been freed.
  std::array<FinTarget, tags::kSendFins.count> fins;
  // For each rank on the node, the tick at which this rank last saw it copy a message of this rank.
  // Such a rank is in MPI and itself copies further messages, so this rank pushes nothing to it for
  // tuning::kFirstPushNs. Guarded by the lock of the wait loop's steps (wait/wait.cpp).
  std::array<std::uint64_t, node::kMaxRanks> copying_at{};
};
RendezvousSends g_sends;

// SentMessage::started, unpacked: for which send of a slot an RTS header was sent last.
struct StartedSend {
  std::uint64_t generation;
  bool is_blocking;
};
StartedSend started_send(Slot slot) {
  const std::uint64_t started = g_sends.by_slot[slot].started.load(std::memory_order_acquire);
  return {.generation = started >> 1U, .is_blocking = (started & 1U) != 0};
}

void free_slot(Slot slot) {
  if (services.pipeline_engine) services.pipeline_engine->withdraw(slot);
  g_sends.by_slot[slot].layout.reset();
  services.send_table.release(slot);
}

// ---- Pushing messages into posted receives -----------------------------------------------------

// An entry of the receiver's posted-receive table, and the address of its buffer when this rank
// found the entry. The receiver may reuse the entry for another buffer at any time.
struct FoundReceive {
  p2p::PostedReceive* posted = nullptr;
  std::uint64_t buffer = 0;
};

// True if `buffer`, an address in the process of `rank`, begins with exactly this RTS header.
bool holds_header(std::uint64_t buffer, std::uint32_t rank, const p2p::RtsHeader& header) {
  p2p::RtsHeader found;
  return services.memory->read(&found, view_of(buffer, rank), sizeof found).ok() &&
         std::memcmp(&found, &header, sizeof found) == 0;
}

// The posted receive in whose buffer the RTS header `mine` of `send` lies. Nothing if several
// receives are posted for that buffer, because the sender cannot tell which of them was matched.
FoundReceive find_posted(const p2p::SendSlot& send, const p2p::RtsHeader& mine) {
  p2p::PostedReceiveTable& table = services.area(send.to).posted_receives;
  const std::uint32_t extent = table.extent.load(std::memory_order_relaxed);
  FoundReceive found;
  for (std::uint32_t i = 0; i < extent; ++i) {
    p2p::PostedReceive& posted = table.posted_receives[i];
    // acquire: pairs with the release in the receiver's open(), which publishes the entry.
    if (posted.state.load(std::memory_order_acquire) != p2p::PostedState::open) continue;
    if (!posted.envelope().accepts(send.communicator, config.me, send.tag)) continue;
    const std::uint64_t buffer = posted.address.load(std::memory_order_relaxed);
    if (found.posted != nullptr && found.buffer == buffer) return {};
    if (found.posted == nullptr && holds_header(buffer, send.to, mine)) found = {&posted, buffer};
  }
  return found;
}

// Pushes a message with gaps: this thread packs the first `bytes` of the packed stream and writes
// them to the receive buffer, the bytes over the RTS header last. False if the receive buffer could
// not be written, or if there is no memory.
bool pack_to(const memory::View& to, const SentMessage& sent, std::uint64_t bytes) {
  constexpr std::uint64_t kStep = 64U << 10U;
  if (std::byte* here = services.memory->to_here(to, bytes); here != nullptr) {
    p2p::pack(sent.from, {p2p::kRtsBytes, bytes}, here + p2p::kRtsBytes);
    p2p::pack(sent.from, {0, p2p::kRtsBytes}, here);
    return services.memory->to_here(to, bytes) != nullptr;
  }
  const std::unique_ptr<std::byte[]> packed(new (std::nothrow) std::byte[kStep]);
  if (packed == nullptr) return false;
  const auto write = [&](std::uint64_t begin, std::uint64_t end) {
    p2p::pack(sent.from, {begin, end}, packed.get());
    return services.memory->write(to.at(begin), packed.get(), end - begin).ok();
  };
  const std::uint64_t steps = (bytes - p2p::kRtsBytes + kStep - 1) / kStep;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::uint64_t at =
        p2p::kRtsBytes + steal::chunk_position(step, steps, sent.order) * kStep;
    if (!write(at, std::min(at + kStep, bytes))) return false;
  }
  return write(0, p2p::kRtsBytes);
}

// Writes a contiguous message over its RTS header in the receive buffer `to`. The bytes behind the
// header are a job, whose chunks other ranks may claim. This thread copies the first kRtsBytes
// bytes last, so that a failure leaves the header intact. False if a copy failed.
bool copy_to(const memory::View& to, const SentMessage& sent, const memory::View& from,
             std::uint64_t bytes) {
  constexpr std::uint64_t kHead = p2p::kRtsBytes;
  const auto path = copy_in_chunks(
      {.to = to.at(kHead), .from = from.at(kHead), .bytes = bytes - kHead, .order = sent.order});
  if (!path) return false;
  return services.memory->write(to, reinterpret_cast<const void*>(from.address), kHead).ok();
}

// Pushes the message into the posted receive whose buffer holds its RTS header. False if no such
// receive is found, the receiver has taken the send, or a copy failed. Unless the receiver has
// taken it, the send is then posted as before.
bool push(Slot slot, p2p::SendSlot& send) {
  const SentMessage& sent = g_sends.by_slot[slot];
  const p2p::RtsHeader mine = sent.header;
  const auto [posted, buffer] = find_posted(send, mine);
  // take() fails if the receiver has taken the send, or if the slot belongs to a later send.
  if (posted == nullptr || !send.take(mine.generation)) return false;
  // Since find_posted(), the receiver may have posted another buffer in the entry `posted`.
  if (!posted->is_of(buffer) ||
      !posted->envelope().accepts(send.communicator, config.me, send.tag)) {
    send.change(p2p::SlotState::posted);
    return false;
  }
  // The receiver must see `pushing` before it sees a changed byte of its buffer: x86-64 makes the
  // stores visible in this order. release: pairs with the acquire in p2p::settle_mover(), and
  // publishes `bytes`.
  posted->bytes.store(send.bytes, std::memory_order_relaxed);
  posted->state.store(p2p::PostedState::pushing, std::memory_order_release);
  const std::uint64_t begin = observe::trace() != nullptr ? ticks() : 0;
  const memory::View to = view_of(buffer, send.to);
  const std::uint64_t bytes =
      std::min(send.bytes, posted->capacity.load(std::memory_order_relaxed));
  const bool is_pushed =
      sent.layout == nullptr ? copy_to(to, sent, send.from, bytes) : pack_to(to, sent, bytes);
  if (!is_pushed) {
    posted->state.store(p2p::PostedState::open, std::memory_order_release);
    send.change(p2p::SlotState::posted);
    return false;
  }
  posted->state.store(p2p::PostedState::pushed, std::memory_order_release);
  trace_copied(begin, bytes, send.to, observe::MessagePath::pushed);
  release_sender(send, config.me);
  return true;
}

// Pushes the message of a posted send if its RTS header was sent, its next attempt is due, and the
// receiver has not been seen in MPI for a while. The interval between attempts doubles, up to
// tuning::kLastPushNs. True if the message was pushed.
bool try_to_push(Slot slot, p2p::SendSlot& send, std::uint64_t now) {
  if (!config.single_copy && !config.heaps_mapped) return false;
  SentMessage& sent = g_sends.by_slot[slot];
  if (started_send(slot).generation != send.generation()) return false;
  if (now < sent.next_push) return false;
  if (now < g_sends.copying_at[send.to] + ticks_from_ns(tuning::kFirstPushNs)) return false;
  sent.push_interval = std::min(2 * sent.push_interval, ticks_from_ns(tuning::kLastPushNs));
  sent.next_push = now + sent.push_interval;
  return push(slot, send);
}

// ---- Choosing rendezvous, and posting sends in the send table ----------------------------------

void trace_left(std::uint64_t bytes, LeftBecause because) {
  if (observe::trace() == nullptr) return;
  observe::add_to_trace({.begin = ticks(),
                         .bytes = bytes,
                         .kind = EventKind::left,
                         .detail = static_cast<std::uint8_t>(because)});
}

// True if this rank receives a long message while it sends one, or will probably do so.
bool is_exchanged(SendPattern pattern) {
  if (pattern == SendPattern::nonblocking)
    return services.exchange_detector.starts_send() || receives.any_long_from_this_node();
  return pattern == SendPattern::exchanged ||
         (pattern == SendPattern::unknown && receives.any_long_from_this_node());
}

// True if the receiver maps the send buffer, which is in the shared heap, and so needs no help to
// copy the message. A copy by loads and stores is faster than a single copy by the kernel, and than
// the two copies of the MPI library or of a pipeline, even while both ranks are busy.
bool may_go_mapped(const OutgoingMessage& message, const datatypes::Info& info) {
  return config.heaps_mapped && info.contiguous && message.bytes >= config.mapped_threshold &&
         heaps::contain(message.buffer, message.bytes);
}

// True if the message is left to the MPI library because it is contiguous and part of an exchange.
// In an exchange both ranks are in MPI and their cores are busy, so that a rendezvous does not
// repay its cost (docs/decisions/rendezvous). An exception is a message of which an idle third rank
// can copy chunks by the kernel.
bool leaves_exchange_to_library(const OutgoingMessage& message, std::uint32_t receiver) {
  if (!is_exchanged(message.pattern) || message.bytes >= config.exchange_threshold) return false;
  if (is_for_third_ranks(message.bytes) && services.node->has_idle_peer_except(receiver))
    return false;
  services.counters().messages_exchanged.add(1);
  trace_left(message.bytes, LeftBecause::exchanged);
  return true;
}

// True if the message can move while this rank is outside the wait loop. Either the receiver itself
// reads the send buffer, or a helper of this process packs the message on a lent core.
bool moves_without_this_thread(const datatypes::Info& info) {
  if (info.contiguous && config.single_copy) return true;
  if (services.pipeline_engine && services.pipeline_engine->let_helpers_in()) return true;
  if (services.pipeline_engine && !services.helpers->hired())
    return false;  // another thread is starting the helpers
  static std::atomic_flag said = ATOMIC_FLAG_INIT;
  if (config.me == 0 && !said.test_and_set(std::memory_order_relaxed)) {
    print_message(
        "large {} messages go through the MPI library: helper threads cannot be created, or may "
        "not run on the cores of other ranks (cpusets)",
        info.contiguous ? "contiguous" : "noncontiguous");
  }
  return false;
}

// The shape of a message with gaps, if its data form a single grid (layout/compact.hpp) and its
// whole buffer is in the shared heap. Nothing for other messages.
std::optional<layout::Compact> shape_of(const OutgoingMessage& message) {
  if (!config.heaps_mapped || message.layout == nullptr) return std::nullopt;
  const auto shape = layout::compact_of(*message.layout, message.count);
  if (!shape) return std::nullopt;
  const auto* begin = static_cast<const std::byte*>(message.buffer) + shape->low;
  return heaps::contain(begin, shape->reach()) ? shape : std::nullopt;
}

// Posts the message in the send table. Returns its slot; nothing if all slots are in use, or if
// rendezvous has ended on the node.
std::optional<Slot> post_in_table(const OutgoingMessage& message, std::uint32_t fin_tag) {
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
    trace_left(message.bytes, LeftBecause::no_slot);
    return std::nullopt;
  }
  // The light half of an asymmetric fence: it restrains the compiler only. The heavy half is the
  // membarrier() in comms::end_rendezvous() (job/comms.cpp). Either this rank sees that rendezvous
  // has ended, or the rank that has ended it sees the posted slot.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (!comms::rendezvous_ended()) return slot;
  services.counters().messages_ended.add(1);
  trace_left(message.bytes, LeftBecause::ended);
  services.send_table.release(slot);
  return std::nullopt;
}

void trace_sent(std::uint64_t bytes, std::uint32_t to) {
  observe::add_to_trace({.begin = ticks(),
                         .bytes = bytes,
                         .peer = services.node->record(to).world_rank,
                         .kind = EventKind::sent});
}

}  // namespace

bool choose_rendezvous(OutgoingMessage& message, MPI_Datatype type, const datatypes::Info& info) {
  if (message.bytes < config.least_threshold) return false;
  if (message.buffer == nullptr && info.contiguous) return false;     // the library refuses null
  if (type == MPI_PACKED && !message.holds_rts_header) return false;  // signature.hpp
  const bool mapped = may_go_mapped(message, info);
  if (!mapped && message.bytes < config.unmapped_threshold) return false;
  if (!mapped && !config.pipelines && !(info.contiguous && config.single_copy)) return false;
  if (!comms::allow_rendezvous()) return false;
  // A receiver whose buffer has gaps may have to pass the number of bytes to MPI (send_to_self()).
  // Without large counts that number is an int.
  if (message.bytes > INT_MAX && real.Isend_c == nullptr) return false;
  const Comm* comm = comms::find(message.comm);
  const std::int32_t there = comm == nullptr ? Comm::kElsewhere : comm->on_node(message.dest);
  if (there < 0 || there == static_cast<std::int32_t>(config.me)) return false;
  if (mapped) return true;
  if (info.contiguous && leaves_exchange_to_library(message, static_cast<std::uint32_t>(there)))
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
  const auto posted = post_in_table(message, fin_tag);
  if (!posted) return std::nullopt;
  const Slot slot = *posted;
  SentMessage& sent = g_sends.by_slot[slot];
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
  sent.order = comms::find(message.comm)->order;
  if (services.pipeline_engine) services.pipeline_engine->announce(slot, sent.from);
  sent.completion = request;
  sent.resent = false;
  sent.push_interval = ticks_from_ns(tuning::kFirstPushNs);
  sent.next_push = ticks() + sent.push_interval;
  return slot;
}

int send_rts(Slot slot, const OutgoingMessage& message) {
  SentMessage& sent = g_sends.by_slot[slot];
  const int code = next.Isend(&sent.header, p2p::kRtsBytes, MPI_BYTE, message.dest, message.tag,
                              message.comm, &sent.sending);
  if (code != MPI_SUCCESS) {
    free_slot(slot);
    return code;
  }
  const std::uint64_t awaited = services.send_table.slot(slot).fin_tag == p2p::kNoFin ? 1 : 0;
  sent.started.store(sent.header.generation << 1U | awaited, std::memory_order_release);
  services.counters().messages_by_rendezvous.add(1);
  services.counters().bytes_by_rendezvous.add(message.bytes);
  if (observe::trace() != nullptr) trace_sent(message.bytes, services.send_table.slot(slot).to);
  return MPI_SUCCESS;
}

int receive_fin(Slot slot, MPI_Request* request) {
  const auto fin_tag = static_cast<int>(services.send_table.slot(slot).fin_tag);
  // The source is MPI_ANY_SOURCE, because the FIN comes from the receiver, or from this rank itself
  // after a push.
  const int code =
      real.Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, fin_tag, config.node_comm, request);
  if (code == MPI_SUCCESS) {
    g_sends.by_slot[slot].completion = *request;
    g_sends.fins[fin_tag].request.store(*request, std::memory_order_relaxed);
    g_sends.fins[fin_tag].sequence.store(services.send_table.slot(slot).sequence + 1,
                                         std::memory_order_relaxed);
  } else {
    free_slot(slot);
  }
  return code;
}

void await_done(Slot slot) {
  constexpr int kKickEvery = 4;  // polls of the slot between two calls of kick_progress()
  p2p::SendSlot& send = services.send_table.slot(slot);
  int polls = 0;
  wait::until_shared([&] {
    // acquire: pairs with the release in release_sender(). The send buffer is this rank's again.
    if (send.state() == p2p::SlotState::done) return true;
    if (++polls % kKickEvery == 0) kick_progress();
    return false;
  });
  wait_request(&g_sends.by_slot[slot].sending, MPI_STATUS_IGNORE);
  free_slot(slot);
}

void free_finished_sends() {
  if (services.send_table.empty()) return;
  // While one thread is in this function, other threads return at once, because the first may have
  // to wait until the MPI library has sent an RTS header.
  static std::atomic_flag is_busy = ATOMIC_FLAG_INIT;
  if (is_busy.test_and_set(std::memory_order_acquire)) return;
  services.send_table.for_each([](Slot slot, p2p::SendSlot& send) {
    const StartedSend started = started_send(slot);
    if (started.is_blocking || !send.is_done(started.generation)) return;
    wait_request(&g_sends.by_slot[slot].sending, MPI_STATUS_IGNORE);
    free_slot(slot);
  });
  is_busy.clear(std::memory_order_release);
}

bool cancel_send(MPI_Request request) {
  return services.send_table.any_of([&](Slot slot, p2p::SendSlot& send) {
    SentMessage& sent = g_sends.by_slot[slot];
    const StartedSend started = started_send(slot);
    if (started.is_blocking || sent.completion != request) return false;
    // If the send is over (`free`), its request may be complete, and `request` may be the same
    // handle of another request.
    if (send.state_of(started.generation) == p2p::SlotState::free) return false;
    if (!send.take(started.generation)) return true;  // receiver or pusher has it
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
    if (tags::kSendFins.contains(fin_tag)) g_sends.fins[fin_tag].sequence.store(0);
    free_slot(slot);
    return true;
  });
}

std::optional<int> fin_tag_of(MPI_Request request) {
  std::optional<int> found;
  std::uint64_t last = 0;
  for (int tag = 0; tag < tags::kSendFins.count; ++tag) {
    const std::uint64_t sequence = g_sends.fins[tag].sequence.load(std::memory_order_relaxed);
    if (sequence <= last) continue;
    if (g_sends.fins[tag].request.load(std::memory_order_relaxed) != request) continue;
    last = sequence;
    found = tag;
  }
  return found;
}

bool move_own_sends() {
  if (services.send_table.empty()) return false;
  const std::uint64_t now = ticks();
  return services.send_table.any_of([&](Slot slot, p2p::SendSlot& send) {
    // acquire: pairs with the receiver's release of `moving` in open_job() (copy.cpp); `send.job`
    // is valid from then on. If the receiver has finished this message and its job slot has another
    // job, this thread claims a chunk of the other job, which is valid, too.
    const p2p::SlotState state = send.state();
    if (state == p2p::SlotState::posted) return try_to_push(slot, send, now);
    if (state != p2p::SlotState::moving) return false;
    g_sends.copying_at[send.to] = now;
    const std::uint64_t job = send.job.load(std::memory_order_relaxed);
    if (p2p::OnPipeline::is(job)) return false;  // the pipeline engine moves this message
    if (!thief().may_copy_for(send.to)) return false;
    return thief().run_one_chunk(services.area(send.to).jobs.jobs[job], send.to);
  });
}

void serve_resends() {
  if (!services.send_table.resends_wanted()) return;
  services.send_table.for_each([](Slot slot, p2p::SendSlot& send) {
    // acquire: pairs with the receiver's release of `resend` in receive_by_library().
    if (send.state() != p2p::SlotState::resend) return;
    if (g_sends.by_slot[slot].resent) return;
    g_sends.by_slot[slot].resent = true;
    send_by_library(slot, send);
  });
}

}  // namespace mh::mpi::rndv
