// SPDX-License-Identifier: BSD-3-Clause
// Rounds: collectives that the ranks of a node carry out themselves, by shared memory.
//
// Every member of a group has a *board* in the node segment, and sees all of them through its
// *board group*. In each round a member publishes one record on its board: whether it carries out
// the collective this way, the terms of its call, and its data. Short data go into the record,
// longer data into a staged block, and data that the peers map stay in place. The peers read the
// records and reach the same decision.
//
// Invariants:
//
//   R1  All members count the same rounds in the same order. A round is counted only by a call
//       that every member is bound to make (mpi/collective/direct.hpp).
//   R2  A board has kRecords records with a short block each, and kStaged long blocks, each used in
//       turn. A member writes the record of round n after all members have published round
//       n - kRecords + 1 or a later round. Each member has then read everything it needs of round
//       n - kRecords. The same holds for long blocks, with kStaged in place of kRecords. A root can
//       therefore run 127 rounds ahead, and 15 rounds with long blocks.
//   R3  A published record does not change until a later round reuses its place.
//   R4  Mapped data stay unchanged until `finished` of every reader has reached the round.
//
// Threads: one thread at a time in the rounds of a group. Limits: kBoards groups of a node have
// boards at a time; a group without boards has no rounds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/cacheline.hpp"

namespace mh::coll {

inline constexpr std::uint32_t kBoards = 32;
// The number is so large that, with more ranks than cores, a root gives up its core before its ring
// of records is full.
inline constexpr std::uint32_t kRecords = 128;
// The long blocks of a board take 192 KB, so those of two boards stay in a second-level cache.
inline constexpr std::uint32_t kStaged = 16;
inline constexpr std::size_t kShortBytes = 512;         // staged data that fit into a short block
inline constexpr std::size_t kStagedBytes = 8U << 10U;  // most staged data of a member in a round
inline constexpr std::size_t kTableBytes = 4U << 10U;   // most bytes of a block table
inline constexpr std::size_t kInlineBytes = 40;         // data that fit into the record

// The place of a member's data.
enum class Route : std::uint8_t {
  library,  // none: the member leaves the collective to the MPI library
  staged,   // the record, or a short or long block of the board
  mapped,   // the member's own buffers, which all peers map
};

// A stamp is a round's number times kRouteValues, plus the route.
inline constexpr std::uint64_t kRouteValues = 4;

// Addresses in the member's process. 0: not used in this collective.
struct MappedBuffers {
  std::uint64_t source = 0;
  std::uint64_t target = 0;
};

struct alignas(kCacheLine) RoundRecord {
  // The round's number and the route. release by the owner after all other members and the data;
  // acquire by peers in has_come() and route_of().
  std::atomic<std::uint64_t> stamp{0};
  std::uint64_t terms;  // equal on all members if the program is right: call, operation, type, root
  std::uint64_t bytes;  // of the member's contribution
  union {
    MappedBuffers buffers;
    std::byte inlined[kInlineBytes];
  };
  RoundRecord() {}  // NOLINT(modernize-use-equals-default): leaves the union unwritten
};
static_assert(sizeof(RoundRecord) == kCacheLine);

struct Board {
  RoundRecord records[kRecords];
  // The last round in which the owner has read and written all mapped data. release by the
  // owner, acquire in has_finished().
  alignas(kCacheLine) std::atomic<std::uint64_t> finished{0};
  alignas(kCacheLine) std::byte short_blocks[kRecords][kShortBytes];
  alignas(kCacheLine) std::byte long_blocks[kStaged][kTableBytes + kStagedBytes];

  // For a new group, while no member uses the board.
  void reset() {
    for (RoundRecord& record : records) record.stamp.store(0, std::memory_order_relaxed);
    finished.store(0, std::memory_order_relaxed);
  }
};

class BoardGroup {
 public:
  BoardGroup() = default;
  // `boards`: of all members, in the same order on each of them. `me`: this rank's index.
  BoardGroup(std::vector<Board*> boards, std::uint32_t me) : boards_(std::move(boards)), me_(me) {}

  [[nodiscard]] explicit operator bool() const { return !boards_.empty(); }
  [[nodiscard]] std::uint32_t me() const { return me_; }
  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(boards_.size()); }

  // Begins the next round. wait(done) must return when done() is true. begin() calls wait() only if
  // a member is so late that the place of this rank's record is still in use (R2).
  template <class Wait>
  void begin(Wait&& wait) {
    ++number_;
    await_place(kRecords, wait);
  }

