// SPDX-License-Identifier: BSD-3-Clause
// How the bytes of a message move once its receiver, or its sender, has the send descriptor: by
// many hands, on a pipeline, or through the library a second time where memory could not be read.
// Knows nothing of the calls that brought send descriptor and buffer together (sender.hpp,
// posted_receives.hpp).
//
// Any thread of the rank; a call returns when its bytes are in place.
#pragma once

#include <cstdint>

#include "mpi/abi.hpp"
#include "mpi/job/services.hpp"
#include "p2p/descriptor.hpp"
#include "p2p/end.hpp"
#include "p2p/send_queue.hpp"
#include "steal/job.hpp"

namespace mh::mpi {

// Memory of a rank of this node.
inline memory::View view_of(const void* address, std::uint32_t rank) {
  return {.address = reinterpret_cast<std::uint64_t>(address),
          .pid = services.node->record(rank).pid,
          .rank = rank};
}

inline p2p::End end_at(const void* address) { return {.base = layout::address_of(address)}; }

// Runs a job of this rank with every hand that is free. With `send descriptor`, its sender is one
// of them. False if something could not be read or written.
bool move_by_many(const memory::View& to, const memory::View& from, std::uint64_t bytes,
                  steal::Order order, p2p::SendSlot* send);

// Moves the first `bytes` of a message whose send descriptor this rank has taken to `to`.
void bring(const p2p::Descriptor& descriptor, p2p::SendSlot& send, const p2p::End& to,
           std::uint64_t bytes, steal::Order order);
// As bring(), and releases the sender.
void pull(const p2p::Descriptor& descriptor, p2p::SendSlot& send, const p2p::End& to,
          std::uint64_t bytes, steal::Order order);

// To that rank of the node, or to this one: what it waits for with this tag is complete.
void say_complete(std::uint32_t rank, int tag);

// The sender has its buffer back, and is told so.
void release_sender(p2p::SendSlot& send, std::uint32_t sender);

// Sends what a receiver could not reach through the library. The buffer stays in use until the
// receiver says so.
void send_again(std::uint32_t slot, const p2p::SendSlot& send);

// A message from this rank to itself: how the library moves data between layouts. Unlike MPI_Pack
// it takes MPI_BOTTOM in every library, and a last element that is only partly there.
void send_to_self(const void* from, MPI_Count count, MPI_Datatype type, void* to, MPI_Count room,
                  MPI_Datatype to_type);

}  // namespace mh::mpi
