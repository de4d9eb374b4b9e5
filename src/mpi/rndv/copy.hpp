// SPDX-License-Identifier: BSD-3-Clause
// How the data of a rendezvous message is copied once a rank has claimed the send: by several
// ranks, by a pipeline, or through the library where memory could not be read.
//
// Any thread. A call returns when its bytes are in place.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"
#include "mpi/job/services.hpp"
#include "p2p/end.hpp"
#include "p2p/rts_header.hpp"
#include "p2p/send_table.hpp"
#include "steal/job.hpp"

namespace mh::mpi::rndv {

inline p2p::End end_at(const void* address) { return {.base = layout::address_of(address)}; }

// Copies as a job of this rank, with every rank that is free. The sender of `send`, unless null,
// claims chunks too. False if something could not be read or written.
bool copy_shared(const memory::View& to, const memory::View& from, std::uint64_t bytes,
                 steal::CopyOrder order, p2p::SendSlot* send);

// A message whose send this rank has claimed, and where its first `bytes` go.
struct ClaimedMessage {
  std::uint32_t sender;  // rank on the node
  std::uint32_t slot;    // of the sender's send table
  p2p::End to;
  std::uint64_t bytes;
  steal::CopyOrder order;

  [[nodiscard]] p2p::SendSlot& send() const { return services.area(sender).send_table.slots[slot]; }
};
// Copies the message. The sender is not released yet.
void copy_claimed(const ClaimedMessage& message);

// The sender has its buffer back, and gets its FIN.
void release_sender(p2p::SendSlot& send, std::uint32_t sender);

// Sends through the library what a receiver could not reach. The buffer stays in use until the
// receiver says so.
void send_by_library(std::uint32_t slot, const p2p::SendSlot& send);

// A message from this rank to itself: how the library moves data between layouts. Unlike MPI_Pack
// it takes MPI_BOTTOM in every library, and a last element that is only partly there.
void send_to_self(const void* from, MPI_Count count, MPI_Datatype type, void* to, MPI_Count room,
                  MPI_Datatype to_type);

}  // namespace mh::mpi::rndv
