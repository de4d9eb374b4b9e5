// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/landing.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "layout/pack.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/letters.hpp"
#include "mpi/protocol/moving.hpp"
#include "mpi/protocol/overlaps.hpp"
#include "mpi/protocol/wires.hpp"
#include "p2p/arrival.hpp"

namespace mh::mpi {
namespace {

// `layout` is null where the buffer has no gaps.
p2p::End end_of(const Landing& landing, const layout::LayoutPtr& layout) {
  return {.layout = layout.get(),
          .count = static_cast<std::uint64_t>(landing.count),
          .base = layout::address_of(landing.buffer)};
}

// What is in place once a message of so many bytes has come.
Fetched fetched_of(std::uint64_t bytes, const Landing& landing) {
  return {.bytes = std::min(bytes, landing.capacity),
          .code = bytes > landing.capacity ? MPI_ERR_TRUNCATE : MPI_SUCCESS};
}

// A descriptor has landed and its message is nowhere. It does not stay to be found again.
Fetched nothing_behind_it(const Landing& landing) {
  if (landing.dense) std::memset(landing.buffer, 0, p2p::kDescriptorBytes);
  return {.bytes = 0, .code = MPI_ERR_INTERN};
}

// The descriptor as it lies in a buffer whose type has gaps.
void gather_descriptor(const Landing& landing, p2p::Descriptor& descriptor) {
  if (const layout::LayoutPtr layout = layouts::of(landing.type)) {
    layout::pack(p2p::elements_of(end_of(landing, layout)), {0, p2p::kDescriptorBytes},
                 &descriptor);
    return;
  }
  const std::uint64_t element = datatypes::info(landing.type).size;
  const std::uint64_t elements = (p2p::kDescriptorBytes + element - 1) / element;
  std::vector<std::byte> packed(elements * element);
  send_to_self(landing.buffer, static_cast<MPI_Count>(elements), landing.type, packed.data(),
               static_cast<MPI_Count>(packed.size()), MPI_BYTE);
  std::memcpy(&descriptor, packed.data(), p2p::kDescriptorBytes);
}

}  // namespace

const Landing& Landing::place() const { return bounce == nullptr ? *this : bounce->place; }

void unpack_to(const Landing& place, const std::byte* packed, std::uint64_t bytes) {
  if (place.dense) {
    std::memcpy(place.buffer, packed, bytes);
  } else if (const layout::LayoutPtr layout = layouts::of(place.type)) {
    layout::unpack(p2p::elements_of(end_of(place, layout)), {0, bytes}, packed);
  } else {
    send_to_self(packed, static_cast<MPI_Count>(bytes), MPI_BYTE, place.buffer, place.count,
                 place.type);
  }
}

namespace {

// Into a buffer with gaps: to its places on a belt, else through a packed copy.
void pull_scattered(const p2p::Descriptor& descriptor, p2p::SendSlot& letter,
                    const Landing& landing, std::uint64_t bytes) {
  const layout::LayoutPtr layout = layouts::of(landing.type);
  if (layout != nullptr && config.carrying) {
    return pull(descriptor, letter, end_of(landing, layout), bytes, landing.comm->order);
  }
  const auto packed = std::make_unique_for_overwrite<std::byte[]>(bytes);
  pull(descriptor, letter, end_at(packed.get()), bytes, landing.comm->order);
  unpack_to(landing, packed.get(), bytes);
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
    if (!p2p::opens_descriptor(landing.buffer, config.key)) return std::nullopt;
    std::memcpy(&descriptor, landing.buffer, p2p::kDescriptorBytes);
    return descriptor;
  }
  gather_descriptor(landing, descriptor);
  if (!p2p::opens_descriptor(&descriptor, config.key)) return std::nullopt;
  return descriptor;
}

p2p::SendSlot& letter_of(const p2p::Descriptor& descriptor) {
  return services.area(descriptor.sender).outbox.slots[descriptor.slot];
}

// The state of the letter that a descriptor found in memory belongs to; free if that use of the
// slot is over, or the descriptor is not all there yet.
p2p::SlotState letter_state(const p2p::Descriptor& found) {
  if (found.from_world != 0 || !p2p::is_sealed(found)) return p2p::SlotState::free;
  return letter_of(found).state_of(found.generation);
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
  return fetched_of(landing.shown->bytes.load(std::memory_order_relaxed), landing);
}

// Brings the message whose letter this rank has taken to where its descriptor landed.
Fetched take_over(const p2p::Descriptor& descriptor, const Landing& landing) {
  p2p::SendSlot& letter = letter_of(descriptor);
  const Fetched fetched = fetched_of(descriptor.bytes, landing);
  letters::forget_before(descriptor.sender, letter);
  const bool is_straight = landing.bounce != nullptr && landing.bounce->straight;
  const Landing& to = is_straight ? landing.place() : landing;
  if (to.dense) {
    pull(descriptor, letter, end_at(to.buffer), fetched.bytes, to.comm->order);
  } else {
    pull_scattered(descriptor, letter, to, fetched.bytes);
  }
  if (is_straight) landing.bounce->placed = true;
  return fetched;
}

// The message of a descriptor whose letter is over: it was kept, or there is none.
Fetched fetch_kept(const p2p::Descriptor& found, const Landing& landing) {
  const auto kept = letters::take_kept(found);
  if (!kept) return nothing_behind_it(landing);
  const Fetched fetched = fetched_of(found.bytes, landing);
  if (landing.dense) {
    std::memcpy(landing.buffer, kept->data.get(), fetched.bytes);
  } else {
    unpack_to(landing, kept->data.get(), fetched.bytes);
  }
  return fetched;
}

// The sender has the letter, and may keep it while the library takes a message back for it.
p2p::Mover await_mover(p2p::SendSlot* letter, std::uint64_t generation, const p2p::Landing* shown) {
  p2p::Mover mover = p2p::Mover::unsettled;
  wait::until([&] {
    mover = p2p::who_moves(letter, generation, shown);
    if (mover == p2p::Mover::unsettled) poke_library();
    return mover != p2p::Mover::unsettled;
  });
  return mover;
}

// Who may send a descriptor to a receive with this source.
struct Senders {
  bool here;
  bool elsewhere;
};
Senders senders_to(const Comm& comm, int source) {
  const bool here = (config.reaching || config.carrying) && comm.members.size() > 1;
  const bool elsewhere = config.wiring && !comm.on_one_node;
  if (source == MPI_ANY_SOURCE) return {.here = here, .elsewhere = elsewhere};
  const std::int32_t there = comm.on_node(source);
  return {.here = here && there >= 0 && there != static_cast<std::int32_t>(config.me),
          .elsewhere = elsewhere && comm.is_elsewhere(source)};
}

}  // namespace

