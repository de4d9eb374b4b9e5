// SPDX-License-Identifier: BSD-3-Clause
// The tags of Manyhands' own messages on its private communicators. If two kinds of messages on one
// communicator have a common tag, this file does not compile.
//
// Limit: no tag exceeds kLast, the least MPI_TAG_UB that MPI guarantees.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "coll/board_group.hpp"
#include "p2p/send_table.hpp"

namespace mh::mpi::tags {

inline constexpr int kLast = 32767;

// A range of tags: first, first + 1, ..., first + count - 1.
struct TagRange {
  int first;
  int count;

  [[nodiscard]] constexpr int operator[](std::uint64_t index) const {
    return first + static_cast<int>(index);
  }
  [[nodiscard]] constexpr int end() const { return first + count; }
  [[nodiscard]] constexpr bool contains(int tag) const { return tag >= first && tag < end(); }
};

template <std::size_t kRanges>
constexpr bool disjoint(const std::array<TagRange, kRanges>& ranges) {
  for (std::size_t i = 0; i < kRanges; ++i) {
    if (ranges[i].first < 0 || ranges[i].count <= 0 || ranges[i].end() > kLast + 1) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (ranges[i].first < ranges[j].end() && ranges[j].first < ranges[i].end()) return false;
    }
  }
  return true;
}

// ---- Tags on config.node_comm, the communicator of the node's ranks -----------------------------

// FINs of nonblocking rendezvous sends. SendSlot::own_fin() says which tag a send has.
inline constexpr TagRange kSendFins{0, static_cast<int>(p2p::SendSlot::kFinTagsOfRank)};
// Resends: each message has the tag of its slot in the sender's send table.
inline constexpr TagRange kResends{kSendFins.end(), static_cast<int>(p2p::SharedSendTable::kSlots)};
// FINs of sends by internode pipeline. Each has the tag of its SendId, the number of the send.
inline constexpr TagRange kInternodeFins{kResends.end(), 64};
// kick_progress() probes for this tag, which no rank sends, to drive the library's progress.
inline constexpr TagRange kProgressKick{kInternodeFins.end(), 1};
// Blocks that ranks send each other in collectives whose data are neither staged on boards nor
// mapped (collective/pairwise.cpp). Each communicator has a tag of its own, numbered by
// Comm::group.
inline constexpr TagRange kBlocks{kProgressKick.end(), static_cast<int>(coll::kBoards)};
// FINs of persistent sends. Each send has a tag of its own until the program frees the send.
inline constexpr TagRange kPersistentFins{kBlocks.end(), kLast + 1 - kBlocks.end()};

static_assert(disjoint(std::array{kSendFins, kResends, kInternodeFins, kProgressKick, kBlocks,
                                  kPersistentFins}));

// ---- Tags on config.self_comm, the communicator of this rank alone ------------------------------

// Messages that this rank sends to itself, so that a receive can still match a message which a
// probe has taken out of the library (rndv/held_messages.hpp). They use these tags in turn.
inline constexpr TagRange kRenewed{0, 1 << 14U};
// A message from this rank to itself, by which send_to_self() copies data from one layout to
// another.
inline constexpr TagRange kRelaid{kRenewed.end(), 1};

static_assert(disjoint(std::array{kRenewed, kRelaid}));

// ---- Tags on config.internode_comm, for messages to other nodes in pieces -----------------------

// Pieces of messages to another node. The tag is the number of the message among those between the
// two ranks, modulo the number of tags.
inline constexpr TagRange kPieces{0, kLast + 1};

static_assert(disjoint(std::array{kPieces}));

// ---- Tags on config.windows_comm, for windows over several nodes --------------------------------

// Requests and answers between ranks of windows over several nodes (rma/piece.hpp).
inline constexpr TagRange kRequests{0, 1};
inline constexpr TagRange kAnswers{kRequests.end(), 1};

static_assert(disjoint(std::array{kRequests, kAnswers}));

}  // namespace mh::mpi::tags
