// SPDX-License-Identifier: BSD-3-Clause
#include "steal/slots.hpp"

#include <bit>

#include "base/emulated.hpp"

namespace mh::steal {

void SlotBits::post(std::uint32_t helpers) {
  const auto boards = static_cast<std::uint32_t>(boards_.size());
  // acquire: pairs with the release in clear(); the boards are then posted after they were cleared.
  std::uint32_t before = shown_.load(std::memory_order_acquire);
  std::uint32_t wanted = helpers / node::kBoardRanks + (before == 0 ? 2 : 1);
  std::uint32_t step = before;
  for (; step < std::bit_ceil(boards) && wanted > 0; ++step) {
    if (board_at(step) >= boards) continue;
    boards_[board_at(step)].post(rank_);
    --wanted;
  }
  // This comes after the posts: another thread that clears meanwhile leaves the boards just posted
  // on to the next clear().
  // release: pairs with the acquire in clear().
  while (before < step && !shown_.compare_exchange_weak(before, step, std::memory_order_release)) {
  }
}

void SlotBits::clear() {
  // acquire and release: pair with those of post().
  const std::uint32_t shown = shown_.exchange(0, std::memory_order_acq_rel);
  for (std::uint32_t step = 0; step < shown; ++step) {
    if (board_at(step) < boards_.size()) boards_[board_at(step)].clear(rank_);
  }
}

void SlotBits::show_more(std::uint32_t slot, std::uint32_t helpers) {
  if (helpers == 0) return;
  // relaxed: only threads of this rank write `open`.
  if ((open_->load(std::memory_order_relaxed) & 1U << slot) != 0) post(helpers);
}

void SlotBits::show(std::uint32_t slot, std::uint32_t helpers) {
  // relaxed: `open` and the work board are hints. A thief that sees a hint before the job is open
  // finds no chunk.
  emulated::touch(open_, emulated::Access::write);
  open_->fetch_or(1U << slot, std::memory_order_relaxed);
  post(helpers);
}

void SlotBits::hide(std::uint32_t slot) {
  const std::uint32_t bit = 1U << slot;
  // relaxed: only threads of this rank write `open`. The load comes before the write (fetch_and),
  // which it mostly saves: the owner calls this function again and again while it waits.
  if ((open_->load(std::memory_order_relaxed) & bit) == 0) return;
  emulated::touch(open_, emulated::Access::write);
  const std::uint32_t before = open_->fetch_and(~bit, std::memory_order_relaxed);
  if (before != bit) return;  // already hidden, or other slots are still shown
  clear();
  // Another thread of this rank may have shown a slot after this thread has cleared the bit of its
  // own slot (fetch_and). The rank must then stay on the work boards. That thread may have posted
  // only on boards behind those that this thread has cleared, so all are posted anew.
  if (open_->load(std::memory_order_relaxed) == 0) return;
  shown_.store(0, std::memory_order_relaxed);
  post(UINT32_MAX);
}

void SlotBits::give_back(std::uint32_t slot) {
  hide(slot);
  used_.give_back(slot);
}

Job* SlotKeeper::open(const CopySpec& work, const Shapes* shapes, JobVisibility visibility,
                      Chunk* first) {
  const std::uint32_t slot = bits_.take();
  if (slot == SlotBits::kNone) return nullptr;
  Job& job = slots_->jobs[slot];
  if (shapes != nullptr) slots_->shapes[slot] = *shapes;
  job.open(work, first);
  if (visibility == JobVisibility::node) bits_.show(slot, job.wanted_ranks());
  return &job;
}

}  // namespace mh::steal
