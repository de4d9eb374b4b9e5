// SPDX-License-Identifier: BSD-3-Clause
// Posted sends to this rank whose headers no receive has matched.
//
// Any thread. The results are exact only while no other thread of the rank is in an intercepted
// call.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/next.hpp"
#include "mpi/rndv/posted_sends.hpp"

namespace mh::mpi::rndv {

// The oldest posted send with this envelope that no receive has matched.
std::optional<PostedSend> oldest_unmatched(const SendEnvelope& envelope);

// Finds out what message on `comm` a probe has reported as `status`.
struct ProbeFinding {
  enum class Kind : std::uint8_t { as_reported, rendezvous, unclear } kind = Kind::as_reported;
  std::uint64_t bytes = 0;  // of a rendezvous message
};
ProbeFinding identify_probed(MPI_Comm comm, const MPI_Status& status);

}  // namespace mh::mpi::rndv