  // Returns the place for this rank's `bytes` bytes of staged data, at most kTableBytes +
  // kStagedBytes. Called before publish_staged(). `wait`: as for begin(), if a long block is still
  // in use.
  template <class Wait>
  [[nodiscard]] std::byte* stage(std::uint64_t bytes, Wait&& wait) {
    if (bytes > kShortBytes) await_place(kStaged, wait);
    return staged_on(board(), bytes);
  }
  void publish_staged(std::uint64_t terms, std::uint64_t bytes) {
    record().bytes = bytes;
    publish(Route::staged, terms);
  }
  void publish_mapped(std::uint64_t terms, std::uint64_t bytes, const MappedBuffers& buffers) {
    record().bytes = bytes;
    record().buffers = buffers;
    publish(Route::mapped, terms);
  }
  void publish_library(std::uint64_t terms) { publish(Route::library, terms); }

  // True if the member has published this round; its record may then be read.
  [[nodiscard]] bool has_come(std::uint32_t member) const {
    return number_in(stamp_of(member, number_)) == number_;
  }
  // Notes that all members have published this round: begin() looks at no member in the next
  // rounds.
  void note_all_came() { seen_ = number_; }
  [[nodiscard]] Route route_of(std::uint32_t member) const {
    return static_cast<Route>(stamp_of(member, number_) & kRouteMask);
  }
  [[nodiscard]] const RoundRecord& record_of(std::uint32_t member) const {
    return boards_[member]->records[record_at(number_)];
  }
  // Staged data of a member that published Route::staged with `bytes`.
  [[nodiscard]] const std::byte* staged_by(std::uint32_t member, std::uint64_t bytes) const {
    return staged_on(*boards_[member], bytes);
  }

  // Publishes that this rank has finished its reads and writes of mapped data in its peers' buffers
  // for this round.
  void finish() { board().finished.store(number_, std::memory_order_release); }
  [[nodiscard]] bool has_finished(std::uint32_t member) const {
    return boards_[member]->finished.load(std::memory_order_acquire) >= number_;
  }

 private:
  static constexpr std::uint64_t kRouteMask = kRouteValues - 1;

  static std::uint64_t number_in(std::uint64_t stamp) { return stamp / kRouteValues; }
  static std::size_t record_at(std::uint64_t round) { return round % kRecords; }
  // The place of `bytes` of this round's data on a board.
  [[nodiscard]] std::byte* staged_on(Board& board, std::uint64_t bytes) const {
    const std::size_t at = record_at(number_);
    if (bytes <= kInlineBytes) return board.records[at].inlined;
    return bytes <= kShortBytes ? board.short_blocks[at] : board.long_blocks[number_ % kStaged];
  }
  Board& board() { return *boards_[me_]; }
  RoundRecord& record() { return board().records[record_at(number_)]; }

  // Waits until the place of this round, of `places` used in turn, is free (R2).
  template <class Wait>
  void await_place(std::uint64_t places, Wait&& wait) {
    if (number_ < seen_ + places) return;
    // The later the round that all members have reached, the fewer looks the next rounds need.
    for (std::uint64_t ago = 1; ago < places - 1; ago *= 2) {
      if (all_reached(number_ - ago)) return;
    }
    wait([this, places] { return all_reached(number_ - places + 1); });
  }

  void publish(Route route, std::uint64_t terms) {
    record().terms = terms;
    record().stamp.store(number_ * kRouteValues | static_cast<std::uint64_t>(route),
                         std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t stamp_of(std::uint32_t member, std::uint64_t round) const {
    return boards_[member]->records[record_at(round)].stamp.load(std::memory_order_acquire);
  }
  // True if every other member has published `round` or a later round.
  bool all_reached(std::uint64_t round) {
    for (std::uint32_t member = 0; member < ranks(); ++member) {
      if (member != me_ && number_in(stamp_of(member, round)) < round) return false;
    }
    seen_ = round;
    return true;
  }

  std::vector<Board*> boards_;
  std::uint32_t me_ = 0;
  std::uint64_t number_ = 0;  // of the current round; the first is 1
  std::uint64_t seen_ = 0;    // all members have published this round
};

// The elements of a reduction that a member computes.
struct Slice {
  std::size_t begin;
  std::size_t end;
};
// The slice of rank `me`. All slices but the last ones have equal length; each begins at a multiple
// of a cache line's elements.
inline Slice slice_of(std::size_t elements, std::size_t element_bytes, std::uint32_t ranks,
                      std::uint32_t me) {
  const std::size_t grain = std::max<std::size_t>(kCacheLine / element_bytes, 1);
  const std::size_t grains = (elements + grain - 1) / grain;
  const std::size_t share = (grains + ranks - 1) / ranks * grain;
  const std::size_t begin = std::min(share * me, elements);
  return {begin, std::min(begin + share, elements)};
}

}  // namespace mh::coll
