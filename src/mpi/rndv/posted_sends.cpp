// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/posted_sends.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>

#include "layout/pack.hpp"
#include "mpi/compat/self_message.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"

namespace mh::mpi::rndv {
namespace {

// Copies the first bytes of the message in a receive buffer with gaps to `header`. They are an RTS
// header if one has landed there. False if there is no memory.
bool gather_rts(const ReceiveBuffer& buffer, p2p::RtsHeader& header) {
  if (const layout::LayoutPtr layout = layouts::of(buffer.type)) {
    layout::pack_range(end_of(buffer, layout), {0, p2p::kRtsBytes}, &header);
    return true;
  }
  const std::uint64_t element = datatypes::info(buffer.type).size;
  const std::uint64_t elements = (p2p::kRtsBytes + element - 1) / element;
  const std::uint64_t bytes = elements * element;
  const std::unique_ptr<std::byte[]> packed(new (std::nothrow) std::byte[bytes]);
  if (packed == nullptr) return false;
  send_to_self(buffer.address, static_cast<MPI_Count>(elements), buffer.type, packed.get(),
               static_cast<MPI_Count>(bytes), MPI_BYTE);
  std::memcpy(&header, packed.get(), p2p::kRtsBytes);
  return true;
}

void add_posted(std::uint32_t sender, std::vector<PostedSend>& found) {
  for (std::uint32_t slot = 0; slot < p2p::SharedSendTable::kSlots; ++slot) {
    const auto fields = services.area(sender).send_table.slots[slot].posted();
    if (fields && fields->to == config.me)
      found.push_back({.sender = sender, .slot = slot, .fields = *fields});
  }
}

constexpr std::uint64_t bit_of(std::uint64_t communicator, int tag) {
  return 1ULL << bucket_of(communicator, tag);
}

}  // namespace

p2p::SendSlot& slot_of(const p2p::RtsHeader& header) {
  return services.area(header.sender).send_table.slots[header.slot];
}

PostedSend send_of(const p2p::RtsHeader& header) {
  return {.sender = header.sender,
          .slot = header.slot,
          .fields = {.generation = header.generation, .bytes = header.bytes, .to = config.me}};
}

std::optional<p2p::RtsHeader> read_rts(const ReceiveBuffer& buffer) {
  if (!buffer) return std::nullopt;
  p2p::RtsHeader header;
  if (buffer.contiguous) {
    if (!p2p::opens_rts(buffer.address, config.key)) return std::nullopt;
    std::memcpy(&header, buffer.address, p2p::kRtsBytes);
  } else if (!gather_rts(buffer, header)) {
    return std::nullopt;
  }
  const bool is_whole = p2p::opens_rts(&header, config.key) && p2p::is_sealed(header);
  return is_whole ? std::optional(header) : std::nullopt;
}

std::vector<PostedSend> posted_sends(const SendEnvelope& envelope) {
  std::vector<PostedSend> found;
  add_posted(envelope.sender, found);
  std::erase_if(found, [&](const PostedSend& send) { return !send.has(envelope); });
  return found;
}

std::vector<PostedSend> posted_sends() {
  std::vector<PostedSend> found;
  for (std::uint32_t sender = 0; sender < config.ranks; ++sender) {
    if (sender != config.me) add_posted(sender, found);
  }
  return found;
}

bool any_taken_by_sender(const SendEnvelope& envelope) {
  const auto& [sender, communicator, tag] = envelope;
  for (const p2p::SendSlot& slot : services.area(sender).send_table.slots) {
    if (slot.state() != p2p::SlotState::taken) continue;
    const auto fields = slot.fields_of(slot.generation());
    if (fields && fields->to == config.me && fields->communicator == communicator &&
        fields->tag == tag)
      return true;
  }
  return false;
}

bool may_be_unexpected(const PostedSend& send) {
  const Comm* comm = comms::find_key(send.fields.communicator);
  if (comm == nullptr) return true;
  const auto from = std::ranges::find(comm->members, send.sender, &Comm::Member::node_rank);
  if (from == comm->members.end()) return true;
  int flag = 0;
  const int code = real.Iprobe(from->rank, send.fields.tag, comm->handle, &flag, MPI_STATUS_IGNORE);
  return code != MPI_SUCCESS || flag != 0;
}

void note_rts_sized_send(std::uint64_t bytes, int dest, int tag, MPI_Comm handle) {
  if (bytes != p2p::kRtsBytes || !config.rendezvous) return;
  const Comm* comm = comms::find(handle);
  const std::int32_t receiver = comm == nullptr ? Comm::kElsewhere : comm->on_node(dest);
  if (receiver < 0) return;
  std::atomic<std::uint64_t>& noted = services.own_area().rts_sized_sends[receiver];
  // relaxed: the bit notes that a message as long as an RTS header goes to the receiver with this
  // tag. The receiver reads the bit after it has received the message, and the MPI library makes
  // the sender's earlier writes visible by then.
  if (const std::uint64_t bit = bit_of(comm->key, tag);
      (noted.load(std::memory_order_relaxed) & bit) == 0) {
    noted.fetch_or(bit, std::memory_order_relaxed);
  }
}

bool may_send_rts_sized(const SendEnvelope& envelope) {
  const auto& noted = services.area(envelope.sender).rts_sized_sends[config.me];
  return (noted.load(std::memory_order_relaxed) & bit_of(envelope.communicator, envelope.tag)) != 0;
}

bool has_rts_size(const MPI_Status& status) {
  int bytes = 0;
  return real.Get_count(&status, MPI_BYTE, &bytes) == MPI_SUCCESS &&
         bytes == static_cast<int>(p2p::kRtsBytes);
}

}  // namespace mh::mpi::rndv
