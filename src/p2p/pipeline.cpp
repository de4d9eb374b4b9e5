// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/pipeline.hpp"

#include "base/emulated.hpp"

namespace mh::p2p {

std::uint32_t Pipeline::open(std::uint64_t bytes, std::uint32_t chunk_bytes, std::uint64_t room,
                             steal::CopyOrder order) {
  const std::uint32_t use = use_in(fills_.load(std::memory_order_relaxed)) + 1;
  const auto chunks = static_cast<std::uint32_t>((bytes + chunk_bytes - 1) / chunk_bytes);
  const auto cells =
      static_cast<std::uint32_t>(std::min<std::uint64_t>({kMostCells, chunks, room / chunk_bytes}));
  // Plain or relaxed stores suffice, because the releases at the end of this function publish them.
  move_on(std::uint64_t{cells} * chunk_bytes, room);
  bytes_ = bytes;
  chunk_bytes_ = chunk_bytes;
  order_ = order;
  chunks_.store(chunks, std::memory_order_relaxed);
  cells_used_.store(cells, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < cells; ++i)
    cells_[i].state.store(ticket_of(use, kFree), std::memory_order_relaxed);
  drains_.store(ticket_of(use, chunks), std::memory_order_release);
  fills_.store(ticket_of(use, chunks), std::memory_order_release);
  return use;
}

// Puts the cells of the next message, `bytes` bytes together, behind the cells of the last message,
// or at the beginning if they do not fit there. `room`: the bytes of all cells of the pipeline.
void Pipeline::move_on(std::uint64_t bytes, std::uint64_t room) {
  const std::uint64_t last = cells_used_.load(std::memory_order_relaxed);
  begin_ += last * chunk_bytes_;
  if (begin_ + bytes > room) begin_ = 0;
}

void Pipeline::cut(std::uint32_t index, PipelineChunk& chunk) const {
  const std::uint64_t place =
      steal::chunk_position(index, chunks_.load(std::memory_order_relaxed), order_);
  const std::uint64_t offset = place * chunk_bytes_;
  const std::uint32_t cell = index % cells_used_.load(std::memory_order_relaxed);
  chunk = {.offset = offset,
           .bytes = std::min<std::uint64_t>(chunk_bytes_, bytes_ - offset),
           .place = begin_ + std::uint64_t{cell} * chunk_bytes_,
           .cell = cell};
}

bool Pipeline::claim_fill(std::uint32_t use, PipelineChunk& chunk) {
  // acquire: pairs with the release in open(). A thread that claims a chunk then sees the
  // pipeline's fields as open() left them for the message that `use` numbers.
  std::uint64_t now = fills_.load(std::memory_order_acquire);
  for (;;) {
    if (use_in(now) != use || left_in(now) == 0) return false;
    const std::uint32_t index = chunks_.load(std::memory_order_relaxed) - left_in(now);
    if (!may_fill(use, index)) return false;
    if (fills_.compare_exchange_weak(now, now - 1, std::memory_order_acquire)) {
      emulated::touch(&fills_, emulated::Access::write);
      emulated::touch(&cells_[index % cells_used_.load(std::memory_order_relaxed)],
                      emulated::Access::read);
      cut(index, chunk);
      return true;
    }
  }
}

std::uint32_t Pipeline::find_full(std::uint32_t use, std::uint64_t& state) const {
  if (on_pipeline(use) == 0) return kMostCells;
  const std::uint32_t cells = cells_used_.load(std::memory_order_relaxed);
  const std::uint32_t first = chunks_.load(std::memory_order_relaxed) - left_in(drains_, use);
  std::uint32_t cell = first % cells;
  for (std::uint32_t looks = 0; looks < cells; ++looks) {
    // acquire: pairs with the release in pass_on() by the filler, whose bytes this thread then
    // sees.
    state = cells_[cell].state.load(std::memory_order_acquire);
    if (use_in(state) == use && left_in(state) % kTurns == kFull) return cell;
    if (++cell == cells) cell = 0;
  }
  return kMostCells;
}

bool Pipeline::claim_drain(std::uint32_t use, PipelineChunk& chunk) {
  std::uint64_t state = 0;
  for (;;) {
    const std::uint32_t cell = find_full(use, state);
    if (cell == kMostCells) return false;
    if (!cells_[cell].state.compare_exchange_strong(state, state + 1, std::memory_order_acquire))
      continue;  // another thread drains it
    drains_.fetch_sub(1, std::memory_order_relaxed);
    emulated::touch(&cells_[cell], emulated::Access::write);
    emulated::touch(&drains_, emulated::Access::write);
    cut(left_in(state) / kTurns * cells_used_.load(std::memory_order_relaxed) + cell, chunk);
    return true;
  }
}

void Pipeline::filled(const PipelineChunk& chunk) { pass_on(chunk); }

void Pipeline::pass_on(const PipelineChunk& chunk) {
  std::atomic<std::uint64_t>& state = cells_[chunk.cell].state;
  emulated::touch(&state, emulated::Access::write);
  state.store(state.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void Pipeline::drained(const PipelineChunk& chunk) {
  pass_on(chunk);
  emulated::touch(&done_, emulated::Access::write);
  // release: pairs with the acquire in over(), also if other drainers add to done_ in between.
  // After the last addition the receiver may open the pipeline for another message.
  done_.fetch_add(1, std::memory_order_release);
}

std::uint32_t Pipeline::on_pipeline(std::uint32_t use) const {
  const std::uint32_t fills = left_in(fills_, use);
  const std::uint32_t drains = left_in(drains_, use);
  return drains > fills ? drains - fills : 0;
}

bool Pipeline::fills_are_worth_lending(std::uint32_t use, std::uint32_t least) const {
  const std::uint32_t fills = left_in(fills_, use);
  const std::uint32_t cells = cells_used_.load(std::memory_order_relaxed);
  const std::uint32_t on = std::min(on_pipeline(use), cells);
  const std::uint32_t startable = std::min(fills, cells - on);
  const std::uint32_t next = chunks_.load(std::memory_order_relaxed) - fills;
  return startable != 0 && (on == 0 || startable >= least) && may_fill(use, next);
}

bool Pipeline::drains_are_worth_lending(std::uint32_t use, std::uint32_t least) const {
  const std::uint32_t ready = on_pipeline(use);
  const std::uint32_t taken = chunks_.load(std::memory_order_relaxed) - left_in(drains_, use);
  const bool nobody_drains = done_.load(std::memory_order_relaxed) == taken;
  std::uint64_t state = 0;
  return (nobody_drains || ready >= least) && find_full(use, state) != kMostCells;
}

}  // namespace mh::p2p
