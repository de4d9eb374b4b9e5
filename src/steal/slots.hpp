// SPDX-License-Identifier: BSD-3-Clause
// Where a rank's jobs lie, and which of them are in use.
//
// JobSlots is the part in the node segment, one per rank: a thief that finds the rank on the work
// board reads `open` and looks at those jobs only. SlotBits is the owner's private side of any such
// slots: it hands out free ones and keeps `open` and the work board true enough to be hints. A lost
// or stale hint costs help, never a byte: the ticket of the job decides, and the owner finishes its
// job alone if nobody comes. SlotKeeper opens jobs in JobSlots.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"
#include "base/slot_set.hpp"
#include "node/rank.hpp"
#include "steal/job.hpp"

namespace mh::steal {

inline constexpr std::uint32_t kSlots = 16;

struct alignas(kCacheLine) JobSlots {
  // Bit i: jobs[i] may have chunks left. Written by the owner, read by thieves; relaxed, a hint.
  std::atomic<std::uint32_t> open{0};
  Job jobs[kSlots];
  Shapes shapes[kSlots];  // of jobs[i]
};
static_assert(std::is_standard_layout_v<JobSlots>);
static_assert(sizeof(JobSlots) == kCacheLine + kSlots * (sizeof(Job) + sizeof(Shapes)));

// Of at most 32 slots. Any thread of the owner may call.
class SlotBits {
 public:
  static constexpr std::uint32_t kNone = SlotSet<32>::kNone;

  // `open`: bit i says that slot i is worth a look; thieves read it.
  SlotBits(std::atomic<std::uint32_t>& open, node::WorkBoard& board, std::uint32_t rank,
           std::uint32_t slots)
      : open_(&open), board_(&board), rank_(rank), slots_(slots) {}

  // A slot for the calling thread, not shown yet; kNone while all are in use.
  std::uint32_t take() { return used_.take(slots_); }
  void show(std::uint32_t slot);
  // Nobody needs to come and look any more. Optional, idempotent.
  void hide(std::uint32_t slot);
  void give_back(std::uint32_t slot);

  [[nodiscard]] bool any_in_use() const { return used_.any(); }

 private:
  std::atomic<std::uint32_t>* open_;
  node::WorkBoard* board_;
  std::uint32_t rank_;
  std::uint32_t slots_;
  SlotSet<32> used_;
};

// Who is to find a job: all that look at the work board, or nobody but those that are told.
enum class Audience : std::uint8_t { node, told };

// Any thread of the owner may call; a job itself belongs to the thread that opened it.
class SlotKeeper {
 public:
  SlotKeeper(JobSlots& slots, node::WorkBoard& board, std::uint32_t rank)
      : slots_(&slots), bits_(slots.open, board, rank, kSlots) {}

  // A job with this work; null while all slots are in use (the caller then copies alone or waits
  // for one of its jobs). work.bytes and work.chunk_bytes are not 0; `shapes` where the work is
  // shaped.
  Job* open(const Work& work, const Shapes* shapes = nullptr, Audience audience = Audience::node);

  // No chunk is left to claim, though some may still be in the hands of thieves: hides the job.
  void hide(const Job& job) { bits_.hide(slot_of(job)); }
  // After job.finished(), or once nobody living has a chunk of it: the slot may be reused.
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
