// SPDX-License-Identifier: BSD-3-Clause
// Large messages, the receiver's side: what a receive does when a descriptor lands in its buffer.
// The wrappers of receives, probes and completions are written with these.
//
// Any thread; a Landing is its receive's alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "mpi/job/comms.hpp"
#include "mpi/protocol/message.hpp"
#include "p2p/descriptor.hpp"
#include "p2p/landing.hpp"

namespace mh::mpi {

namespace wires {
class Incoming;
}
struct Bounce;

// Where a descriptor may land. `comm` is null if none can (then the receive is an ordinary one).
struct Landing {
  Comm* comm = nullptr;
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type{};
  std::uint64_t capacity = 0;
  bool dense = false;
  bool by_wire = false;           // only a rank of another node can send here
  bool silent = false;            // the library does not say in the status what came
  p2p::Landing* shown = nullptr;  // on the landing board, while a started receive is under way
  // The buffer is this one, from where the message comes to its place (overlaps.hpp). Also without
  // a communicator.
  std::shared_ptr<Bounce> bounce{};

  explicit operator bool() const { return comm != nullptr; }
  // The buffer of the program.
  [[nodiscard]] const Landing& place() const;
};
// A buffer in which no descriptor can land.
Landing without_descriptor(void* buffer, MPI_Count count, MPI_Datatype type);

// What comes here may be a message of this node that is long enough to be described.
bool awaits_long(const Landing& landing);

Landing landing_for(void* buffer, MPI_Count count, MPI_Datatype type, int source, MPI_Comm comm);
Landing landing_on(Comm& comm, void* buffer, MPI_Count count, MPI_Datatype type, int source);

// A started receive: lets its sender find the landing. Only dense ones can be delivered to.
void show(Landing& landing);
void hide(Landing& landing);

// What a completed receive brought, if it was a described message.
struct Fetched {
  std::uint64_t bytes;  // that are in place
  // MPI_SUCCESS, MPI_ERR_TRUNCATE if the message was longer, or MPI_ERR_INTERN if it cannot be
  // had.
  int code;
};

// The receive has completed with `status`. If a descriptor landed: gets the message, by fetching it
// or because it was delivered.
std::optional<Fetched> fetch(const Landing& landing, const MPI_Status& status);
// As before, where a letter was seen in the buffer (letter_in) and the library was not asked.
std::optional<Fetched> fetch(const Landing& landing);

// A message of another node that has begun to come in.
struct Coming {
  std::shared_ptr<wires::Incoming> incoming;
  Fetched fetched;  // once it is all there
};
// If the descriptor of one lies in the buffer of a receive under way: begins with it. (A library
// that has completed the receive is not needed; where the type has no layout nothing is begun.)
std::optional<Coming> coming_to(const Landing& landing);

// As fetch(), and corrects the status. Returns the error, not yet given to an error handler.
int settle(const Landing& landing, MPI_Status* status);

// Bytes of the packed stream to the program's buffer.
void unpack_to(const Landing& place, const std::byte* packed, std::uint64_t bytes);

// The descriptor that lies in the buffer of a receive under way and whose letter waits to be taken.
// Found by a look into memory; the library has completed the receive, or is about to.
std::optional<p2p::Descriptor> letter_in(const Landing& landing);

}  // namespace mh::mpi
