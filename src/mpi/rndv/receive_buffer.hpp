// SPDX-License-Identifier: BSD-3-Clause
// The buffer of a receive, in which an RTS header may land, and to which the message is copied.
//
// A ReceiveBuffer is used by the thread that started the receive, or that has pinned its request
// (receive_requests.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

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

// The buffer of a receive with these arguments. Empty if no RTS header can land in the buffer: no
// rank that sends by rendezvous matches the source, or the buffer is shorter than a header.
ReceiveBuffer receive_buffer(void* address, MPI_Count count, MPI_Datatype type, int source,
                             MPI_Comm comm);
ReceiveBuffer receive_buffer(Comm& comm, void* address, MPI_Count count, MPI_Datatype type,
                             int source);

// The outcome of a receive: the bytes in its buffer, and the code for the program.
struct Delivery {
  std::uint64_t bytes;
  // MPI_SUCCESS; MPI_ERR_TRUNCATE if the message was longer than the buffer; MPI_ERR_NO_MEM if
  // there was no memory to unpack the message; MPI_ERR_INTERN if the message is lost.
  int code;
};
// The outcome of the receive of a message of `bytes` bytes, if it is copied to the buffer as far as
// it fits.
inline Delivery delivery_of(std::uint64_t bytes, const ReceiveBuffer& buffer) {
  return {.bytes = std::min(bytes, buffer.capacity),
          .code = bytes > buffer.capacity ? MPI_ERR_TRUNCATE : MPI_SUCCESS};
}
inline constexpr Delivery kNoMemory{.bytes = 0, .code = MPI_ERR_NO_MEM};

// True if a rendezvous message from a rank of this node may arrive in the buffer: a rank of this
// node matches the receive, and the buffer is long enough.
bool may_receive_rendezvous(const ReceiveBuffer& buffer);

// The buffer as one end of a copy. `layout` is the layout of its datatype, or null for contiguous
// data; the caller keeps it alive during the copy.
p2p::End end_of(const ReceiveBuffer& buffer, const layout::LayoutPtr& layout);

// Unpacks the first `bytes` bytes of a packed stream to the buffer.
void unpack_to(const ReceiveBuffer& buffer, const std::byte* packed, std::uint64_t bytes);

// The destination of a copy of `bytes` bytes: the receive buffer, or memory for the packed stream
// if only the MPI library can unpack the datatype. In the second case unpack() moves the stream to
// the receive buffer after the copy.
class CopyTarget {
 public:
  CopyTarget(const ReceiveBuffer& buffer, std::uint64_t bytes)
      : buffer_(buffer),
        bytes_(bytes),
        layout_(buffer.contiguous ? nullptr : layouts::of(buffer.type)),
        needs_packed_(!buffer.contiguous && layout_ == nullptr),
        packed_(needs_packed_ ? new (std::nothrow) std::byte[bytes] : nullptr) {}

  [[nodiscard]] bool lacks_memory() const { return needs_packed_ && packed_ == nullptr; }
  [[nodiscard]] const layout::LayoutPtr& layout() const { return layout_; }
  [[nodiscard]] p2p::End end() const {
    return needs_packed_ ? p2p::End{.base = layout::address_of(packed_.get())}
                         : end_of(buffer_, layout_);
  }
  void unpack() const {
    if (packed_ != nullptr) unpack_to(buffer_, packed_.get(), bytes_);
  }

 private:
  const ReceiveBuffer& buffer_;
  std::uint64_t bytes_;
  layout::LayoutPtr layout_;
  bool needs_packed_;
  std::unique_ptr<std::byte[]> packed_;
};

}  // namespace mh::mpi::rndv
