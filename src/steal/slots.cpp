// SPDX-License-Identifier: BSD-3-Clause
#include "steal/slots.hpp"

#include "base/emulated.hpp"

namespace mh::steal {

void SlotBits::show(std::uint32_t slot) {
  // relaxed: the bit in `open` and the rank's bit on the work board are hints. A thief that sees a
  // hint before the job is open finds no chunk.
  emulated::touch(open_, emulated::Access::write);
  open_->fetch_or(1U << slot, std::memory_order_relaxed);
  board_->post(rank_);
}

void SlotBits::hide(std::uint32_t slot) {
  const std::uint32_t bit = 1U << slot;
  // relaxed: only threads of this rank write `open`. The load comes before the write (fetch_and),
  // which it mostly saves: the owner calls this function again and again while it waits.
  if ((open_->load(std::memory_order_relaxed) & bit) == 0) return;
  emulated::touch(open_, emulated::Access::write);
  const std::uint32_t before = open_->fetch_and(~bit, std::memory_order_relaxed);
  if (before != bit) return;  // already hidden, or other slots are still shown
  board_->clear(rank_);
  // Another thread of this rank may have shown its job slot after this thread has cleared the bit
  // of its own slot (fetch_and). The rank's bit must then stay set on the work board, where thieves
  // look for ranks with open jobs.
  if (open_->load(std::memory_order_relaxed) != 0) board_->post(rank_);
}

void SlotBits::give_back(std::uint32_t slot) {
  hide(slot);
  used_.give_back(slot);
}

Job* SlotKeeper::open(const CopySpec& work, const Shapes* shapes, JobVisibility visibility) {
  const std::uint32_t slot = bits_.take();
  if (slot == SlotBits::kNone) return nullptr;
  Job& job = slots_->jobs[slot];
  if (shapes != nullptr) slots_->shapes[slot] = *shapes;
  job.open(work);
  if (visibility == JobVisibility::node) bits_.show(slot);
  return &job;
}

}  // namespace mh::steal
