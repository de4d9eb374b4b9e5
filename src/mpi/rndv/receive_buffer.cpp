// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/receive_buffer.hpp"

#include "layout/pack.hpp"
#include "mpi/compat/self_message.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "p2p/rts_header.hpp"

namespace mh::mpi::rndv {
namespace {

// Tells whether ranks that can send an RTS header to a receive from `source` are on this node, and
// whether they are on other nodes.
struct SenderNodes {
  bool this_node;
  bool other_nodes;
};
SenderNodes sender_nodes(const Comm& comm, int source) {
  const bool here =
      (config.single_copy || config.pipelines || config.heaps_mapped) && comm.members.size() > 1;
  const bool elsewhere = config.internode && !comm.on_one_node;
  if (source == MPI_ANY_SOURCE) return {.this_node = here, .other_nodes = elsewhere};
  const std::int32_t sender = comm.on_node(source);
  return {.this_node = here && sender >= 0 && sender != static_cast<std::int32_t>(config.me),
          .other_nodes = elsewhere && comm.is_elsewhere(source)};
}

}  // namespace

ReceiveBuffer receive_buffer(void* address, MPI_Count count, MPI_Datatype type, int source,
                             MPI_Comm handle) {
  if (!config.rendezvous || count <= 0) return {};
  Comm* comm = comms::find(handle);
  return comm == nullptr ? ReceiveBuffer{} : receive_buffer(*comm, address, count, type, source);
}

ReceiveBuffer receive_buffer(Comm& comm, void* address, MPI_Count count, MPI_Datatype type,
                             int source) {
  if (!config.rendezvous || count <= 0) return {};
  const datatypes::Info info = datatypes::info(type);
  const std::uint64_t capacity = message_bytes(count, info);
  if (capacity < p2p::kRtsBytes || (info.contiguous && address == nullptr)) return {};
  const SenderNodes nodes = sender_nodes(comm, source);
  if (!nodes.this_node && !nodes.other_nodes) return {};
  return {.comm = &comm,
          .address = address,
          .count = count,
          .type = type,
          .capacity = capacity,
          .contiguous = info.contiguous,
          .from_other_nodes_only = !nodes.this_node};
}

bool may_receive_rendezvous(const ReceiveBuffer& buffer) {
  return buffer && !buffer.from_other_nodes_only && buffer.capacity >= config.least_threshold;
}

p2p::End end_of(const ReceiveBuffer& buffer, const layout::LayoutPtr& layout) {
  return {.layout = layout.get(),
          .count = static_cast<std::uint64_t>(buffer.count),
          .base = layout::address_of(buffer.address)};
}

void unpack_to(const ReceiveBuffer& buffer, const std::byte* packed, std::uint64_t bytes) {
  const layout::LayoutPtr layout = buffer.contiguous ? nullptr : layouts::of(buffer.type);
  if (buffer.contiguous || layout != nullptr) {
    p2p::unpack(end_of(buffer, layout), {0, bytes}, packed);
  } else {
    send_to_self(packed, static_cast<MPI_Count>(bytes), MPI_BYTE, buffer.address, buffer.count,
                 buffer.type);
  }
}

}  // namespace mh::mpi::rndv
