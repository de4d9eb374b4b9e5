// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/receive_target.hpp"

#include "layout/pack.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/services.hpp"
#include "mpi/protocol/transfer.hpp"
#include "p2p/descriptor.hpp"

namespace mh::mpi {
namespace {

// Who may send a descriptor to a receive with this source.
struct Senders {
  bool here;
  bool elsewhere;
};
Senders senders_to(const Comm& comm, int source) {
  const bool here =
      (config.reaching || config.pipelining || config.mapping) && comm.members.size() > 1;
  const bool elsewhere = config.internode && !comm.on_one_node;
  if (source == MPI_ANY_SOURCE) return {.here = here, .elsewhere = elsewhere};
  const std::int32_t there = comm.on_node(source);
  return {.here = here && there >= 0 && there != static_cast<std::int32_t>(config.me),
          .elsewhere = elsewhere && comm.is_elsewhere(source)};
}

}  // namespace

p2p::End end_of(const ReceiveTarget& target, const layout::LayoutPtr& layout) {
  return {.layout = layout.get(),
          .count = static_cast<std::uint64_t>(target.count),
          .base = layout::address_of(target.buffer)};
}

const ReceiveTarget& ReceiveTarget::place() const {
  return bounce == nullptr ? *this : bounce->place;
}

void unpack_to(const ReceiveTarget& place, const std::byte* packed, std::uint64_t bytes) {
  const layout::LayoutPtr layout = place.contiguous ? nullptr : layouts::of(place.type);
  if (place.contiguous || layout != nullptr) {
    p2p::unpack(end_of(place, layout), {0, bytes}, packed);
  } else {
    send_to_self(packed, static_cast<MPI_Count>(bytes), MPI_BYTE, place.buffer, place.count,
                 place.type);
  }
}

ReceiveTarget without_descriptor(void* buffer, MPI_Count count, MPI_Datatype type) {
  if (count <= 0) return {};
  const datatypes::Info info = datatypes::info(type);
  return {.buffer = buffer,
          .count = count,
          .type = type,
          .capacity = message_bytes(count, info),
          .contiguous = info.contiguous};
}

bool awaits_long(const ReceiveTarget& target) {
  return target && !target.by_internode && target.capacity >= config.threshold;
}

ReceiveTarget target_for(void* buffer, MPI_Count count, MPI_Datatype type, int source,
                         MPI_Comm handle) {
  if (!config.describing || count <= 0) return {};
  Comm* comm = comms::find(handle);
  return comm == nullptr ? ReceiveTarget{} : target_on(*comm, buffer, count, type, source);
}

ReceiveTarget target_on(Comm& comm, void* buffer, MPI_Count count, MPI_Datatype type, int source) {
  if (!config.describing || count <= 0) return {};
  const datatypes::Info info = datatypes::info(type);
  const std::uint64_t capacity = message_bytes(count, info);
  if (capacity < p2p::kDescriptorBytes || (info.contiguous && buffer == nullptr)) return {};
  const Senders senders = senders_to(comm, source);
  if (!senders.here && !senders.elsewhere) return {};
  return {.comm = &comm,
          .buffer = buffer,
          .count = count,
          .type = type,
          .capacity = capacity,
          .contiguous = info.contiguous,
          .by_internode = !senders.here};
}

void show(ReceiveTarget& target) {
  if (!target || !target.contiguous || target.by_internode) return;
  if (config.reaching || (config.mapping && heaps::hold(target.buffer, target.capacity)))
    target.shown = services.posted_receives.open(target.buffer, target.capacity);
}

void hide(ReceiveTarget& target) {
  if (target.shown != nullptr) services.posted_receives.close(target.shown);
  target.shown = nullptr;
}

}  // namespace mh::mpi
