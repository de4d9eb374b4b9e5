// SPDX-License-Identifier: BSD-3-Clause
// Rounds: collectives that the ranks of a node carry out themselves, by shared memory.
//
// The ranks of a communicator are the *members* of a group. Every member has a *board* in the node
// segment, and sees the boards of all members through its *board group*. In each round a member
// publishes one record on its board: whether it carries out the collective this way, the terms of
// its call, and its data. Short data go into the record, longer data into a staged block, and data
// that the peers map stay in place. The peers read the records and reach the same decision.
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
//   R4  Mapped data stay unchanged until Board::finished of every reader has reached the round.
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
// The number of records of a board, used in turn (R2). With more ranks than cores, a root has to
// give its core away when all of its records wait for members that are late. The number is so large
// that this switch to another rank, which takes 2 µs, is rare.
inline constexpr std::uint32_t kRecords = 128;
// The number of long blocks of a board, for staged data that neither a record nor a short block
// holds; rounds use them in turn (R2). Together they take 192 KB, so the long blocks of two boards
// stay in a second-level cache.
inline constexpr std::uint32_t kStaged = 16;
inline constexpr std::size_t kShortBytes = 512;         // staged data that fit into a short block
inline constexpr std::size_t kStagedBytes = 8U << 10U;  // most staged data of a member in a round
inline constexpr std::size_t kTableBytes = 4U << 10U;   // most bytes of a block table
inline constexpr std::size_t kInlineBytes = 40;         // data that fit into the record

// Tells in which place a member's data for a round lie.
enum class Route : std::uint8_t {
  library,  // none: the member offers no data. Whether the MPI library then gets the collective
            // depends on the call (collective/round.hpp).
  staged,   // the record, or a short or long block of the board
  mapped,   // the member's own buffers, which all peers map
};

// The stamp of a record is its round's number times kRouteValues, plus its Route.
inline constexpr std::uint64_t kRouteValues = 4;

// The buffers that a member publishes with Route::mapped, as addresses in the member's process. 0:
// the collective does not use this buffer.
struct MappedBuffers {
  std::uint64_t source = 0;
  std::uint64_t target = 0;
};

struct alignas(kCacheLine) RoundRecord {
  // The number of the record's round, and the member's Route. The board's owner stores the stamp
  // with release, after the other fields of the record and the staged data. Peers acquire it in
  // has_come() and route_of(), and then see these fields and data.
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
  // The last round in which the board's owner has finished its reads and writes of mapped data in
  // its peers' buffers. release by the owner, acquire by the peers in has_finished().
  alignas(kCacheLine) std::atomic<std::uint64_t> finished{0};
  alignas(kCacheLine) std::byte short_blocks[kRecords][kShortBytes];
  alignas(kCacheLine) std::byte long_blocks[kStaged][kTableBytes + kStagedBytes];

  // Clears the board for a new group. Called while no member uses the board.
  void reset() {
    for (RoundRecord& record : records) record.stamp.store(0, std::memory_order_relaxed);
    finished.store(0, std::memory_order_relaxed);
  }
};

class BoardGroup {
 public:
  BoardGroup() = default;
  // `boards`: the boards of all members, in the same order on each member. `me`: the index of this
  // rank's board in `boards`.
  BoardGroup(std::vector<Board*> boards, std::uint32_t me) : boards_(std::move(boards)), me_(me) {}

  [[nodiscard]] explicit operator bool() const { return !boards_.empty(); }
  [[nodiscard]] std::uint32_t me() const { return me_; }
  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(boards_.size()); }

  // Begins the next round. The caller's wait(done) blocks until done() is true. begin() calls
  // wait() only if a member is so late that it may still read the record whose place this round
  // reuses (R2).
  template <class Wait>
  void begin(Wait&& wait) {
    ++number_;
    await_place(kRecords, wait);
  }

  // Returns the place to which the caller writes this rank's `bytes` bytes of staged data, at most
  // kTableBytes + kStagedBytes. Called before publish_staged(). Calls wait(), as begin() does, if a
  // late member may still read the long block that this round reuses.
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
  // Notes that all members have published this round. begin() then need not look at the members'
  // records in the next rounds, until this rank is about to reuse the place of this round's record
  // (R2).
  void note_all_came() { seen_ = number_; }
  [[nodiscard]] Route route_of(std::uint32_t member) const {
    return static_cast<Route>(stamp_of(member, number_) & kRouteMask);
  }
  [[nodiscard]] const RoundRecord& record_of(std::uint32_t member) const {
    return boards_[member]->records[record_at(number_)];
  }
  // The staged data, `bytes` bytes long, of a member that published Route::staged in this round.
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
  // The place on `board` of `bytes` bytes of staged data of the current round: in the record, in a
  // short block, or in a long block, whichever is long enough.
  [[nodiscard]] std::byte* staged_on(Board& board, std::uint64_t bytes) const {
    const std::size_t at = record_at(number_);
    if (bytes <= kInlineBytes) return board.records[at].inlined;
    return bytes <= kShortBytes ? board.short_blocks[at] : board.long_blocks[number_ % kStaged];
  }
  Board& board() { return *boards_[me_]; }
  RoundRecord& record() { return board().records[record_at(number_)]; }

  // Waits until this rank may write to the place that the current round uses (R2): a record or a
  // long block, one of `places` on this rank's board that are used in turn.
  template <class Wait>
  void await_place(std::uint64_t places, Wait&& wait) {
    if (number_ < seen_ + places) return;
    // The latest rounds are tested first. The later the round that all members are known to have
    // published, the more of the next rounds need no look at the members' records.
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

// The elements of a reduction that one member computes: from `begin` up to, but not including,
// `end`.
struct Slice {
  std::size_t begin;
  std::size_t end;
};
// The slice of member `me` of `ranks` members. All slices but the last ones have equal length. Each
// begins at a multiple of the number of elements in a cache line.
inline Slice slice_of(std::size_t elements, std::size_t element_bytes, std::uint32_t ranks,
                      std::uint32_t me) {
  const std::size_t grain = std::max<std::size_t>(kCacheLine / element_bytes, 1);
  const std::size_t grains = (elements + grain - 1) / grain;
  const std::size_t share = (grains + ranks - 1) / ranks * grain;
  const std::size_t begin = std::min(share * me, elements);
  return {begin, std::min(begin + share, elements)};
}

}  // namespace mh::coll
