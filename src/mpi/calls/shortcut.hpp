// SPDX-License-Identifier: BSD-3-Clause
// When a rank may wait inside the library, in its own blocking call, without a hand for others.
//
// Start + test costs up to 100 ns more than the blocking call, depending on the library, which is
// felt in a loop of short messages and nowhere else. So in such a loop, and only there, blocking
// calls go straight through. What they wait for must not depend on us: while they wait this rank
// answers nobody and copies nothing, so it must have nothing under way that needs its wait loop.
#pragma once

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/rndv/held_messages.hpp"
#include "mpi/rndv/receive_requests.hpp"
#include "mpi/rndv/send.hpp"
#include "wait/pace.hpp"

namespace mh::mpi {

// Of this rank's blocking short calls; used without MPI_THREAD_MULTIPLE only.
inline wait::Pace short_calls;

// No message of so many bytes is described.
inline bool is_short(std::uint64_t bytes) { return bytes < config.threshold || !config.rendezvous; }

// Nothing of this rank needs its wait loop, but for short receives that are started.
inline bool nothing_long_under_way() {
  return services.send_table.empty() && !rndv::receives.any_long() &&
         detached_operations.load(std::memory_order_relaxed) == 0 &&
         !rndv::may_be_held();
}

inline bool nothing_under_way() { return !rndv::receives.any() && nothing_long_under_way(); }

// To be asked once for each blocking call whose messages are short, or unknown. Slots of messages
// that have arrived are given back on the way: one long message in the past must not count for
// ever. `awaited`: the call waits for all short receives that are started.
inline bool may_wait_in_library(bool awaited = false) {
  if (switches.threads ||
      !short_calls.tight(ticks, [] { return ticks_from_ns(tuning::kShortWaitNs); })) {
    return false;
  }
  if (!services.send_table.empty()) [[unlikely]]
    rndv::free_finished_sends();
  return awaited ? nothing_long_under_way() : nothing_under_way();
}

// As may_wait_in_library(), without a call; if false, nothing has been asked and that has to be. A
// wrapper that gets by here saves no registers: a message of 8 bytes takes 110 ns in Open MPI.
inline bool passes() {
  return !switches.threads && nothing_under_way() && short_calls.known_tight();
}

}  // namespace mh::mpi
