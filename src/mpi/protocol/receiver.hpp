// SPDX-License-Identifier: BSD-3-Clause
// Large messages, the receiver's side: what a receive does when a descriptor lands in its buffer.
// The wrappers of receives, probes and completions are written with these.
//
// Any thread; a ReceiveTarget is its receive's alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "mpi/job/comms.hpp"
#include "mpi/protocol/message.hpp"
#include "p2p/descriptor.hpp"
#include "p2p/posted_receives.hpp"

namespace mh::mpi {

namespace internode {
class Incoming;
}
struct Bounce;

// Where a descriptor may land. `comm` is null if none can (then the receive is an ordinary one).
struct ReceiveTarget {
  Comm* comm = nullptr;
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type{};
  std::uint64_t capacity = 0;
  bool contiguous = false;
  bool by_internode = false;  // only a rank of another node can send here
  bool silent = false;        // the library does not say in the status what came
  p2p::PostedReceive* shown =
      nullptr;  // on the posted-receive table, while a started receive is under way
  // The buffer is this one, from where the message comes to its place (overlaps.hpp). Also without
  // a communicator.
  std::shared_ptr<Bounce> bounce{};

  explicit operator bool() const { return comm != nullptr; }
  // The buffer of the program.
  [[nodiscard]] const ReceiveTarget& place() const;
};
// A buffer in which no descriptor can land.
ReceiveTarget without_descriptor(void* buffer, MPI_Count count, MPI_Datatype type);

// What comes here may be a message of this node that is long enough to be described.
bool awaits_long(const ReceiveTarget& target);

ReceiveTarget target_for(void* buffer, MPI_Count count, MPI_Datatype type, int source,
                         MPI_Comm comm);
ReceiveTarget target_on(Comm& comm, void* buffer, MPI_Count count, MPI_Datatype type, int source);

// A started receive: lets its sender find the target. Only contiguous ones can be pushed to.
void show(ReceiveTarget& target);
void hide(ReceiveTarget& target);

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

// Bytes of the packed stream to the program's buffer.
void unpack_to(const ReceiveTarget& place, const std::byte* packed, std::uint64_t bytes);

// The descriptor that lies in the buffer of a receive under way and whose send descriptor waits to
// be taken. Found by a look into memory; the library has completed the receive, or is about to.
std::optional<p2p::Descriptor> descriptor_in(const ReceiveTarget& target);

}  // namespace mh::mpi
