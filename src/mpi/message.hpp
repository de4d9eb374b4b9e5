// SPDX-License-Identifier: BSD-3-Clause
// Large messages inside a node: what a send leaves behind and what a receive does when a descriptor
// lands in its buffer. The wrappers of chapter 3 (send.cpp, receive.cpp, complete.cpp, probe.cpp)
// are written with these.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "mpi/comms.hpp"
#include "mpi/datatypes.hpp"
#include "mpi/next.hpp"
#include "p2p/descriptor.hpp"
#include "p2p/landing.hpp"
#include "wait/wait.hpp"

namespace mh::mpi {

namespace wires {
class Incoming;
}

// ---- Either side
// ------------------------------------------------------------------------------------

// Bytes of `count` elements, 0 for a negative count (the library reports that).
template <class Count>
std::uint64_t message_bytes(Count count, const datatypes::Info& info) {
  return count > 0 ? static_cast<std::uint64_t>(count) * info.size : 0;
}

// A status of our own where the caller gave none, so that we can look at what was received.
class StatusOrOwn {
 public:
  explicit StatusOrOwn(MPI_Status* users) : users_(users == MPI_STATUS_IGNORE ? nullptr : users) {}
  MPI_Status* get() { return users_ != nullptr ? users_ : &own_; }

 private:
  MPI_Status* users_;
  MPI_Status own_{};
};

// Where a message came from, as its receiver sees it.
struct Envelope {
  int source;
  int tag;
};

inline void set_envelope(MPI_Status* status, const Envelope& envelope) {
  status->MPI_SOURCE = envelope.source;
  status->MPI_TAG = envelope.tag;
}

inline void set_bytes(MPI_Status* status, std::uint64_t bytes) {
  real.Status_set_elements_x(status, MPI_BYTE, static_cast<MPI_Count>(bytes));
}

// Waits for one active request with the wait loop; as MPI_Wait otherwise.
inline int wait_request(MPI_Request* request, MPI_Status* status, int looks = wait::kFewLooks) {
  int flag = 0;
  int code = MPI_SUCCESS;
  wait::until(
      [&] {
        code = next.Test(request, &flag, status);
        return flag != 0 || code != MPI_SUCCESS;
      },
      looks);
  return code;
}

// ---- Sending
// ----------------------------------------------------------------------------------------

struct Outgoing {
  const void* buffer;
  std::uint64_t bytes;
  int dest;
  int tag;
  MPI_Comm comm;
  layout::LayoutPtr layout{};  // of an element, where the data is not dense; by may_describe()
  std::uint64_t count = 0;     // of elements, likewise
};

// A posted letter: the slot in the outbox whose descriptor is to be sent.
using Slot = std::uint32_t;

// How a send learns that its buffer is free: a flag in the segment (a blocking call looks at it),
// or a completion message (its receive is the user's request).
enum class Completion : std::uint8_t { flag, message };

// Whether this send could be described at all: helping is on, the receiver is another rank of this
// node, the data is long enough, and dense or of a known layout.
bool may_describe(Outgoing& message, MPI_Datatype type, const datatypes::Info& info);

// Tags of completion messages of persistent sends: [kPersistentTags, kLastTag].
inline constexpr int kPersistentTags = 8192;
inline constexpr int kLastTag = 32767;  // every library allows it

// Takes a slot for the message, if there is a free one.
std::optional<Slot> post(const Outgoing& message, Completion completion);
// The completion message of a persistent send comes with its own tag and completes `request`.
std::optional<Slot> post_with_fin_tag(const Outgoing& message, std::uint32_t fin_tag,
                                      MPI_Request request);

// Sends the slot's descriptor on the user's communicator. On failure the slot is given back.
int send_descriptor(Slot slot, const Outgoing& message);

// The receive of the completion message: the user's request of a described MPI_Isend.
int receive_completion(Slot slot, MPI_Request* request);

// A blocking send waits for the receiver to take the bytes, copying with it; gives the slot back.
void await_taken(Slot slot);

// Gives back slots whose messages have arrived.
void reap_sent();

// MPI_Cancel of a described send's request: true if `request` is one (and its fate is settled:
// either it completes as cancelled or it was matched and completes as usual).
bool cancel_described(MPI_Request request);

// Notes that an ordinary message of just a descriptor's size goes to `dest`: from then on a probe
// there cannot tell by its size what it sees (see probe.cpp).
void note_short(int dest, MPI_Comm comm);
template <class Count>
void note_short(Count count, MPI_Datatype type, int dest, MPI_Comm comm) {
  if (message_bytes(count, datatypes::info(type)) == p2p::kDescriptorBytes) note_short(dest, comm);
}

// Sends again, through the library, what receivers could not reach. Part of the wait loop.
void resend_wanted();

// The wait loop's turn for messages this rank sends: a chunk of one that its receiver is copying,
// or the delivery of one whose receiver does not look. True if data was moved.
bool push_sent();

// ---- Receiving
// --------------------------------------------------------------------------------------

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

  explicit operator bool() const { return comm != nullptr; }
};

Landing landing_for(void* buffer, MPI_Count count, MPI_Datatype type, int source, MPI_Comm comm);

// A started receive: lets its sender find the landing. Only dense ones can be delivered to.
void show(Landing& landing);
void hide(Landing& landing);

// What a completed receive brought, if it was a described message.
struct Fetched {
  std::uint64_t bytes;  // that are in place
  bool truncated;       // the message was longer
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

// As fetch(), and corrects the status. Returns MPI_SUCCESS or MPI_ERR_TRUNCATE (not yet given to an
// error handler).
int settle(const Landing& landing, MPI_Status* status);

// The descriptor that lies in the buffer of a receive under way and whose letter waits to be taken.
// Found by a look into memory; the library has completed the receive, or is about to.
std::optional<p2p::Descriptor> letter_in(const Landing& landing);

// A receive too small for a descriptor failed with MPI_ERR_TRUNCATE: if it was a descriptor that
// did not fit, the sender gets its buffer back.
void truncated(Comm* comm, const MPI_Status& status);

bool is_truncation(int code);

// Gives back the buffer of a letter to this rank that will not be read.
void release_unread(std::uint32_t sender, Slot slot, std::uint64_t generation);

// Gives `code` to the error handler of `comm`, as the library would have done.
int raise(MPI_Comm comm, int code);

}  // namespace mh::mpi
