// SPDX-License-Identifier: BSD-3-Clause
// For whoever waits for the last chunks of a job: are they in the hands of dead processes?
//
// A process that helps says so before it takes a chunk (node::ClaimIntent). Looks at that, and at
// the process table, once a second at most. Belongs to one wait.
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"

namespace mh::mpi {

// Looks, now and then, for dead processes that hold chunks of this rank's jobs.
class Watch {
 public:
  // All chunks of a job are claimed and it is not finished. True once those that are left are in
  // dead hands, and in no others: then nobody will write to its buffer any more.
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
  // Whether a rank that does, or does not, live has a chunk of this rank's jobs.
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
