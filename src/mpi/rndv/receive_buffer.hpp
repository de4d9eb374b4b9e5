// SPDX-License-Identifier: BSD-3-Clause
// The buffer of a receive, in which an RTS header may land, and to which the message is copied.
//
// A ReceiveBuffer is used by the thread that started the receive, or has pinned its request.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/compat/message.hpp"
#include "mpi/datatype/layouts.hpp"
#include "mpi/job/comms.hpp"
#include "p2p/end.hpp"
#include "p2p/posted_receives.hpp"

namespace mh::mpi::rndv {

struct ReceiveBuffer {
  Comm* comm = nullptr;  // null if no RTS header can land in the buffer
  void* address = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type{};
  std::uint64_t capacity = 0;  // bytes of the packed stream
  bool contiguous = false;
  bool from_other_nodes_only = false;  // no rank of this node matches the receive's source

  explicit operator bool() const { return comm != nullptr; }
};

// The buffer of a receive with these arguments. Empty if no RTS header can land in the buffer,
// because no other rank matches the source or the buffer is shorter than a header.
ReceiveBuffer receive_buffer(void* address, MPI_Count count, MPI_Datatype type, int source,
                             MPI_Comm comm);
ReceiveBuffer receive_buffer(Comm& comm, void* address, MPI_Count count, MPI_Datatype type,
                             int source);

// True if a rendezvous message from a rank of this node may arrive in the buffer.
bool may_receive_rendezvous(const ReceiveBuffer& buffer);

// The buffer as one end of a copy. `layout` is that of its datatype; null: contiguous data.
p2p::End end_of(const ReceiveBuffer& buffer, const layout::LayoutPtr& layout);

// Unpacks the first `bytes` bytes of a packed stream to the buffer.
void unpack_to(const ReceiveBuffer& buffer, const std::byte* packed, std::uint64_t bytes);

}  // namespace mh::mpi::rndv
