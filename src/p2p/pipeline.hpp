// SPDX-License-Identifier: BSD-3-Clause
// A pipeline carries a message that no single process can copy from the send buffer to the receive
// buffer, because the data are scattered or the kernel refuses to copy between processes.
//
// The message is cut into *chunks*, ranges of its packed stream, which travel in *cells* of shared
// memory. Threads of the sender's process *fill* cells, threads of the receiver's process *drain*
// them. The i-th chunk to be filled travels in cell i % cells, and a thread fills the next chunk as
// soon as its cell is free. A thread drains any cell that is full, so no drainer waits for a filler
// that is stalled. Chunks are filled from the low end of the packed stream, or from its high end.
//
// The cells of a message lie behind the cells of the previous message if there is room, else at the
// beginning. A cell that was just drained is in the caches of both cores, and filling it again
// would take two to four times as long (docs/decisions/pipelines).
//
// A pipeline belongs to its receiver, which opens it for one message after another. Each message is
// a *use*, and every claim names its use. Therefore a delayed thread cannot claim a chunk of a
// later message. A Pipeline lies in the node segment, and its cells lie elsewhere in the segment.
// Limits: 2^30 chunks a message; a claim is valid until 2^32 messages later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/cacheline.hpp"
#include "steal/job.hpp"

namespace mh::p2p {

// A claimed chunk: a part of the packed stream, and the cell in which it travels.
struct PipelineChunk {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t place;  // of its cell, from the pipeline's beginning
  std::uint32_t cell;
};

// Invariants. A *ticket* is a word (use, chunks left): one for fills, one for drains. The state of
// a cell is a word (use, turn). *Line 0* is the members from bytes_ to cells_used_.
//   B1  A claim to fill changes the ticket of fills, a claim to drain the state of a cell, by
//       compare-and-swap; open() starts the next use of both. Therefore a successful claim is of
//       the use that it names.
//   B2  Line 0 changes only between the last increment of done_ in a use and the release of the
//       next tickets. A thread that holds a claimed chunk therefore reads the line 0 of its use. A
//       read without a claim may see any value (but no cells_used_ of 0); a claim by a stale value
//       fails (B1).
//   B3  Chunk i travels in round r = i / cells of its cell. In that round the cell is free at turn
//       3r, full at 3r + 1 and being drained at 3r + 2. The filler of chunk i, the claim to drain
//       and the drainer each take the turn on by one. So a cell has one user at a time.
class alignas(kCacheLine) Pipeline {
 public:
  static constexpr std::uint32_t kMostCells = 32;  // of one message at a time

  // Called by the receiver, while the pipeline is new, or its last message is over. Opens the
  // pipeline for a message of `bytes` bytes in chunks of `chunk_bytes` bytes. All cells together
  // have `room` bytes, at least one chunk. No argument is 0. Returns the number of the use, which
  // claims must name. Chunks are filled from the high end for `high_to_low`, else from the low end.
  std::uint32_t open(std::uint64_t bytes, std::uint32_t chunk_bytes, std::uint64_t room,
                     steal::CopyOrder order = steal::CopyOrder::low_to_high);

  // Called in the sender's process, or in the receiver's if it can read the send buffer. True if
  // the caller has claimed a chunk: it must fill the chunk's cell, and then call filled().
  [[nodiscard]] bool claim_fill(std::uint32_t use, PipelineChunk& chunk);
  void filled(const PipelineChunk& chunk);

  // Called in the receiver's process. True if the caller has claimed a chunk: it must drain the
  // chunk's cell, and then call drained().
  [[nodiscard]] bool claim_drain(std::uint32_t use, PipelineChunk& chunk);
  void drained(const PipelineChunk& chunk);

  // Called by the receiver. True once every chunk of the message is drained; its bytes are then
  // visible to the caller.
  [[nodiscard]] bool over() const {
    // acquire: pairs with the release in drained().
    return done_.load(std::memory_order_acquire) == chunks_.load(std::memory_order_relaxed);
  }
  // The number of chunks of the message `use` that no thread has claimed to fill, or to drain; 0 if
  // that message is over. relaxed: hints.
  [[nodiscard]] std::uint32_t fills_left(std::uint32_t use) const { return left_in(fills_, use); }
  [[nodiscard]] std::uint32_t drains_left(std::uint32_t use) const { return left_in(drains_, use); }
  // Hints, from relaxed loads, for a rank that may lend its core to the sender's process, to fill,
  // or to the receiver's process, to drain. True if that process could begin `least` chunks at
  // once, or one chunk if no thread of that process works on the message.
  [[nodiscard]] bool fills_are_worth_lending(std::uint32_t use, std::uint32_t least) const;
  [[nodiscard]] bool drains_are_worth_lending(std::uint32_t use, std::uint32_t least) const;

