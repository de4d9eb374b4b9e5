// SPDX-License-Identifier: BSD-3-Clause
// The condition under which a rank waits in the MPI library's blocking call instead of the wait
// loop.
//
// A start and a test cost up to 100 ns more than the blocking call, depending on the MPI library.
// Only a tight loop of short messages notices the difference, so only in such a loop does a
// blocking call go straight to the MPI library. A rank in such a call helps nobody and advances no
// operation of its own. The shortcut is therefore taken only while no operation of this rank needs
// the wait loop.
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

// The pace of this rank's blocking short calls. Used only while switches.threads is false.
inline wait::Pace short_calls;

// True if a message of `bytes` bytes never goes by rendezvous.
inline bool is_short(std::uint64_t bytes) {
  return bytes < config.least_threshold || !config.rendezvous;
}

// True if no operation of this rank needs the wait loop.
inline bool nothing_under_way() {
  return services.send_table.empty() && !rndv::receives.any() &&
         detached_operations.load(std::memory_order_relaxed) == 0 && !rndv::may_be_held();
}

// True if a blocking call with messages that are short, or of unknown length, may wait in the
// library. Each such call must call this function once, because the function measures the pace of
// the calls. Also frees the slots of finished sends, which would otherwise count as under way for
// ever.
inline bool may_wait_in_library() {
  if (switches.threads ||
      !short_calls.tight(ticks, [] { return ticks_from_ns(tuning::kShortWaitNs); })) {
    return false;
  }
  if (!services.send_table.empty()) [[unlikely]]
    rndv::free_finished_sends();
  return nothing_under_way();
}

// The inline part of may_wait_in_library(). If the result is false, the caller calls
// may_wait_in_library(). If the result is true, the wrapper spills no registers: a message of 8
// bytes takes 110 ns in Open MPI.
inline bool may_pass_to_library() {
  return !switches.threads && nothing_under_way() && short_calls.known_tight();
}

}  // namespace mh::mpi
