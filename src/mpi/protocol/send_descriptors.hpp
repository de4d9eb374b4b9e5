// SPDX-License-Identifier: BSD-3-Clause
// Send descriptors to this rank, as far as a look into the send queues of the node tells: which are
// posted and matched with nothing yet, and which may have lost their descriptor.
//
// Words: a send descriptor is *matched* once its descriptor lies in the buffer of a receive, or a
// probe has taken it out of the library. It is *doubtful* after a receive with room for less than a
// descriptor failed with MPI_ERR_TRUNCATE: what was cut off may have been its descriptor, and then
// its sender waits for nothing, or a message of the program's own, and then the descriptor is still
// to come. Libraries tell neither how long the message was nor how it began (MPICH 4 writes no
// byte). So the message of a doubtful send descriptor is brought here and *kept*: its sender goes
// on as if it were received, and should the descriptor come, the message is there.
//
// Any thread. Limits: kMostKept bytes are kept beside the last message; older ones are given up,
// and a receive of one fails. A synchronous send ends when its message is kept.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/job/comms.hpp"
#include "mpi/next.hpp"
#include "p2p/descriptor.hpp"
#include "p2p/send_queue.hpp"

namespace mh::mpi {

// A use of a slot of some rank's send queue.
struct SendDescriptor {
  std::uint32_t sender;
  std::uint32_t slot;
  p2p::Posted says;

  bool operator==(const SendDescriptor& other) const {
    return sender == other.sender && slot == other.slot && says.generation == other.says.generation;
  }
};

namespace send_descriptors {

// The send descriptor of a descriptor that is in hand.
SendDescriptor of(const p2p::Descriptor& descriptor);

// A probe has taken its descriptor out of the library.
void note_taken_out(const SendDescriptor& send);

// Posted send descriptors of that rank to this one that are not matched, the oldest first.
std::vector<SendDescriptor> unmatched(std::uint32_t sender,
                                      const std::function<bool(const p2p::Posted&)>& wanted);
// ... the oldest on that communicator and with that tag.
std::optional<SendDescriptor> oldest(std::uint32_t sender, std::uint64_t communicator, int tag);

// The sender has its buffer back: the message will not be read.
void release_unread(const SendDescriptor& send);

// ---- Doubtful send descriptors

// A receive with room for less than a descriptor failed with MPI_ERR_TRUNCATE. Null for a
// communicator that is not known.
void truncated(const Comm* comm, const MPI_Status& status);

// A started receive with room for less than a descriptor may have been matched with one, and says
// so only when the program completes it: its sender may wait until then. So a descriptor that is
// posted for long, is in no buffer that is known and not in the library either is taken for
// doubtful. Part of the wait loop. Limits: not with several threads; not while the library has a
// later message of that sender and tag.
void search_lost();

inline constexpr std::uint64_t kMostKept = 256U << 20U;

struct Kept {
  SendDescriptor send;
  std::unique_ptr<std::byte[]> data;
};

// How many are kept; relaxed, a hint. 0 in nearly every program.
extern std::atomic<std::uint32_t> kept_count;

// Whether one of that sender, communicator and tag is kept.
bool is_kept(std::uint32_t sender, std::uint64_t communicator, int tag);
// The message of that descriptor, whose send descriptor is over, if it is kept.
std::optional<Kept> take_kept(const p2p::Descriptor& descriptor);
// A later send descriptor than those kept has come by its descriptor: theirs, which were sent
// before it, are lost.
void forget_before(std::uint32_t sender, const p2p::SendSlot& later);

}  // namespace send_descriptors
}  // namespace mh::mpi