 private:
  friend struct PipelineTestAccess;  // pauses between look and claim

  using Ticket = std::atomic<std::uint64_t>;
  struct alignas(kCacheLine) PipelineCell {
    // The word (use, turn): the number of the message, and how far the cell has come, from free to
    // full to being drained (B3). Release in pass_on(), acquire before each claim, so that a thread
    // sees the work of the cell's previous turn. The claim to drain publishes nothing. The stores
    // of open() are published by the tickets.
    std::atomic<std::uint64_t> state{0};
  };
  // The three turns of a cell within a round (B3): free, full, and, without a name here, being
  // drained.
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kFull = 1;
  static constexpr std::uint32_t kTurns = 3;

  static constexpr std::uint64_t ticket_of(std::uint32_t use, std::uint32_t left) {
    return std::uint64_t{use} << 32U | left;
  }
  static std::uint32_t use_in(std::uint64_t ticket) {
    return static_cast<std::uint32_t>(ticket >> 32U);
  }
  static std::uint32_t left_in(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket); }
  // The number of chunks of the message `use` that a ticket, a word (use, chunks left), counts as
  // left; 0 if that message is over.
  static std::uint32_t left_in(const Ticket& ticket, std::uint32_t use) {
    const std::uint64_t now = ticket.load(std::memory_order_relaxed);
    return use_in(now) == use ? left_in(now) : 0;
  }

  // The number of chunks of the message `use` that a thread has claimed to fill, and that no thread
  // has claimed to drain.
  [[nodiscard]] std::uint32_t on_pipeline(std::uint32_t use) const;
  // True if the cell in which chunk `index` of the message `use` travels is free for that chunk.
  [[nodiscard]] bool may_fill(std::uint32_t use, std::uint32_t index) const {
    const std::uint32_t cells = cells_used_.load(std::memory_order_relaxed);
    // acquire: pairs with the release in pass_on() by the cell's drainer, which has read the
    // previous chunk.
    return cells_[index % cells].state.load(std::memory_order_acquire) ==
           ticket_of(use, kTurns * (index / cells) + kFree);
  }
  // Returns the index of a full cell of the message `use`, and sets `state` to that cell's state;
  // kMostCells if no cell is full. The search begins behind the cells of the chunks that were
  // claimed to drain.
  [[nodiscard]] std::uint32_t find_full(std::uint32_t use, std::uint64_t& state) const;
  void cut(std::uint32_t index, PipelineChunk& chunk) const;
  void pass_on(const PipelineChunk& chunk);
  void move_on(std::uint64_t bytes, std::uint64_t room);

  // These members, up to cells_used_ (line 0 in the invariants), are written by the receiver while
  // no message is under way. The members that threads read before a claim are atomic. relaxed: a
  // stale value makes the claim fail (B2).
  std::uint64_t bytes_ = 0;
  std::uint64_t begin_ = 0;  // of the use's cells, from the pipeline's beginning
  std::uint32_t chunk_bytes_ = 0;
  steal::CopyOrder order_ = steal::CopyOrder::low_to_high;
  std::atomic<std::uint32_t> chunks_{0};
  std::atomic<std::uint32_t> cells_used_{1};
  // Each of these words has a cache line of its own, because each has its own users. The function
  // open() stores fills_ (release), and a filler reads fills_ before its claim (acquire). The claim
  // therefore sees line 0 and the cells as open() left them; it publishes nothing. A drainer sees
  // line 0 by the state of its cell, which a filler of the use has changed. The word drains_ only
  // counts: it changes after each claim to drain. The word done_ counts the drained chunks.
  alignas(kCacheLine) Ticket fills_{0};
  alignas(kCacheLine) Ticket drains_{0};
  alignas(kCacheLine) std::atomic<std::uint32_t> done_{0};
  PipelineCell cells_[kMostCells];
};
static_assert(std::is_standard_layout_v<Pipeline>);

}  // namespace mh::p2p
