// SPDX-License-Identifier: BSD-3-Clause
// Arrivals: who of the node has entered which collective of which communicator.
//
// Words: a *group* is the part of a communicator that lies on this node; every member of a group
// owns one line with the number of barriers and of other collectives it has entered there. A rank
// that enters one adds one to its line; a rank that depends on others looks at theirs. Lies in the
// node segment.
//
// Invariants
//   G1  All members of a group use the same index, because the table is changed under its lock and
//       found by key; the first member to come makes the entry.
//   G2  A member comes in its first collective, which all of them call. An entry lives until every
//       member has come and left, so a member that is slow to come cannot find its group gone, and
//       a line is never reused while somebody may still wait on it.
//   G3  Once the table was full (`frozen`) no entry is made any more, for anyone: so either all
//       members of a communicator have a group or none has.
//   G4  A barrier that this rank has counted cannot fail, so counts of barriers are exact. Another
//       collective may fail on one rank alone, whose count is then too high for ever. So the rank
//       whose call fails switches the arrival barrier of that group off: from then on nobody waits
//       at it, and the counts mean nothing. Whoever waits looks at the switch, too. A rank may then
//       be in a collective of the library while another has a message for it, so no rank of the
//       node describes messages any more (`rendezvous_ended`).
//   G5  Nor is a rank waited for in collectives of a communicator without a group: an
//       intercommunicator, or one that found the table full. A receive with gaps is filled by its
//       own rank alone, and a sender does not know its receive. So once there is any, no rank of
//       the node describes messages any more (`rendezvous_ended`). The same from when a rank with such a
//       receive under way enters another call in which nobody is waited for (collective I/O,
//       MPI_Comm_create_group: before_unhelped() in calls.json), or has a thread in a collective
//       that did not wait for late members because the rank has more threads there than cores.
// Limit: kGroups communicators that have had a collective at a time; others are not gated.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"

namespace mh::mpi {

inline constexpr std::uint32_t kGroups = 256;
inline constexpr std::uint32_t kNoGroup = 0xffffffffU;
inline constexpr std::uint32_t kUnknownGroup = 0xfffffffeU;  // this rank has not looked yet

struct ArrivalLines {
  struct alignas(kCacheLine) Line {
    // Written by the rank of this area, by release: what it did before the collective is visible to
    // those whose acquire sees the count. Zeroed by whoever makes the entry, under the lock (G2).
    std::atomic<std::uint64_t> arrivals{0};
    std::atomic<std::uint64_t> barriers{0};  // likewise
  };
  Line line[kGroups];
};

struct alignas(kCacheLine) ArrivalTable {
  struct Entry {
    std::uint64_t key = 0;  // 0: free
    std::uint32_t to_leave = 0;
    // G4. Stored by release in the rank whose collective failed, loaded by acquire by those that
    // wait; zeroed with the entry.
    std::atomic<std::uint32_t> off{0};
  };

  std::atomic<std::uint32_t> lock{
      0};  // acquire when taken, release when given back; guards the rest
  std::uint32_t frozen = 0;
  // A collective has failed on some rank, or may without anybody seeing it. Set once; relaxed:
  // whose message depends on it has heard of the failure, by the program's own means.
  std::atomic<std::uint32_t> failed{0};
  // No message goes by rendezvous from now on (G4, G5, truncations). Set once; for G5 before the
  // communicator is used. relaxed: a rank in its collectives has made the communicator.
  std::atomic<std::uint32_t> rendezvous_ended{0};
  Entry entries[kGroups];
};
static_assert(std::is_standard_layout_v<ArrivalTable> && std::is_standard_layout_v<ArrivalLines>);

}  // namespace mh::mpi
