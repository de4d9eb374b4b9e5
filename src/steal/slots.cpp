// SPDX-License-Identifier: BSD-3-Clause
#include "steal/slots.hpp"

#include <bit>

namespace mh::steal {

std::uint32_t SlotBits::take() {
  const std::uint32_t all = ~0U >> (32 - slots_);
  std::uint32_t used = used_.load(std::memory_order_relaxed);
  std::uint32_t bit = 0;
  do {
    if (used == all) return kNone;
    bit = ~used & (used + 1);  // the lowest free one
    // acquire: pairs with the release in give_back(); the thread that used the slot before is done
    // with it.
  } while (!used_.compare_exchange_weak(used, used | bit, std::memory_order_acquire,
                                        std::memory_order_relaxed));
  return static_cast<std::uint32_t>(std::countr_zero(bit));
}

void SlotBits::show(std::uint32_t slot) {
  // relaxed, both: hints. A thief that sees them early finds a closed ticket and goes away.
  open_->fetch_or(1U << slot, std::memory_order_relaxed);
  board_->post(rank_);
}

void SlotBits::hide(std::uint32_t slot) {
  const std::uint32_t bit = 1U << slot;
  // relaxed: only this rank writes `open`; a look first, because the owner comes here in a loop.
  if ((open_->load(std::memory_order_relaxed) & bit) == 0) return;
  const std::uint32_t before = open_->fetch_and(~bit, std::memory_order_relaxed);
  if (before != bit) return;  // hidden already, or others are still to be seen
  board_->clear(rank_);
  // Another thread of this rank may have shown a slot between the two; its post must not be lost.
  if (open_->load(std::memory_order_relaxed) != 0) board_->post(rank_);
}

void SlotBits::give_back(std::uint32_t slot) {
  hide(slot);
  // release: pairs with the acquire in take().
  used_.fetch_and(~(1U << slot), std::memory_order_release);
}

Job* SlotKeeper::open(const Work& work, const Shapes* shapes) {
  const std::uint32_t slot = bits_.take();
  if (slot == SlotBits::kNone) return nullptr;
  Job& job = slots_->jobs[slot];
  if (shapes != nullptr) slots_->shapes[slot] = *shapes;
  job.open(work);
  bits_.show(slot);
  return &job;
}

}  // namespace mh::steal