Landing without_descriptor(void* buffer, MPI_Count count, MPI_Datatype type) {
  if (count <= 0) return {};
  const datatypes::Info info = datatypes::info(type);
  return {.buffer = buffer,
          .count = count,
          .type = type,
          .capacity = message_bytes(count, info),
          .dense = info.dense};
}

bool awaits_long(const Landing& landing) {
  return landing && !landing.by_wire && landing.capacity >= config.threshold;
}

Landing landing_for(void* buffer, MPI_Count count, MPI_Datatype type, int source, MPI_Comm handle) {
  if (!config.describing || count <= 0) return {};
  Comm* comm = comms::find(handle);
  return comm == nullptr ? Landing{} : landing_on(*comm, buffer, count, type, source);
}

Landing landing_on(Comm& comm, void* buffer, MPI_Count count, MPI_Datatype type, int source) {
  if (!config.describing || count <= 0) return {};
  const datatypes::Info info = datatypes::info(type);
  const std::uint64_t capacity = message_bytes(count, info);
  if (capacity < p2p::kDescriptorBytes || (info.dense && buffer == nullptr)) return {};
  const Senders senders = senders_to(comm, source);
  if (!senders.here && !senders.elsewhere) return {};
  return {.comm = &comm,
          .buffer = buffer,
          .count = count,
          .type = type,
          .capacity = capacity,
          .dense = info.dense,
          .by_wire = !senders.here};
}

void show(Landing& landing) {
  if (landing && landing.dense && !landing.by_wire && config.reaching)
    landing.shown = services.landings.open(landing.buffer, landing.capacity);
}

void hide(Landing& landing) {
  if (landing.shown != nullptr) services.landings.close(landing.shown);
  landing.shown = nullptr;
}

std::optional<p2p::Descriptor> letter_in(const Landing& landing) {
  const auto found = read_descriptor(landing);
  if (!found || letter_state(*found) != p2p::SlotState::posted) return std::nullopt;
  return found;
}

namespace {

// Where the type has a layout.
Coming begin_from_afar(const p2p::Descriptor& found, const Landing& landing,
                       const layout::LayoutPtr& layout) {
  const Fetched fetched = fetched_of(found.bytes, landing);
  const p2p::End to = end_of(landing, layout);
  return {.incoming = wires::begin(found, to, layout, fetched.bytes), .fetched = fetched};
}

// The receive is complete.
Fetched fetch_from_afar(const p2p::Descriptor& found, const Landing& landing) {
  if (!wires::is_new(found)) return nothing_behind_it(landing);
  const layout::LayoutPtr layout = landing.dense ? nullptr : layouts::of(landing.type);
  if (landing.dense || layout != nullptr) {
    const Coming coming = begin_from_afar(found, landing, layout);
    wires::finish(*coming.incoming);
    return coming.fetched;
  }
  const Fetched fetched = fetched_of(found.bytes, landing);
  const auto packed = std::make_unique_for_overwrite<std::byte[]>(fetched.bytes);
  wires::finish(*wires::begin(found, end_at(packed.get()), nullptr, fetched.bytes));
  unpack_to(landing, packed.get(), fetched.bytes);
  return fetched;
}

}  // namespace

std::optional<Coming> coming_to(const Landing& landing) {
  if (!config.wiring) return std::nullopt;
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
    switch (await_mover(letter, ours ? found->generation : 0, landing.shown)) {
      case p2p::Mover::receiver:
        return take_over(*found, landing);
      case p2p::Mover::sender:
        if (await_delivery(*landing.shown)) return delivered(landing);
        break;
      case p2p::Mover::nobody:
        if (!found || !p2p::is_sealed(*found)) return std::nullopt;
        return fetch_kept(*found, landing);
      case p2p::Mover::unsettled:
        break;
    }
  }
}

int settle(const Landing& landing, MPI_Status* status) {
  const auto fetched = fetch(landing, *status);
  if (!fetched) return MPI_SUCCESS;
  set_bytes(status, fetched->bytes);
  return fetched->code;
}

}  // namespace mh::mpi
