// SPDX-License-Identifier: BSD-3-Clause
// Every tag of the messages between ranks of ours, by the private communicator they travel on. Two
// uses of one tag on one communicator do not compile.
//
// Limit: kLast, which every library allows (MPI_TAG_UB is at least that).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "p2p/send_table.hpp"

namespace mh::mpi::tags {

inline constexpr int kLast = 32767;

// Tags first, first + 1, ..., one for each of `count` things.
struct Range {
  int first;
  int count;

  [[nodiscard]] constexpr int operator[](std::uint64_t index) const {
    return first + static_cast<int>(index);
  }
  [[nodiscard]] constexpr int end() const { return first + count; }
  [[nodiscard]] constexpr bool contains(int tag) const { return tag >= first && tag < end(); }
};

template <std::size_t kRanges>
constexpr bool disjoint(const std::array<Range, kRanges>& ranges) {
  for (std::size_t i = 0; i < kRanges; ++i) {
    if (ranges[i].first < 0 || ranges[i].count <= 0 || ranges[i].end() > kLast + 1) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (ranges[i].first < ranges[j].end() && ranges[j].first < ranges[i].end()) return false;
    }
  }
  return true;
}

// ---- config.node_comm ---------------------------------------------------------------------------

// Completion messages of described sends (MPI_Isend and its kin), by SendSlot::own_fin().
inline constexpr Range kSendFins{0, static_cast<int>(p2p::SendSlot::kOwnFins)};
// Data that a receiver could not reach, by slot of the sender's send table.
inline constexpr Range kResends{kSendFins.end(), static_cast<int>(p2p::SharedSendTable::kSlots)};
// Completion messages of sends to other nodes, by internode pipeline.
inline constexpr Range kInternodeFins{kResends.end(), 64};
// Nobody sends it: what a rank probes for to drive the library.
inline constexpr Range kProgressKick{kInternodeFins.end(), 1};
// Completion messages of persistent sends: each has its own until it is freed.
inline constexpr Range kPersistentFins{kProgressKick.end(), kLast + 1 - kProgressKick.end()};

static_assert(disjoint(std::array{kSendFins, kResends, kInternodeFins, kProgressKick,
                                  kPersistentFins}));

// ---- config.self_comm ---------------------------------------------------------------------------

// Messages that a probe has taken out and sent to its own rank, in turn.
inline constexpr Range kRenewed{0, 1 << 14U};
// Data that change their layout.
inline constexpr Range kRelaid{kRenewed.end(), 1};

static_assert(disjoint(std::array{kRenewed, kRelaid}));

// ---- config.internode_comm ----------------------------------------------------------------------

// Pieces of a message to another node, by the number of the message between the two ranks.
inline constexpr Range kPieces{0, kLast + 1};

static_assert(disjoint(std::array{kPieces}));

// ---- config.windows_comm ------------------------------------------------------------------------

// Of windows over several nodes (rma/piece.hpp).
inline constexpr Range kRequests{0, 1};
inline constexpr Range kAnswers{kRequests.end(), 1};

static_assert(disjoint(std::array{kRequests, kAnswers}));

}  // namespace mh::mpi::tags
