// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/receiver.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "layout/pack.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/internode_receive.hpp"
#include "mpi/protocol/send_descriptors.hpp"
#include "mpi/protocol/transfer.hpp"

namespace mh::mpi {
namespace {

// What is in place once a message of so many bytes has come.
Fetched fetched_of(std::uint64_t bytes, const ReceiveTarget& target) {
  return {.bytes = std::min(bytes, target.capacity),
          .code = bytes > target.capacity ? MPI_ERR_TRUNCATE : MPI_SUCCESS};
}

// A descriptor has landed and its message is nowhere. It does not stay to be found again.
Fetched nothing_behind_it(const ReceiveTarget& target) {
  if (target.contiguous) std::memset(target.buffer, 0, p2p::kDescriptorBytes);
  return {.bytes = 0, .code = MPI_ERR_INTERN};
}

// The descriptor as it lies in a buffer whose type has gaps.
void gather_descriptor(const ReceiveTarget& target, p2p::Descriptor& descriptor) {
  if (const layout::LayoutPtr layout = layouts::of(target.type)) {
    layout::pack_range(end_of(target, layout), {0, p2p::kDescriptorBytes}, &descriptor);
    return;
  }
  const std::uint64_t element = datatypes::info(target.type).size;
  const std::uint64_t elements = (p2p::kDescriptorBytes + element - 1) / element;
  std::vector<std::byte> packed(elements * element);
  send_to_self(target.buffer, static_cast<MPI_Count>(elements), target.type, packed.data(),
               static_cast<MPI_Count>(packed.size()), MPI_BYTE);
  std::memcpy(&descriptor, packed.data(), p2p::kDescriptorBytes);
}

constexpr Fetched kNoMemory{.bytes = 0, .code = MPI_ERR_NO_MEM};

// Where a message is brought that belongs to a target: there, or, where only the library can read
// the type, in a packed copy. Where there is no memory for that the message is lost, and its
// receive fails with MPI_ERR_NO_MEM.
class Room {
 public:
  Room(const ReceiveTarget& target, std::uint64_t bytes)
      : target_(target),
        bytes_(bytes),
        layout_(target.contiguous ? nullptr : layouts::of(target.type)),
        needs_copy_(!target.contiguous && layout_ == nullptr),
        packed_(needs_copy_ ? new (std::nothrow) std::byte[bytes] : nullptr) {}

  [[nodiscard]] bool lacks_memory() const { return needs_copy_ && packed_ == nullptr; }
  [[nodiscard]] const layout::LayoutPtr& layout() const { return layout_; }
  [[nodiscard]] p2p::End end() const {
    return needs_copy_ ? end_at(packed_.get()) : end_of(target_, layout_);
  }
  // The message is there.
  void close() const {
    if (packed_ != nullptr) unpack_to(target_, packed_.get(), bytes_);
  }

