// SPDX-License-Identifier: BSD-3-Clause
// The job slots of a rank: its jobs in shared memory, and the slots that are in use.
//
// JobSlots is a rank's part in the node segment. A thief that finds the rank on its work board
// (ranks with open jobs) reads `open`, and then only the jobs whose bits are set. SlotBits is
// private to the owner's process: it allocates slots and maintains the two hints for thieves,
// `open` and the work boards. An owner posts on its own board first, and on as many others as its
// chunks need helpers. Further ranks would find no chunk, and take cache lines away from the
// ranks that copy.
// A lost or stale hint costs help, never correctness: the job decides whether a chunk is left, and
// the owner finishes its job alone if no thief comes. SlotKeeper opens jobs in JobSlots.
//
// Threads: any thread of the owner; a job belongs to the thread that opened it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/cacheline.hpp"
#include "base/slot_set.hpp"
#include "node/rank.hpp"
#include "steal/job.hpp"

namespace mh::steal {

inline constexpr std::uint32_t kSlots = 16;

struct alignas(kCacheLine) JobSlots {
  // Bit i is set while jobs[i] may have chunks left. The owner writes it, thieves read it. relaxed:
  // a hint, since the job decides whether a chunk is left.
  std::atomic<std::uint32_t> open{0};
  Job jobs[kSlots];
  Shapes shapes[kSlots];  // of jobs[i]
};
static_assert(std::is_standard_layout_v<JobSlots>);
static_assert(sizeof(JobSlots) == kCacheLine + kSlots * (sizeof(Job) + sizeof(Shapes)));

// Allocates the job slots of a rank. Tells thieves which slots may have work, by two hints: a word
// of bits for the slots, and the rank's bit on the work board (the ranks with open jobs,
// node/rank.hpp). Limit: 32 slots.
class SlotBits {
 public:
  static constexpr std::uint32_t kNone = SlotSet<32>::kNone;

  // Makes the object of rank `rank`, which has `slots` slots. Bit i of `open` tells thieves that
  // slot i may have work. `boards`: the work boards of the node, one for each node::kBoardRanks
  // ranks; or a single board, which then serves all ranks.
  SlotBits(std::atomic<std::uint32_t>& open, std::span<node::WorkBoard> boards, std::uint32_t rank,
           std::uint32_t slots)
      : open_(&open),
        boards_(boards),
        rank_(rank),
        own_board_(boards.size() == 1 ? 0 : rank / node::kBoardRanks),
        slots_(slots) {}

  // Allocates a slot for the calling thread; kNone if all are in use. No thief finds the slot
  // before a call of show().
  std::uint32_t take() { return used_.take(slots_); }
  // Posts the rank on its own board, and on others for `helpers` further ranks.
  void show(std::uint32_t slot, std::uint32_t helpers = UINT32_MAX);
  // False if all ranks look at one board. Callers then need not read how many ranks a job wants.
  [[nodiscard]] bool has_boards_of_others() const { return boards_.size() > 1; }
  // Posts the rank on further boards, for `helpers` more ranks, unless the slot is hidden.
  void show_more(std::uint32_t slot, std::uint32_t helpers);
  // Takes back the hints of show(), so that thieves no longer look at the slot. Optional; may be
  // called several times.
  void hide(std::uint32_t slot);
  void give_back(std::uint32_t slot);

  [[nodiscard]] bool any_in_use() const { return used_.any(); }

 private:
  // Returns the index of a board in the order of posts: by exclusive or, so the own board comes
  // first, then its neighbour, then the next two. An index of boards_.size() or more: no board.
  [[nodiscard]] std::uint32_t board_at(std::uint32_t step) const { return own_board_ ^ step; }
  void post(std::uint32_t helpers);
  void clear();

  std::atomic<std::uint32_t>* open_;
  std::span<node::WorkBoard> boards_;
  std::uint32_t rank_;
  std::uint32_t own_board_;  // index of the board at which this rank looks
  std::uint32_t slots_;
  SlotSet<32> used_;
  std::atomic<std::uint32_t> shown_{0};  // boards up to this step have the rank posted
};

// The ranks that may find a job: all ranks of the node, by the work board (the ranks with open
// jobs), or only the sender. The sender of a message reads the job's number in its send slot.
enum class JobVisibility : std::uint8_t { node, sender };

class SlotKeeper {
 public:
  SlotKeeper(JobSlots& slots, std::span<node::WorkBoard> boards, std::uint32_t rank)
      : slots_(&slots), bits_(slots.open, boards, rank, kSlots) {}

  // Opens a job with this work and returns it; null if all slots are in use (the caller then copies
  // alone, or waits for one of its jobs). work.bytes and work.chunk_bytes are not 0. `shapes`: the
  // shapes of both ends, if work.shaped is true. `first`: receives the owner's first claim, made
  // before another rank sees the job.
  Job* open(const CopySpec& work, const Shapes* shapes = nullptr,
            JobVisibility visibility = JobVisibility::node, Chunk* first = nullptr);

  // Called by the owner after each chunk that it has copied: shows the job to as many further ranks
  // as the chunks left are enough for. Idle ranks that already saw the job would have claimed these
  // chunks, so the ranks that see it are busy.
  void show_more(const Job& job) {
    if (bits_.has_boards_of_others()) bits_.show_more(slot_of(job), job.wanted_ranks());
  }

  // Hides a job whose chunks are all claimed, so that thieves no longer look at it. Thieves may
  // still be copying claimed chunks.
  void hide(const Job& job) { bits_.hide(slot_of(job)); }
  // Frees the job's slot. Called after job.finished(), or once no living thread holds a chunk of
  // the job.
  void close(const Job& job) { bits_.give_back(slot_of(job)); }

  [[nodiscard]] bool any_in_use() const { return bits_.any_in_use(); }

 private:
  [[nodiscard]] std::uint32_t slot_of(const Job& job) const {
    return static_cast<std::uint32_t>(&job - slots_->jobs);
  }

  JobSlots* slots_;
  SlotBits bits_;
};

}  // namespace mh::steal
