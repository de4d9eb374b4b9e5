// SPDX-License-Identifier: BSD-3-Clause
// Posted sends to this rank whose RTS headers no receive has matched, and the size of probed
// messages.
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

// The message that a probe has found: an ordinary message (as_reported), a rendezvous message,
// whose RTS header the library has reported, or either of the two (unclear).
struct ProbeFinding {
  enum class Kind : std::uint8_t { as_reported, rendezvous, unclear } kind = Kind::as_reported;
  std::uint64_t bytes = 0;  // of a rendezvous message
};
// Identifies the message on `comm` that a probe of the library has reported as `status`.
ProbeFinding identify_probed(MPI_Comm comm, const MPI_Status& status);

}  // namespace mh::mpi::rndv