 private:
  const ReceiveTarget& target_;
  std::uint64_t bytes_;
  layout::LayoutPtr layout_;
  bool needs_copy_;
  std::unique_ptr<std::byte[]> packed_;
};

bool of_descriptor_size(const MPI_Status& status) {
  int bytes = 0;
  if (real.Get_count(&status, MPI_BYTE, &bytes) != MPI_SUCCESS) return false;
  if (bytes != static_cast<int>(p2p::kDescriptorBytes)) return false;
  int cancelled = 0;
  real.Test_cancelled(&status, &cancelled);
  return cancelled == 0;
}

// A copy of the descriptor in the buffer, if all of it is there: the library may be about to write
// it, and its sender may write the message over it meanwhile.
std::optional<p2p::Descriptor> read_descriptor(const ReceiveTarget& target) {
  p2p::Descriptor descriptor;
  if (target.contiguous) {
    if (!p2p::opens_descriptor(target.buffer, config.key)) return std::nullopt;
    std::memcpy(&descriptor, target.buffer, p2p::kDescriptorBytes);
  } else {
    gather_descriptor(target, descriptor);
  }
  const bool whole = p2p::opens_descriptor(&descriptor, config.key) && p2p::is_sealed(descriptor);
  return whole ? std::optional(descriptor) : std::nullopt;
}

p2p::SendSlot& send_slot_of(const p2p::Descriptor& descriptor) {
  return services.area(descriptor.sender).send_queue.slots[descriptor.slot];
}

// The state of the send descriptor that a descriptor found in memory belongs to; free if that use
// of the slot is over.
p2p::SlotState send_state(const p2p::Descriptor& found) {
  if (found.from_world != 0) return p2p::SlotState::free;
  return send_slot_of(found).state_of(found.generation);
}

// A sender is pushing, or has: waits for the end of that. True if the message is there, false if
// the sender gave up and the descriptor lies in the buffer as before.
bool await_push(p2p::PostedReceive& shown) {
  p2p::PostedState state = p2p::PostedState::pushing;
  wait::until([&] {
    // acquire: pairs with the sender's last change; the pushed bytes are visible after it.
    state = shown.state.load(std::memory_order_acquire);
    return state != p2p::PostedState::pushing;
  });
  return state == p2p::PostedState::pushed;
}

Fetched pushed(const ReceiveTarget& target) {
  return fetched_of(target.shown->bytes.load(std::memory_order_relaxed), target);
}

// Brings the message whose send descriptor this rank has taken to where its descriptor landed.
Fetched take_over(const p2p::Descriptor& descriptor, const ReceiveTarget& target) {
  p2p::SendSlot& send = send_slot_of(descriptor);
  const Fetched fetched = fetched_of(descriptor.bytes, target);
  send_descriptors::forget_before(descriptor.sender, send);
  const bool is_straight = target.bounce != nullptr && target.bounce->straight;
  const ReceiveTarget& to = is_straight ? target.place() : target;
  const Room room(to, fetched.bytes);
  if (!room.lacks_memory()) {
    bring({.sender = descriptor.sender,
           .slot = descriptor.slot,
           .to = room.end(),
           .bytes = fetched.bytes,
           .order = to.comm->order});
  }
  release_sender(send, descriptor.sender);
  room.close();
  if (is_straight) target.bounce->placed = true;
  return room.lacks_memory() ? kNoMemory : fetched;
}

// The message of a descriptor whose send descriptor is over: it was kept, or there is none.
Fetched fetch_kept(const p2p::Descriptor& found, const ReceiveTarget& target) {
  const auto kept = send_descriptors::take_kept(found);
  if (!kept) return nothing_behind_it(target);
  const Fetched fetched = fetched_of(found.bytes, target);
  unpack_to(target, kept->data.get(), fetched.bytes);
  return fetched;
}

// The sender has the send descriptor, and may keep it while the library takes a message back for
// it.
p2p::Mover await_mover(p2p::SendSlot* send, std::uint64_t generation,
                       const p2p::PostedReceive* shown) {
  p2p::Mover mover = p2p::Mover::unsettled;
  wait::until([&] {
    mover = p2p::who_moves(send, generation, shown);
    if (mover == p2p::Mover::unsettled) kick_progress();
    return mover != p2p::Mover::unsettled;
  });
  return mover;
}

// The receive is complete.
Fetched fetch_from_afar(const p2p::Descriptor& found, const ReceiveTarget& target) {
  if (!internode::is_new(found)) return nothing_behind_it(target);
  const Fetched fetched = fetched_of(found.bytes, target);
  const Room room(target, fetched.bytes);
  const std::uint64_t bytes = room.lacks_memory() ? 0 : fetched.bytes;
  internode::finish(*internode::begin(found, room.end(), room.layout(), bytes));
  room.close();
  return room.lacks_memory() ? kNoMemory : fetched;
}

}  // namespace

std::optional<p2p::Descriptor> descriptor_in(const ReceiveTarget& target) {
  const auto found = read_descriptor(target);
  if (!found || send_state(*found) != p2p::SlotState::posted) return std::nullopt;
  return found;
}

std::optional<Coming> coming_to(const ReceiveTarget& target) {
  if (!config.internode) return std::nullopt;
  const auto found = read_descriptor(target);
  if (!found || found->from_world == 0 || !internode::is_new(*found)) return std::nullopt;
  const layout::LayoutPtr layout = target.contiguous ? nullptr : layouts::of(target.type);
  if (!target.contiguous && layout == nullptr) return std::nullopt;
  const Fetched fetched = fetched_of(found->bytes, target);
  auto incoming = internode::begin(*found, end_of(target, layout), layout, fetched.bytes);
  return Coming{.incoming = std::move(incoming), .fetched = fetched};
}

std::optional<Fetched> fetch(const ReceiveTarget& target, const MPI_Status& status) {
  return target.silent || of_descriptor_size(status) ? fetch(target) : std::nullopt;
}

std::optional<Fetched> fetch(const ReceiveTarget& target) {
  for (;;) {
    const auto found = read_descriptor(target);
    if (found && found->from_world != 0) return fetch_from_afar(*found, target);
    const bool ours = found && send_state(*found) != p2p::SlotState::free;
    p2p::SendSlot* send = ours ? &send_slot_of(*found) : nullptr;
    switch (await_mover(send, ours ? found->generation : 0, target.shown)) {
      case p2p::Mover::receiver:
        return take_over(*found, target);
      case p2p::Mover::sender:
        if (await_push(*target.shown)) return pushed(target);
        break;
      case p2p::Mover::nobody:
        if (!found) return std::nullopt;
        return fetch_kept(*found, target);
      case p2p::Mover::unsettled:
        break;
    }
  }
}

int settle(const ReceiveTarget& target, MPI_Status* status) {
  const auto fetched = fetch(target, *status);
  if (!fetched) return MPI_SUCCESS;
  set_bytes(status, fetched->bytes);
  return fetched->code;
}

}  // namespace mh::mpi
