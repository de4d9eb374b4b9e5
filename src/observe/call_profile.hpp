// SPDX-License-Identifier: BSD-3-Clause
// The profile of a run: the time in MPI by call, by size class, and by contiguous or noncontiguous
// data, divided into transfer and waiting for a late rank.
//
// Pure functions on plain data, and one table of sums for each thread. docs/profile.md explains the
// numbers and the JSON format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mh::observe {

// Upper bounds, in bytes of a call's data, of the size classes into which a profile sorts calls;
// the last class is unbounded.
inline constexpr std::array<std::uint64_t, 7> kSizeBounds = {
    256, 4U << 10U, 16U << 10U, 64U << 10U, 256U << 10U, 1U << 20U, 8U << 20U};
inline constexpr std::size_t kSizeClasses = kSizeBounds.size() + 1;
std::size_t size_class(std::uint64_t bytes);

// Sums over the calls of one MPI function with data of one size class, contiguous or not, in a
// running process. A report (ProfileRow) has seconds in place of ticks.
struct CallSums {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  std::uint64_t ticks = 0;  // inside the call
  // Part of `ticks`: the sum, over the calls, of the least time that one of the ranks which a call
  // needs was in MPI during the call.
  std::uint64_t transfer_ticks = 0;
};

// The data that an MPI call sends or receives: its size and whether it has gaps decide which sums
// of the profile count the call.
struct CallData {
  std::uint64_t bytes = 0;
  bool contiguous = true;
};

// The sums of one thread. The thread writes them; other threads read them once the thread makes no
// more MPI calls.
class ThreadProfile {
 public:
  // `calls`: the number of MPI functions that the profile knows. `ranks`: the number of ranks of
  // the node.
  ThreadProfile(std::size_t calls, std::size_t ranks) : sums_(calls * kRows), late_ticks_(ranks) {}

  CallSums& sums(std::size_t call, const CallData& data) {
    return sums_[call * kRows + 2 * size_class(data.bytes) + (data.contiguous ? 0 : 1)];
  }
  // The ticks for which calls of this thread have waited for the rank `node_rank` of the node,
  // which was late.
  std::uint64_t& late_ticks(std::size_t node_rank) { return late_ticks_[node_rank]; }

  static constexpr std::size_t kRows = 2 * kSizeClasses;  // of sums, for a call
  [[nodiscard]] std::span<const CallSums> all_sums() const { return sums_; }
  [[nodiscard]] std::span<const std::uint64_t> all_late_ticks() const { return late_ticks_; }

 private:
  std::vector<CallSums> sums_;
  std::vector<std::uint64_t> late_ticks_;
};

// A row of a rank's profile: sums over the calls of one MPI function with data of one size class,
// contiguous or not. Plain data, sent to rank 0.
struct ProfileRow {
  char call[48];  // "MPI_Send"
  std::uint32_t world_rank;
  std::uint32_t size_class;
  std::uint32_t noncontiguous;  // 1: the data has gaps
  std::uint32_t padding;
  std::uint64_t calls;
  std::uint64_t bytes;
  double seconds;
  double transfer_s;
};

// The times of MPI_Init and of the whole run in a rank that is profiled. Plain data, sent to rank
// 0.
struct ProfiledRank {
  std::uint32_t world_rank;
  std::uint32_t node;
  double init_s;     // MPI_Init
  double elapsed_s;  // from the end of MPI_Init to the begin of MPI_Finalize
};

// The time for which a rank has waited for another rank of its node. Plain data.
struct LateRank {
  std::uint32_t late;    // world rank of the rank that was late
  std::uint32_t waiter;  // world rank of the rank that waited
  double seconds;
};

// Returns a row for each MPI function, size class and contiguity that was used, from the sums of
// all threads of a rank. `names`: the names of the MPI functions, by their number.
std::vector<ProfileRow> profile_rows(std::span<const ThreadProfile* const> threads,
                                     std::span<const char* const> names, std::uint32_t world_rank,
                                     double ticks_per_s);

// Returns the JSON of the profile of a run. `summary`: the JSON of render_json() (summary.hpp), or
// empty.
std::string render_profile(std::span<const ProfiledRank> ranks, std::span<const ProfileRow> rows,
                           std::span<const LateRank> late, const std::string& summary);

}  // namespace mh::observe
