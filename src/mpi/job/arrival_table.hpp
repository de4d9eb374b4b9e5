// SPDX-License-Identifier: BSD-3-Clause
// The table of arrivals: which ranks of the node have entered which collective of which
// communicator.
//
// A *group* is the part of a communicator that lies on this node. Every member of a group owns one
// line with the number of barriers, and of other collectives, that it has entered. A rank that
// enters a collective adds one to its line; a rank that depends on other ranks reads their lines.
// The table lies in the node segment.
//
// Invariants:
//
//   G1  All members of a group use the same index: the table is changed under its lock and
//       searched by key; the first member makes the entry.
//   G2  A member enters its group in its first collective, which all members call. An entry lives
//       until every member has entered and left it. A slow member therefore always finds its
//       group, and a line is never reused while a rank may wait on it.
//   G3  Once the table was full (`frozen`), no entry is made for any rank: either all members
//       of a communicator have a group or none has.
//   G4  A barrier that a rank has counted cannot fail, so counts of barriers are exact. Another
//       collective may fail on one rank alone, whose count stays too high. That rank switches
//       the arrival barrier of the group off (`off`): no rank waits at it from then on, and its
//       counts of arrivals mean nothing. Waiting ranks watch `off`. A rank may then be in a
//       collective of the library while another rank has a message for it, so rendezvous ends on
//       the node (`rendezvous`).
//   G5  No rank waits in collectives of a communicator without a group: an intercommunicator,
//       or a communicator that found the table full. A rank in such a collective takes no
//       message. No sender can push into a receive with gaps, which is not posted. Once such a
//       communicator exists, rendezvous therefore ends on the node (`rendezvous`). The same
//       holds when a rank with a receive with gaps enters another call without an arrival barrier
//       (collective I/O, MPI_Comm_create_group: the entries `waits_in_library` of calls.json), or a
//       collective over several nodes that a rank of this node may be outside of.
//       The same holds when a rank with such a receive has a thread in a collective that did not
//       wait for late members, because the rank has more threads in collectives than cores.
//
// Limit: kGroups communicators that have had a collective at a time; further communicators have no
// arrival barrier.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"

namespace mh::mpi {

inline constexpr std::uint32_t kGroups = 256;
inline constexpr std::uint32_t kNoGroup = 0xffffffffU;
inline constexpr std::uint32_t kUnknownGroup = 0xfffffffeU;  // not looked up yet

struct ArrivalLines {
  struct alignas(kCacheLine) Line {
    // The number of collectives other than barriers that the rank which owns the area has entered.
    // Only that rank adds. The order is release: the rank's work before the collective is visible
    // to ranks whose acquire sees the count. Zeroed under the table's lock when the line gets a new
    // entry (G2).
    std::atomic<std::uint64_t> arrivals{0};
    std::atomic<std::uint64_t> barriers{0};  // release and acquire as for `arrivals`
  };
  Line line[kGroups];
};

// Tells whether ranks of the node may post rendezvous sends. ending: no longer, but a rank may not
// have seen this yet. over: all ranks have seen it.
enum class RendezvousPhase : std::uint32_t { allowed, ending, over };

struct alignas(kCacheLine) ArrivalTable {
  struct GroupEntry {
    std::uint64_t key = 0;       // 0: free
    std::uint32_t to_leave = 0;  // members that have not left
    // 1 once a collective of the group has failed on a rank, so that its arrival barrier is off
    // (G4). release by the rank whose collective failed, acquire by waiting ranks. Zeroed when
    // another group gets the entry.
    std::atomic<std::uint32_t> off{0};
  };

  // A spin lock for `frozen` and the entries, except `off`. acquire when it is taken: pairs with
  // the release of the last holder's unlock.
  std::atomic<std::uint32_t> lock{0};
  std::uint32_t frozen = 0;  // 1 once the table was full (G3)
  // 1 once a collective has failed on some rank of the node, or may have failed unnoticed. Set
  // once. relaxed: a rank whose message depends on this flag has learned of the failure by the
  // program's own means.
  std::atomic<std::uint32_t> failed{0};
  // Tells whether messages of the node may go by rendezvous. Rendezvous ends after a failed
  // collective (G4) and after a truncated receive. It also ends in a call that makes a communicator
  // without an arrival barrier (G5). The order is relaxed: a rank that enters a collective of such
  // a communicator was in the call that made it, too, and so sees this value.
  std::atomic<RendezvousPhase> rendezvous{RendezvousPhase::allowed};
  GroupEntry entries[kGroups];
};
static_assert(std::is_standard_layout_v<ArrivalTable> && std::is_standard_layout_v<ArrivalLines>);

}  // namespace mh::mpi
