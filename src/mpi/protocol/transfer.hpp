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
inline memory::View view_of(std::uint64_t address, std::uint32_t rank) {
  return {.address = address, .pid = services.node->record(rank).pid, .rank = rank};
}
inline memory::View view_of(const void* address, std::uint32_t rank) {
  return view_of(reinterpret_cast<std::uint64_t>(address), rank);
}

inline p2p::End end_at(const void* address) { return {.base = layout::address_of(address)}; }

// Runs a job of this rank with every hand that is free. With `send descriptor`, its sender is one
// of them. False if something could not be read or written.
bool move_by_many(const memory::View& to, const memory::View& from, std::uint64_t bytes,
                  steal::CopyOrder order, p2p::SendSlot* send);

// A message whose send descriptor this rank has taken, and where its first `bytes` go.
struct Taken {
  std::uint32_t sender;  // rank on the node
  std::uint32_t slot;    // of its send queue
  p2p::End to;
  std::uint64_t bytes;
  steal::CopyOrder order;

  [[nodiscard]] p2p::SendSlot& send() const { return services.area(sender).send_queue.slots[slot]; }
};
// Moves it there. The sender is not released yet.
void bring(const Taken& message);

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
