// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/message.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <memory>
#include <vector>

#include "base/say.hpp"
#include "layout/pack.hpp"
#include "mpi/runtime.hpp"
#include "mpi/wires.hpp"
#include "p2p/arrival.hpp"
#include "p2p/transfer.hpp"

namespace mh::mpi {
namespace {

// Tags on the node's private communicator. Completion messages of slots use the slot's number,
// those of persistent sends numbers from kPersistentTags on; data sent again uses kResendTags +
// slot.
constexpr int kResendTags = 4096;
static_assert(p2p::SharedOutbox::kSlots <= kResendTags && kResendTags * 2 <= kPersistentTags);
constexpr int kSelfTag = 32765;  // on the communicator of this rank alone
// MPI_BYTE counts are ints: longer data is sent again in pieces.
constexpr std::uint64_t kPiece = 1U << 30U;

// Dense messages from this size on go by cells where the kernel does not copy: faster than the
// libraries' own way (docs/decisions.md).
constexpr std::uint64_t kLeastByCells = 512U << 10U;

// What only this process knows of a slot of its outbox. Written by the thread that holds the slot.
struct Sent {
  p2p::Descriptor descriptor;
  MPI_Request sending = MPI_REQUEST_NULL;     // the descriptor's own send
  MPI_Request completion = MPI_REQUEST_NULL;  // the user's request, for MPI_Cancel
  // The generation of the letter whose send was started last, and in the lowest bit whether a
  // blocking call holds the slot and gives it back. All else here is written before. release: pairs
  // with the acquire of other threads, for whom a letter that is not started is not there yet.
  std::atomic<std::uint64_t> started{0};
  layout::LayoutPtr layout;  // null where the data is dense
  p2p::End from;             // the data
  bool resent = false;
  std::uint64_t next_try = 0;  // tick of the next attempt to deliver
  std::uint64_t patience = 0;  // ticks from then to the one after
};
std::array<Sent, p2p::SharedOutbox::kSlots> g_sent;

struct Start {
  std::uint64_t generation;
  bool awaited;
};
Start start_of(Slot slot) {
  const std::uint64_t started = g_sent[slot].started.load(std::memory_order_acquire);
  return {.generation = started >> 1U, .awaited = (started & 1U) != 0};
}

memory::View view_of(const void* address, std::uint32_t rank) {
  return {.address = reinterpret_cast<std::uint64_t>(address),
          .pid = g.node->record(rank).pid,
          .rank = rank};
}

layout::Elements elements(const p2p::End& end) {
  return {.layout = end.layout, .count = end.count, .base = end.base};
}

// The slot is free again.
void give_back(Slot slot) {
  if (g.carrier) g.carrier->withdraw(slot);
  g_sent[slot].layout.reset();
  g.outbox.release(slot);
}

void send_pieces(Slot slot, const p2p::SendSlot& letter) {
  const auto* bytes = reinterpret_cast<const std::byte*>(letter.from.address);
  for (std::uint64_t offset = 0; offset < letter.bytes; offset += kPiece) {
    const auto piece = static_cast<int>(std::min(kPiece, letter.bytes - offset));
    MPI_Request request = MPI_REQUEST_NULL;
    real.Isend(bytes + offset, piece, MPI_BYTE, static_cast<int>(letter.to),
               kResendTags + static_cast<int>(slot), g.node_comm, &request);
    // The buffer stays in use until the receiver says so, which is later than this request's end.
    real.Request_free(&request);
  }
}

// Fetches through the library what memory did not give. The sender notices in its wait loop.
void receive_stream_again(p2p::SendSlot& slot, const p2p::Descriptor& descriptor, void* to,
                          std::uint64_t bytes) {
  slot.change(p2p::SlotState::resend);
  g.area(descriptor.sender).outbox.resends.fetch_add(1, std::memory_order_release);
  g.counters().resends.add(1);
  std::vector<std::byte> surplus;  // the sender sends all, also where the receive is too short
  for (std::uint64_t offset = 0; offset < descriptor.bytes; offset += kPiece) {
    const std::uint64_t piece = std::min(kPiece, descriptor.bytes - offset);
    auto* place = static_cast<std::byte*>(to) + offset;
    if (offset + piece > bytes) {
      surplus.resize(piece);
      place = surplus.data();
    }
    MPI_Request request = MPI_REQUEST_NULL;
    real.Irecv(place, static_cast<int>(piece), MPI_BYTE, static_cast<int>(descriptor.sender),
               kResendTags + static_cast<int>(descriptor.slot), g.node_comm, &request);
    int flag = 0;
    wait::until(
        [&] { return real.Test(&request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag; });
    if (!surplus.empty() && offset < bytes) {
      std::memcpy(static_cast<std::byte*>(to) + offset, surplus.data(), bytes - offset);
    }
  }
}

void receive_again(p2p::SendSlot& slot, const p2p::Descriptor& descriptor, const p2p::End& to,
                   std::uint64_t bytes) {
  if (to.layout == nullptr) {
    return receive_stream_again(slot, descriptor, reinterpret_cast<void*>(to.base), bytes);
  }
  const auto packed = std::make_unique_for_overwrite<std::byte[]>(bytes);
  receive_stream_again(slot, descriptor, packed.get(), bytes);
  layout::unpack(elements(to), {0, bytes}, packed.get());
}

// Looks, now and then, for a dead process among those that may hold a chunk of this rank's jobs.
class Watch {
 public:
  bool somebody_died() {
    const std::uint64_t now = ticks();
    if (next_look_ == 0) next_look_ = now + interval_;
    if (now < next_look_) return false;
    next_look_ = now + interval_;
    for (std::uint32_t rank = 0; rank < g.ranks; ++rank) {
      // relaxed: a rank that died between claim and finish has said so long ago.
      const std::uint32_t owner = g.node->record(rank).visiting.load(std::memory_order_relaxed);
      if (owner == g.me + 1 && !g.node->alive(rank)) return true;
    }
    return false;
  }

 private:
  std::uint64_t interval_ = ticks_from_ns(1e9);
  std::uint64_t next_look_ = 0;
};

// Null where no core will be lent: nobody waits just now, and helpers are not made for nothing.
p2p::LentCopies* copies_to_lend() {
  if (!g.lent_copies) return nullptr;
  return g.helpers->hired() || g.node->somebody_idle() ? &*g.lent_copies : nullptr;
}

// Runs a job of this rank with every hand that is free. With `letter`, its sender is one of them.
bool move_by_many(const memory::View& to, const memory::View& from, std::uint64_t bytes,
                  steal::Order order, p2p::SendSlot* letter) {
  const steal::Work work{.to = to,
                         .from = from,
                         .bytes = bytes,
                         .chunk_bytes = g.chunking->chunk_for(bytes),
                         .order = order};
  p2p::Transfer transfer(work, g.me, *g.keeper, g.area(g.me).jobs, letter);
  p2p::LentCopies::Offer offer(copies_to_lend(), bytes);
  Watch watch;
  wait::until([&] {
    if (transfer.step(thief())) return true;
    if (transfer.all_claimed()) offer.nothing_left();
    if (watch.somebody_died()) transfer.recover();
    return false;
  });
  return transfer.close();
}

// The sender has its buffer back, and is told so.
void release_sender(p2p::SendSlot& slot, std::uint32_t sender) {
  const std::uint32_t fin_tag = slot.fin_tag;  // before the slot is given back
  // release: what this rank and its helpers read of the buffer is read before the sender writes
  // there.
  slot.change(p2p::SlotState::done);
  if (fin_tag == p2p::kNoFin) return;
  MPI_Request request = MPI_REQUEST_NULL;
  real.Isend(nullptr, 0, MPI_BYTE, static_cast<int>(sender), static_cast<int>(fin_tag), g.node_comm,
             &request);
  real.Request_free(&request);
}

// By a belt: threads of both processes, each at its own end. Where all belts are in use by other
// threads, one of them comes free as soon as its message is over.
bool move_by_belt(p2p::SendSlot& letter, std::uint32_t sender, const p2p::End& to,
                  std::uint64_t bytes) {
  std::optional<std::uint32_t> belt;
  wait::until([&] {
    belt = g.carrier->begin(letter, sender, to, bytes);
    return belt.has_value();
  });
  const bool readable = g.reaching && letter.dense != 0;
  wait::until([&] {
    if (!g.carrier->drain(*belt) && readable) g.carrier->fetch(*belt, letter.from);
    return g.carrier->over(*belt);
  });
  return g.carrier->finish(*belt);
}

// Moves the first `bytes` of a message whose letter this rank has taken to `to`; releases the
// sender.
void pull(const p2p::Descriptor& descriptor, p2p::SendSlot& letter, const p2p::End& to,
          std::uint64_t bytes, steal::Order order) {
  const bool by_job = g.reaching && letter.dense != 0 && to.layout == nullptr;
  auto* address = reinterpret_cast<void*>(to.base);
  const bool moved = by_job
                         ? move_by_many(view_of(address, g.me), letter.from, bytes, order, &letter)
                         : move_by_belt(letter, descriptor.sender, to, bytes);
  if (!moved) receive_again(letter, descriptor, to, bytes);
  release_sender(letter, descriptor.sender);
}

// A message from this rank to itself: how the library moves data between layouts. Unlike MPI_Pack
// it takes MPI_BOTTOM in every library, and a last element that is only partly there.
template <class Count>
void send_to_self(const void* from, Count count, MPI_Datatype type, void* to, MPI_Count room,
                  MPI_Datatype to_type) {
  static std::mutex one_at_a_time;
  const ThreadLock hold(one_at_a_time);
  MPI_Request requests[2];
  if (real.Irecv_c != nullptr && real.Isend_c != nullptr) {
    real.Irecv_c(to, room, to_type, 0, kSelfTag, g.self_comm, &requests[0]);
    real.Isend_c(from, static_cast<MPI_Count>(count), type, 0, kSelfTag, g.self_comm, &requests[1]);
  } else {
    real.Irecv(to, static_cast<int>(room), to_type, 0, kSelfTag, g.self_comm, &requests[0]);
    real.Isend(from, static_cast<int>(count), type, 0, kSelfTag, g.self_comm, &requests[1]);
  }
  for (MPI_Request& request : requests) {
    int flag = 0;
    while (real.Test(&request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag == 0) relax();
  }
}

p2p::End end_at(const void* address) { return {.base = layout::address_of(address)}; }

layout::Elements elements_of(const Landing& landing, const layout::Layout& layout) {
  return {.layout = &layout,
          .count = static_cast<std::uint64_t>(landing.count),
          .base = layout::address_of(landing.buffer)};
}

// The descriptor as it lies in a buffer whose type has gaps.
void gather_descriptor(const Landing& landing, p2p::Descriptor& descriptor) {
  if (const layout::LayoutPtr layout = layouts::of(landing.type)) {
    layout::pack(elements_of(landing, *layout), {0, p2p::kDescriptorBytes}, &descriptor);
    return;
  }
  const std::uint64_t element = datatypes::info(landing.type).size;
  const std::uint64_t elements = (p2p::kDescriptorBytes + element - 1) / element;
  std::vector<std::byte> packed(elements * element);
  send_to_self(landing.buffer, elements, landing.type, packed.data(),
               static_cast<MPI_Count>(packed.size()), MPI_BYTE);
  std::memcpy(&descriptor, packed.data(), p2p::kDescriptorBytes);
}

// Into a buffer with gaps: to its places on a belt, else through a packed copy.
void pull_scattered(const p2p::Descriptor& descriptor, p2p::SendSlot& letter,
                    const Landing& landing, std::uint64_t bytes) {
  const layout::LayoutPtr layout = layouts::of(landing.type);
  if (layout != nullptr && g.carrying) {
    const layout::Elements to = elements_of(landing, *layout);
    const p2p::End end{.layout = to.layout, .count = to.count, .base = to.base};
    return pull(descriptor, letter, end, bytes, landing.comm->order);
  }
  const auto packed = std::make_unique_for_overwrite<std::byte[]>(bytes);
  pull(descriptor, letter, end_at(packed.get()), bytes, landing.comm->order);
  if (layout != nullptr) {
    layout::unpack(elements_of(landing, *layout), {0, bytes}, packed.get());
  } else {
    send_to_self(packed.get(), bytes, MPI_BYTE, landing.buffer, landing.count, landing.type);
  }
}

bool of_descriptor_size(const MPI_Status& status) {
  int bytes = 0;
  if (real.Get_count(&status, MPI_BYTE, &bytes) != MPI_SUCCESS) return false;
  if (bytes != static_cast<int>(p2p::kDescriptorBytes)) return false;
  int cancelled = 0;
  real.Test_cancelled(&status, &cancelled);
  return cancelled == 0;
}

std::optional<p2p::Descriptor> read_descriptor(const Landing& landing) {
  p2p::Descriptor descriptor;
  if (landing.dense) {
    if (!p2p::opens_descriptor(landing.buffer, g.key)) return std::nullopt;
    std::memcpy(&descriptor, landing.buffer, p2p::kDescriptorBytes);
    return descriptor;
  }
  gather_descriptor(landing, descriptor);
  if (!p2p::opens_descriptor(&descriptor, g.key)) return std::nullopt;
  return descriptor;
}

p2p::SendSlot& letter_of(const p2p::Descriptor& descriptor) {
  return g.area(descriptor.sender).outbox.slots[descriptor.slot];
}

// The state of the letter that a descriptor found in memory belongs to; free if that use of the
// slot is over, or the descriptor is not all there yet.
p2p::SlotState letter_state(const p2p::Descriptor& found) {
  if (found.from_world != 0 || !p2p::is_sealed(found)) return p2p::SlotState::free;
  const p2p::SendSlot& letter = letter_of(found);
  const p2p::SlotState state = letter.state_of(found.generation);
  return state == p2p::SlotState::free || letter.to == g.me ? state : p2p::SlotState::free;
}

// A sender is delivering, or has: waits for the end of that. True if the message is there, false if
// the sender gave up and the descriptor lies in the buffer as before.
bool await_delivery(p2p::Landing& shown) {
  p2p::LandingState state = p2p::LandingState::delivering;
  wait::until([&] {
    // acquire: pairs with the sender's last change; the delivered bytes are visible after it.
    state = shown.state.load(std::memory_order_acquire);
    return state != p2p::LandingState::delivering;
  });
  return state == p2p::LandingState::delivered;
}

Fetched delivered(const Landing& landing) {
  const std::uint64_t bytes = landing.shown->bytes.load(std::memory_order_relaxed);
  return {.bytes = std::min(bytes, landing.capacity), .truncated = bytes > landing.capacity};
}

// Brings the message whose letter this rank has taken to where its descriptor landed.
Fetched take_over(const p2p::Descriptor& descriptor, const Landing& landing) {
  p2p::SendSlot& letter = letter_of(descriptor);
  const std::uint64_t bytes = std::min(descriptor.bytes, landing.capacity);
  if (landing.dense) {
    pull(descriptor, letter, end_at(landing.buffer), bytes, landing.comm->order);
  } else {
    pull_scattered(descriptor, letter, landing, bytes);
  }
  return {.bytes = bytes, .truncated = descriptor.bytes > landing.capacity};
}

// ---- Delivering
// -------------------------------------------------------------------------------------

constexpr double kFirstTryNs = 30e3;  // a receiver that waits in MPI is faster than that
constexpr double kLastTryNs = 1e6;    // tries become this rare

// The landing of `receiver` in which this rank's descriptor lies.
p2p::Landing* find_landing(std::uint32_t receiver, const p2p::Descriptor& mine) {
  p2p::LandingBoard& board = g.area(receiver).landings;
  const std::uint32_t extent = board.extent.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < extent; ++i) {
    p2p::Landing& landing = board.landings[i];
    // acquire: pairs with the receiver's open().
    if (landing.state.load(std::memory_order_acquire) != p2p::LandingState::open) continue;
    memory::View there = view_of(nullptr, receiver);
    there.address = landing.address.load(std::memory_order_relaxed);
    p2p::Descriptor found;
    if (!memory::read(&found, there, sizeof found).ok()) continue;
    if (std::memcmp(&found, &mine, sizeof found) == 0) return &landing;
  }
  return nullptr;
}

// As copy_to(), of data that is not dense: packed and written, by this thread alone.
bool pack_to(const p2p::Landing& landing, const p2p::SendSlot& letter, const p2p::End& from) {
  constexpr std::uint64_t kStep = 64U << 10U;
  const std::uint64_t bytes =
      std::min(letter.bytes, landing.capacity.load(std::memory_order_relaxed));
  const auto packed = std::make_unique_for_overwrite<std::byte[]>(kStep);
  memory::View to = view_of(nullptr, letter.to);
  const std::uint64_t address = landing.address.load(std::memory_order_relaxed);
  const auto write = [&](std::uint64_t begin, std::uint64_t end) {
    layout::pack(elements(from), {begin, end}, packed.get());
    to.address = address + begin;
    return memory::write(to, packed.get(), end - begin).ok();
  };
  for (std::uint64_t at = p2p::kDescriptorBytes; at < bytes; at += kStep) {
    if (!write(at, std::min(at + kStep, bytes))) return false;
  }
  return write(0, p2p::kDescriptorBytes);
}

// The message comes to the landing: all but the descriptor's place by many hands, that place last,
// so that a failure leaves the descriptor as it was.
bool copy_to(const p2p::Landing& landing, const p2p::SendSlot& letter) {
  const std::uint64_t bytes =
      std::min(letter.bytes, landing.capacity.load(std::memory_order_relaxed));
  memory::View to = view_of(nullptr, letter.to);
  to.address = landing.address.load(std::memory_order_relaxed) + p2p::kDescriptorBytes;
  memory::View from = letter.from;
  from.address += p2p::kDescriptorBytes;
  if (!move_by_many(to, from, bytes - p2p::kDescriptorBytes, g.order, nullptr)) return false;
  to.address -= p2p::kDescriptorBytes;
  return memory::write(to, reinterpret_cast<const void*>(letter.from.address),
                       p2p::kDescriptorBytes)
      .ok();
}

bool deliver(Slot slot, p2p::SendSlot& letter) {
  const p2p::Descriptor mine = g_sent[slot].descriptor;
  p2p::Landing* landing = find_landing(letter.to, mine);
  // While we looked, this letter may have come to its end, and the slot to another.
  if (landing == nullptr || !letter.take(mine.generation)) return false;
  // Only this rank changes an open landing that holds its descriptor: its receiver cannot close it
  // without the letter. release: before anything is written there (being_delivered).
  landing->bytes.store(letter.bytes, std::memory_order_relaxed);
  landing->state.store(p2p::LandingState::delivering, std::memory_order_release);
  const bool there = g_sent[slot].layout == nullptr ? copy_to(*landing, letter)
                                                    : pack_to(*landing, letter, g_sent[slot].from);
  if (!there) {
    landing->state.store(p2p::LandingState::open, std::memory_order_release);
    letter.change(p2p::SlotState::posted);
    return false;
  }
  landing->state.store(p2p::LandingState::delivered, std::memory_order_release);
  release_sender(letter, g.me);
  return true;
}

bool try_to_deliver(Slot slot, p2p::SendSlot& letter) {
  if (!g.reaching) return false;
  Sent& sent = g_sent[slot];
  if (start_of(slot).generation != letter.generation()) return false;
  const std::uint64_t now = ticks();
  if (now < sent.next_try) return false;
  sent.patience = std::min(2 * sent.patience, ticks_from_ns(kLastTryNs));
  sent.next_try = now + sent.patience;
  return deliver(slot, letter);
}

}  // namespace

// ---- Sending
// ----------------------------------------------------------------------------------------

bool may_describe(Outgoing& message, MPI_Datatype type, const datatypes::Info& info) {
  if (!(g.reaching || g.carrying) || message.bytes < g.threshold) return false;
  if (info.dense ? !g.reaching && message.bytes < kLeastByCells : !g.carrying) return false;
  if (!g.switched_on.load(std::memory_order_relaxed)) return false;
  // A receiver with gaps in its buffer has to count the bytes (send_to_self).
  if (message.bytes > INT_MAX && real.Isend_c == nullptr) return false;
  const Comm* comm = comms::find(message.comm);
  if (comm == nullptr) return false;
  const std::int32_t there = comm->on_node(message.dest);
  if (there < 0 || there == static_cast<std::int32_t>(g.me)) return false;
  if (info.dense) return true;
  message.layout = layouts::of_describable(type);
  message.count = message.bytes / info.size;
  return message.layout != nullptr;
}

std::optional<Slot> post_with_fin_tag(const Outgoing& message, std::uint32_t fin_tag,
                                      MPI_Request request) {
  reap_sent();
  const Comm& comm = *comms::find(message.comm);
  const Slot slot = g.outbox.post({.from = view_of(message.buffer, g.me),
                                   .bytes = message.bytes,
                                   .communicator = comm.key,
                                   .tag = message.tag,
                                   .to = static_cast<std::uint32_t>(comm.on_node(message.dest)),
                                   .dense = message.layout == nullptr},
                                  fin_tag);
  if (slot == p2p::Outbox::kNone) {
    g.counters().fallbacks[static_cast<std::size_t>(observe::Fallback::no_slot)].add(1);
    return std::nullopt;
  }
  Sent& sent = g_sent[slot];
  sent.descriptor = {.key = {g.key[0], g.key[1]},
                     .sender = g.me,
                     .slot = slot,
                     .bytes = message.bytes,
                     .generation = g.outbox.slot(slot).generation(),
                     .from_world = 0,
                     .to_world = 0,
                     .piece = 0,
                     .seal = {}};
  p2p::seal(sent.descriptor);
  sent.layout = message.layout;
  sent.from = {.layout = message.layout.get(),
               .count = message.count,
               .base = layout::address_of(message.buffer)};
  if (g.carrier) g.carrier->announce(slot, sent.from);
  if (g.carrier && (sent.layout != nullptr || !g.reaching)) g.carrier->let_helpers_in();
  sent.completion = request;
  sent.resent = false;
  sent.patience = ticks_from_ns(kFirstTryNs);
  sent.next_try = ticks() + sent.patience;
  return slot;
}

std::optional<Slot> post(const Outgoing& message, Completion completion) {
  return post_with_fin_tag(message,
                           completion == Completion::flag ? p2p::kNoFin : p2p::Outbox::kOwnTag,
                           MPI_REQUEST_NULL);
}

int send_descriptor(Slot slot, const Outgoing& message) {
  Sent& sent = g_sent[slot];
  const int code = next.Isend(&sent.descriptor, p2p::kDescriptorBytes, MPI_BYTE, message.dest,
                              message.tag, message.comm, &sent.sending);
  if (code != MPI_SUCCESS) {
    if (sent.completion != MPI_REQUEST_NULL) {
      real.Cancel(&sent.completion);
      real.Request_free(&sent.completion);
    }
    give_back(slot);
    return code;
  }
  const std::uint64_t awaited = g.outbox.slot(slot).fin_tag == p2p::kNoFin ? 1 : 0;
  sent.started.store(sent.descriptor.generation << 1U | awaited, std::memory_order_release);
  g.counters().messages_described.add(1);
  g.counters().bytes_described.add(message.bytes);
  return MPI_SUCCESS;
}

int receive_completion(Slot slot, MPI_Request* request) {
  const auto fin_tag = static_cast<int>(g.outbox.slot(slot).fin_tag);
  // From anyone: the receiver, or this rank itself if it delivers.
  const int code = real.Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, fin_tag, g.node_comm, request);
  if (code == MPI_SUCCESS) {
    g_sent[slot].completion = *request;
  } else {
    give_back(slot);
  }
  return code;
}

void await_taken(Slot slot) {
  constexpr int kPokeEvery = 4;  // looks at the flag between two pokes at the library
  p2p::SendSlot& letter = g.outbox.slot(slot);
  int looks = 0;
  wait::until([&] {
    // acquire: pairs with the receiver's last change; after it the buffer is ours again.
    if (letter.state() == p2p::SlotState::done) return true;
    if (++looks % kPokeEvery == 0) poke_library();
    return false;
  });
  wait_request(&g_sent[slot].sending, MPI_STATUS_IGNORE);
  give_back(slot);
}

void reap_sent() {
  if (g.outbox.empty()) return;
  // Who finds another at it goes on: that one may wait, and need the library for it.
  static std::atomic_flag one_reaper = ATOMIC_FLAG_INIT;
  if (one_reaper.test_and_set(std::memory_order_acquire)) return;
  g.outbox.for_each([](Slot slot, p2p::SendSlot& letter) {
    const Start start = start_of(slot);
    if (start.awaited || !letter.is_done(start.generation)) return;
    wait_request(&g_sent[slot].sending, MPI_STATUS_IGNORE);
    give_back(slot);
  });
  one_reaper.clear(std::memory_order_release);
}

bool cancel_described(MPI_Request request) {
  reap_sent();  // the completed request of a message that arrived may share its handle with this
                // one
  bool found = false;
  g.outbox.for_each([&](Slot slot, p2p::SendSlot& letter) {
    Sent& sent = g_sent[slot];
    const Start start = start_of(slot);
    if (found || start.awaited || start.generation != letter.generation()) return;
    if (sent.completion != request) return;
    found = true;
    if (!letter.take(start.generation)) return;  // its receiver has it
    MPI_Status status;
    next.Cancel(&sent.sending);
    wait_request(&sent.sending, &status);
    int cancelled = 0;
    real.Test_cancelled(&status, &cancelled);
    if (cancelled == 0) {
      letter.change(p2p::SlotState::posted);
      return;
    }
    real.Cancel(&sent.completion);
    give_back(slot);
  });
  return found;
}

void note_short(int dest, MPI_Comm handle) {
  if (!g.describing) return;
  const Comm* comm = comms::find(handle);
  const std::int32_t there = comm == nullptr ? Comm::kElsewhere : comm->on_node(dest);
  if (there < 0) return;
  // relaxed: the message itself carries the order to the receiver.
  g.area(g.me).short_sent[there].store(1, std::memory_order_relaxed);
}

bool push_sent() {
  if (g.outbox.empty()) return false;
  bool worked = false;
  g.outbox.for_each([&](Slot slot, p2p::SendSlot& letter) {
    if (worked) return;
    // acquire: pairs with the receiver's claim; `job` is valid from here on. If the receiver is
    // done by now and its job slot serves another message, a chunk of that is claimed in good
    // order.
    const p2p::SlotState state = letter.state();
    if (state == p2p::SlotState::claimed) {
      const std::uint64_t job = letter.job.load(std::memory_order_relaxed);
      if (p2p::OnBelt::is(job)) return;  // the carrier's
      worked = thief().run_one_chunk(g.area(letter.to).jobs.jobs[job], letter.to);
    } else if (state == p2p::SlotState::posted) {
      worked = try_to_deliver(slot, letter);
    }
  });
  return worked;
}

void resend_wanted() {
  if (!g.outbox.resends_wanted()) return;
  g.outbox.for_each([](Slot slot, p2p::SendSlot& letter) {
    // acquire: pairs with the receiver's release in receive_again().
    if (letter.state() != p2p::SlotState::resend) return;
    if (g_sent[slot].resent) return;
    g_sent[slot].resent = true;
    send_pieces(slot, letter);
  });
}

// ---- Receiving
// --------------------------------------------------------------------------------------

namespace {

// Who may send a descriptor to a receive with this source.
struct Senders {
  bool here;
  bool elsewhere;
};
Senders senders_to(const Comm& comm, int source) {
  const bool here = (g.reaching || g.carrying) && comm.members.size() > 1;
  const bool elsewhere = g.wiring && !comm.on_one_node;
  if (source == MPI_ANY_SOURCE) return {.here = here, .elsewhere = elsewhere};
  const std::int32_t there = comm.on_node(source);
  return {.here = here && there >= 0 && there != static_cast<std::int32_t>(g.me),
          .elsewhere = elsewhere && comm.is_elsewhere(source)};
}

}  // namespace

Landing landing_for(void* buffer, MPI_Count count, MPI_Datatype type, int source, MPI_Comm handle) {
  if (!g.describing || count <= 0) return {};
  const datatypes::Info info = datatypes::info(type);
  const std::uint64_t capacity = message_bytes(count, info);
  if (capacity < p2p::kDescriptorBytes || (info.dense && buffer == nullptr)) return {};
  Comm* comm = comms::find(handle);
  if (comm == nullptr) return {};
  const Senders senders = senders_to(*comm, source);
  if (!senders.here && !senders.elsewhere) return {};
  return {.comm = comm,
          .buffer = buffer,
          .count = count,
          .type = type,
          .capacity = capacity,
          .dense = info.dense,
          .by_wire = !senders.here};
}

void show(Landing& landing) {
  if (landing && landing.dense && !landing.by_wire && g.reaching)
    landing.shown = g.landings.open(landing.buffer, landing.capacity);
}

void hide(Landing& landing) {
  if (landing.shown != nullptr) g.landings.close(landing.shown);
  landing.shown = nullptr;
}

std::optional<p2p::Descriptor> letter_in(const Landing& landing) {
  const auto found = read_descriptor(landing);
  if (!found || letter_state(*found) != p2p::SlotState::posted) return std::nullopt;
  return found;
}

namespace {

Fetched fetched_of(const p2p::Descriptor& found, const Landing& landing) {
  return {.bytes = std::min(found.bytes, landing.capacity),
          .truncated = found.bytes > landing.capacity};
}

// Where the type has a layout.
Coming begin_from_afar(const p2p::Descriptor& found, const Landing& landing,
                       const layout::LayoutPtr& layout) {
  const Fetched fetched = fetched_of(found, landing);
  const p2p::End to{.layout = layout.get(),
                    .count = static_cast<std::uint64_t>(landing.count),
                    .base = layout::address_of(landing.buffer)};
  return {.incoming = wires::begin(found, to, layout, fetched.bytes), .fetched = fetched};
}

// The receive is complete.
std::optional<Fetched> fetch_from_afar(const p2p::Descriptor& found, const Landing& landing) {
  if (!wires::is_new(found)) return std::nullopt;
  const layout::LayoutPtr layout = landing.dense ? nullptr : layouts::of(landing.type);
  if (landing.dense || layout != nullptr) {
    const Coming coming = begin_from_afar(found, landing, layout);
    wires::finish(*coming.incoming);
    return coming.fetched;
  }
  const Fetched fetched = fetched_of(found, landing);
  const auto packed = std::make_unique_for_overwrite<std::byte[]>(fetched.bytes);
  wires::finish(*wires::begin(found, end_at(packed.get()), nullptr, fetched.bytes));
  send_to_self(packed.get(), fetched.bytes, MPI_BYTE, landing.buffer, landing.count, landing.type);
  return fetched;
}

}  // namespace

std::optional<Coming> coming_to(const Landing& landing) {
  if (!g.wiring) return std::nullopt;
  const auto found = read_descriptor(landing);
  if (!found || found->from_world == 0 || !wires::is_new(*found)) return std::nullopt;
  const layout::LayoutPtr layout = landing.dense ? nullptr : layouts::of(landing.type);
  if (!landing.dense && layout == nullptr) return std::nullopt;
  return begin_from_afar(*found, landing, layout);
}

std::optional<Fetched> fetch(const Landing& landing, const MPI_Status& status) {
  return landing.silent || of_descriptor_size(status) ? fetch(landing) : std::nullopt;
}

std::optional<Fetched> fetch(const Landing& landing) {
  for (;;) {
    const auto found = read_descriptor(landing);
    if (found && found->from_world != 0) return fetch_from_afar(*found, landing);
    const bool ours = found && letter_state(*found) != p2p::SlotState::free;
    p2p::SendSlot* letter = ours ? &letter_of(*found) : nullptr;
    switch (p2p::who_moves(letter, ours ? found->generation : 0, landing.shown)) {
      case p2p::Mover::receiver:
        return take_over(*found, landing);
      case p2p::Mover::sender:
        if (await_delivery(*landing.shown)) return delivered(landing);
        break;
      case p2p::Mover::nobody:
        return std::nullopt;
      case p2p::Mover::unsettled:
        relax();
    }
  }
}

int settle(const Landing& landing, MPI_Status* status) {
  const auto fetched = fetch(landing, *status);
  if (!fetched) return MPI_SUCCESS;
  set_bytes(status, fetched->bytes);
  return fetched->truncated ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}

void release_unread(std::uint32_t sender, Slot slot, std::uint64_t generation) {
  p2p::SendSlot& letter = g.area(sender).outbox.slots[slot];
  if (letter.take(generation)) release_sender(letter, sender);
}

bool is_truncation(int code) {
  int error = MPI_SUCCESS;
  real.Error_class(code, &error);
  return error == MPI_ERR_TRUNCATE;
}

int raise(MPI_Comm comm, int code) {
  real.Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace mh::mpi
