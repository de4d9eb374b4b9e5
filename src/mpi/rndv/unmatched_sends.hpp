// SPDX-License-Identifier: BSD-3-Clause
// Posted sends to this rank whose RTS headers no receive has matched, and the size of a probed
// message, found by these sends.
//
// Any thread. The results are exact only while no other thread of the rank is in an intercepted
// call.
#pragma once

#include <cstdint>
#include <optional>

#include "mpi/next.hpp"
#include "mpi/rndv/posted_sends.hpp"

namespace mh::mpi::rndv {

// The oldest posted send with this envelope (sender, communicator, tag) that no receive has
// matched; nothing if there is none.
std::optional<PostedSend> oldest_unmatched(const SendEnvelope& envelope);

// The message that a probe has found: an ordinary message (as_reported), a rendezvous message,
// whose RTS header the MPI library has reported, or one of the two, but it is not known which
// (unclear).
struct ProbeFinding {
  enum class Kind : std::uint8_t { as_reported, rendezvous, unclear } kind = Kind::as_reported;
  std::uint64_t bytes = 0;  // of a rendezvous message
};
// Finds out which kind of message on `comm` it is that a probe of the MPI library has reported as
// `status`, by its envelope and the posted sends.
ProbeFinding identify_probed(MPI_Comm comm, const MPI_Status& status);

}  // namespace mh::mpi::rndv
