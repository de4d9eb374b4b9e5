// SPDX-License-Identifier: BSD-3-Clause
// The condition under which a rank waits in the MPI library's blocking call instead of the wait
// loop.
//
// In the wait loop, a blocking call becomes a nonblocking start and tests. These cost up to 100 ns
// more than the library's blocking call, depending on the MPI library. Only a tight loop of short
// messages notices the difference, so only in such a loop does a blocking call go straight to the
// MPI library. A rank in such a call helps nobody and advances no operation of its own. The
// shortcut is therefore taken only while no operation of this rank needs the wait loop.
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

// Measures how close together this rank's blocking calls with short messages come, and so whether
// they are a tight loop. Used only while one thread at a time is in MPI (switches.threads is
// false).
inline wait::Pace short_calls;

// True if a message of `bytes` bytes never goes by rendezvous.
inline bool is_short(std::uint64_t bytes) {
  return bytes < config.least_threshold || !config.rendezvous;
}

// True if nothing of this rank has to advance in the wait loop. There is then no rendezvous send,
// no receive that may get an RTS header, no request that the program has freed, and no held message
// (held_messages.hpp).
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

// Answers may_wait_in_library() without a function call if the answer is yes; after false, the
// caller calls may_wait_in_library(). A wrapper that needs no other call before the library's
// spills no registers, which counts for a message of 8 bytes: it takes 110 ns in Open MPI.
inline bool may_pass_to_library() {
  return !switches.threads && nothing_under_way() && short_calls.known_tight();
}

}  // namespace mh::mpi
