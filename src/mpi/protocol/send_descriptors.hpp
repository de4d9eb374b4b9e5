// SPDX-License-Identifier: BSD-3-Clause
// Send descriptors to this rank whose messages do not come by a descriptor in a receive's buffer:
// a probe has taken the descriptor out of the library, or it was lost (lost_descriptors.hpp), and
// the message is *kept* here until its descriptor comes after all.
//
// Any thread. Limits: kMostKept bytes are kept beside the last message; older ones are given up,
// and a receive of one fails. A synchronous send ends when its message is kept.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
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
// Those of which that is so and that are not received yet.
std::vector<SendDescriptor> taken_out();

// The sender has its buffer back: the message will not be read.
void release_unread(const SendDescriptor& send);

// ---- Messages that are kept

inline constexpr std::uint64_t kMostKept = 256U << 20U;

struct Kept {
  SendDescriptor send;
  std::unique_ptr<std::byte[]> data;
};

// Brings the message here; its sender goes on as if it were received.
void keep(const SendDescriptor& send);
// Whether it can be kept without giving up another.
bool has_room_for(const SendDescriptor& send);

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
