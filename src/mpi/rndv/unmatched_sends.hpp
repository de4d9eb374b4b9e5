// SPDX-License-Identifier: BSD-3-Clause
// Posted sends to this rank whose headers no receive has matched, and headers that were lost.
//
// Any thread. Exact where one thread at a time is in calls of ours.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/next.hpp"
#include "mpi/rndv/posted_sends.hpp"

namespace mh::mpi::rndv {

// The oldest posted send that is not matched, with that communicator's key and that tag.
std::optional<PostedSend> oldest_unmatched(std::uint32_t sender, std::uint64_t communicator,
                                           int tag);

// The header of a send has come; this rank has claimed the send. The headers of one thread come in
// the order of its sends, so those of earlier sends with the same envelope have been matched.
void note_header_seen(const PostedSend& send);

// The header of an unmatched send has been matched, and then another message was written over it: a
// later header has come, or the header is with the library for long, and the library does not have
// it. Waits some milliseconds for the header to appear. Always false where several threads are in
// calls of ours.
bool is_header_lost(const PostedSend& send);

// What a status of a probe says about a message on `comm`.
struct ProbeFinding {
  enum class Kind : std::uint8_t { as_reported, rendezvous, unclear } kind = Kind::as_reported;
  std::uint64_t bytes = 0;  // of a rendezvous message
};
ProbeFinding identify(MPI_Comm comm, const MPI_Status& status);

}  // namespace mh::mpi::rndv
