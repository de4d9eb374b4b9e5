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
// Any thread, but for search_lost().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "mpi/protocol/pending_requests.hpp"
#include "mpi/protocol/send_descriptors.hpp"

namespace mh::mpi::send_descriptors {

// Posted send descriptors of that rank to this one that are not matched, the oldest first.
std::vector<SendDescriptor> unmatched(std::uint32_t sender,
                                      const std::function<bool(const p2p::Posted&)>& wanted);
// ... the oldest on that communicator and with that tag.
std::optional<SendDescriptor> oldest(std::uint32_t sender, std::uint64_t communicator, int tag);

// A receive with room for less than a descriptor failed with MPI_ERR_TRUNCATE. Null for a
// communicator that is not known.
void truncated(const Comm* comm, const MPI_Status& status);

// A started receive with room for less than a descriptor may have been matched with one, and says
// so only when the program completes it: its sender may wait until then. So a descriptor that is
// posted for long and in no buffer that is known is taken for doubtful if the library has no
// message of that sender and tag, or if such a receive is over and may have met it. (Or may be
// over: MPICH 5 cannot be asked about persistent ones.) Part of the wait loop. Limit: not with
// several threads.
void search_lost();
bool searches_lost();

}  // namespace mh::mpi::send_descriptors

namespace mh::mpi {

// A started receive that is too short for a descriptor has to be among the pending requests where
// lost ones are searched for.
inline void note_too_short(Receipt& receipt, const Envelope& asked, MPI_Comm comm) {
  if (!send_descriptors::searches_lost() || asked.source == MPI_PROC_NULL) return;
  if (receipt.target || receipt.target.capacity >= p2p::kDescriptorBytes) return;
  receipt.too_short = asked;
  receipt.comm = comms::share(comms::find(comm));
}

}  // namespace mh::mpi
