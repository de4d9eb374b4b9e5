// SPDX-License-Identifier: BSD-3-Clause
// A team of pinned processes that measure together, without MPI.
//
// Words: a *member* is a forked process on its own CPU. Members run the same function and meet at
// barriers in shared memory. Their parent only waits, so it takes no core from a measurement. If a
// member dies, the next barrier returns false at the other members, which then end. If the parent
// dies, the kernel ends all members. Limit: 256 members.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/cacheline.hpp"
#include "steal/job.hpp"

namespace mh::tune {

inline constexpr std::uint32_t kMaxMembers = 256;

struct Place {
  int cpu;
  std::uint16_t numa;
};

// The memory that all members share. A member writes fields that are not atomic before a barrier or
// an announcement of a message, and the other members read them after it.
struct Shared {
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived{0};
  alignas(kCacheLine) std::atomic<std::uint32_t> phase{0};
  std::atomic<bool> abandoned{false};
  // The progress of messages between two members; each value is the number of a message, from 1.
  // First the receiver stores `ready`: the sender may write the message. Then the sender stores
  // `announced`: the message may be received. At last the receiver stores `completed`.
  alignas(kCacheLine) std::atomic<std::uint64_t> announced{0};
  alignas(kCacheLine) std::atomic<std::uint64_t> completed{0};
  std::atomic<std::uint64_t> ready{0};
  steal::Job job;
  pid_t pid[kMaxMembers]{};
  std::uint64_t source[kMaxMembers]{};  // address, in the member, of its buffer to copy from
  std::uint64_t target[kMaxMembers]{};  // address, in the member, of its buffer to copy to
  double rate[kMaxMembers]{};           // bytes per ns of the last measurement
  std::uint32_t choice = 0;             // a number that one member has chosen for all
};

class Member {
 public:
  Member(Shared& shared, std::uint32_t index, std::uint32_t members)
      : shared_(&shared), index_(index), members_(members) {}

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::uint32_t members() const { return members_; }
  [[nodiscard]] bool first() const { return index_ == 0; }
  [[nodiscard]] Shared& shared() const { return *shared_; }

  // Waits until all members of the team have called barrier(). Returns false if a member has died;
  // the caller must then end at once.
  [[nodiscard]] bool barrier();

 private:
  Shared* shared_;
  std::uint32_t index_;
  std::uint32_t members_;
};

// Returns the CPUs to which a team is pinned: one hardware thread of each physical core that this
// process may use, ordered by NUMA node.
std::vector<Place> places();

// Forks a member for each place, runs `work` in each, and waits until all have ended. Returns 0 if
// `work` returned 0 in all members, else the largest exit code.
int run_team(std::span<const Place> places, const std::function<int(Member&)>& work);

}  // namespace mh::tune
