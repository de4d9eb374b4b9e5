// SPDX-License-Identifier: BSD-3-Clause
// A team of pinned processes that measure together, without MPI.
//
// Words: a *member* is a forked process on a CPU of its own; members run the same function and meet
// at barriers in a page they share. The process that forked them only waits, so it takes no core
// from a measurement. If a member dies, the others leave the next barrier with false and end; if
// the parent dies, the kernel ends them all. Limit: 256 members.
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

// The shared state of the members. Plain fields are written by one member before a barrier (or
// before an announcement) and read after it.
struct Shared {
  alignas(kCacheLine) std::atomic<std::uint32_t> arrived{0};
  alignas(kCacheLine) std::atomic<std::uint32_t> phase{0};
  std::atomic<bool> abandoned{false};
  // For the transfer in flight: the sender counts announcements; the receiver counts completions,
  // and how often it is ready for the next transfer.
  alignas(kCacheLine) std::atomic<std::uint64_t> announced{0};
  alignas(kCacheLine) std::atomic<std::uint64_t> completed{0};
  std::atomic<std::uint64_t> ready{0};
  steal::Job job;
  pid_t pid[kMaxMembers]{};
  std::uint64_t source[kMaxMembers]{};  // address of the member's buffer in its own process
  std::uint64_t target[kMaxMembers]{};
  double rate[kMaxMembers]{};  // bytes per ns of the last measurement
  std::uint32_t choice = 0;    // a number that one member decided for all
};

class Member {
 public:
  Member(Shared& shared, std::uint32_t index, std::uint32_t members)
      : shared_(&shared), index_(index), members_(members) {}

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::uint32_t members() const { return members_; }
  [[nodiscard]] bool first() const { return index_ == 0; }
  [[nodiscard]] Shared& shared() const { return *shared_; }

  // All members. False when one is gone: then end at once.
  [[nodiscard]] bool barrier();

 private:
  Shared* shared_;
  std::uint32_t index_;
  std::uint32_t members_;
};

// The CPUs to measure on, grouped by NUMA node, one per physical core, within the affinity of this
// process.
std::vector<Place> places();

// Forks one member per place, runs `work` in each and waits. 0 when all members returned 0.
int run_team(std::span<const Place> places, const std::function<int(Member&)>& work);

}  // namespace mh::tune
