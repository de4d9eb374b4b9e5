// SPDX-License-Identifier: BSD-3-Clause
// Posted sends to this rank whose headers no receive has matched.
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

// The message on `comm` that the status of a probe tells of.
struct ProbeFinding {
  enum class Kind : std::uint8_t { as_reported, rendezvous, unclear } kind = Kind::as_reported;
  std::uint64_t bytes = 0;  // of a rendezvous message
};
ProbeFinding identify_probed(MPI_Comm comm, const MPI_Status& status);

}  // namespace mh::mpi::rndv
