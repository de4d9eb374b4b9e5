// SPDX-License-Identifier: BSD-3-Clause
// Tells an owner that waits for the last chunks of a job whether their thieves have died.
//
// A process announces its intent before it claims a chunk (node::ClaimIntent). The watch reads the
// announcements and the process table at most once a second. One wait uses one watch. Limit: a rank
// in another pid namespace counts as alive.
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"

namespace mh::mpi {

class ThiefWatch {
 public:
  // Called while all chunks of a job are claimed and some are not finished. True once only dead
  // processes hold the unfinished chunks: no process will write to the job's buffer any more.
  bool left_to_the_dead() {
    const std::uint64_t now = ticks();
    if (next_look_ == 0) next_look_ = now + ticks_from_ns(tuning::kSlowThiefNs);
    if (now < next_look_) return false;
    const bool dead = some_died_ && !any_visit(true);
    some_died_ = dead || any_visit(false);
    next_look_ = now + ticks_from_ns(some_died_ ? tuning::kDyingThiefNs : tuning::kSlowThiefNs);
    return dead;
  }

 private:
  // True if a rank has announced that it may hold a chunk of this rank's jobs, and is alive
  // (`living` is true) or dead (`living` is false).
  static bool any_visit(bool living) {
    for (std::uint32_t rank = 0; rank < config.ranks; ++rank) {
      if (node::may_hold_chunk_of(services.node->record(rank), config.me) &&
          services.node->is_alive(rank) == living) {
        return true;
      }
    }
    return false;
  }

  bool some_died_ = false;
  std::uint64_t next_look_ = 0;
};

}  // namespace mh::mpi
