// SPDX-License-Identifier: BSD-3-Clause
// The tags of Manyhands' own messages, by private communicator. If two uses of one communicator
// have a common tag, this file does not compile.
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

// The tags first, first + 1, ..., first + count - 1.
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

// ---- config.node_comm ---------------------------------------------------------------------------

// FINs of nonblocking rendezvous sends, by SendSlot::own_fin().
inline constexpr TagRange kSendFins{0, static_cast<int>(p2p::SendSlot::kFinTagsOfRank)};
// Resent messages, by slot of the sender's send table.
inline constexpr TagRange kResends{kSendFins.end(), static_cast<int>(p2p::SharedSendTable::kSlots)};
// FINs of sends by internode pipeline, by SendId.
inline constexpr TagRange kInternodeFins{kResends.end(), 64};
// kick_progress() probes for this tag, which no rank sends, to drive the library's progress.
inline constexpr TagRange kProgressKick{kInternodeFins.end(), 1};
// Blocks of collectives that are neither staged nor mapped (collective/pairwise.cpp), by
// Comm::group.
inline constexpr TagRange kBlocks{kProgressKick.end(), static_cast<int>(coll::kBoards)};
// FINs of persistent sends. Each send has a tag of its own until the program frees the send.
inline constexpr TagRange kPersistentFins{kBlocks.end(), kLast + 1 - kBlocks.end()};

static_assert(disjoint(std::array{kSendFins, kResends, kInternodeFins, kProgressKick, kBlocks,
                                  kPersistentFins}));

// ---- config.self_comm ---------------------------------------------------------------------------

// Renewed messages (rndv/held_messages.hpp), which use these tags in turn.
inline constexpr TagRange kRenewed{0, 1 << 14U};
// Copies between two layouts (send_to_self()).
inline constexpr TagRange kRelaid{kRenewed.end(), 1};

static_assert(disjoint(std::array{kRenewed, kRelaid}));

// ---- config.internode_comm ----------------------------------------------------------------------

// Pieces of a message to another node, by the number of the message between the two ranks.
inline constexpr TagRange kPieces{0, kLast + 1};

static_assert(disjoint(std::array{kPieces}));

// ---- config.windows_comm ------------------------------------------------------------------------

// Requests and answers of windows over several nodes (rma/piece.hpp).
inline constexpr TagRange kRequests{0, 1};
inline constexpr TagRange kAnswers{kRequests.end(), 1};

static_assert(disjoint(std::array{kRequests, kAnswers}));

}  // namespace mh::mpi::tags
