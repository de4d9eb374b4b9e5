// SPDX-License-Identifier: BSD-3-Clause
// Large messages, the receiver's side: what a receive does when a descriptor lands in its buffer.
// The wrappers of receives, probes and completions are written with these.
//
// Any thread; a ReceiveTarget is its receive's alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "mpi/protocol/message.hpp"
#include "mpi/protocol/receive_target.hpp"
#include "p2p/descriptor.hpp"

namespace mh::mpi {

namespace internode {
class Incoming;
}
// What a completed receive brought, if it was a described message.
struct Fetched {
  std::uint64_t bytes;  // that are in place
  // MPI_SUCCESS, MPI_ERR_TRUNCATE if the message was longer, or MPI_ERR_INTERN if it cannot be
  // had.
  int code;
};

// The receive has completed with `status`. If a descriptor landed: gets the message, by fetching it
// or because it was pushed.
std::optional<Fetched> fetch(const ReceiveTarget& target, const MPI_Status& status);
// As before, where a send descriptor was seen in the buffer (descriptor_in) and the library was not
// asked.
std::optional<Fetched> fetch(const ReceiveTarget& target);

// A message of another node that has begun to come in.
struct Coming {
  std::shared_ptr<internode::Incoming> incoming;
  Fetched fetched;  // once it is all there
};
// If the descriptor of one lies in the buffer of a receive under way: begins with it. (A library
// that has completed the receive is not needed; where the type has no layout nothing is begun.)
std::optional<Coming> coming_to(const ReceiveTarget& target);

// As fetch(), and corrects the status. Returns the error, not yet given to an error handler.
int settle(const ReceiveTarget& target, MPI_Status* status);

// The descriptor that lies in the buffer of a receive under way and whose send descriptor waits to
// be taken. Found by a look into memory; the library has completed the receive, or is about to.
std::optional<p2p::Descriptor> descriptor_in(const ReceiveTarget& target);

}  // namespace mh::mpi
