// SPDX-License-Identifier: BSD-3-Clause
#include "steal/slots.hpp"

#include <bit>

namespace mh::steal {

Job* SlotKeeper::open(const Work& work, const Shapes* shapes) {
  constexpr std::uint32_t kAll = (1ULL << kSlots) - 1;
  std::uint32_t used = used_.load(std::memory_order_relaxed);
  std::uint32_t bit = 0;
  do {
    if (used == kAll) return nullptr;
    bit = ~used & (used + 1);  // the lowest free one
    // acquire: pairs with the release in close(); the thread that used the slot before is done with
    // it.
  } while (!used_.compare_exchange_weak(used, used | bit, std::memory_order_acquire,
                                        std::memory_order_relaxed));
  Job& job = slots_->jobs[std::countr_zero(bit)];
  if (shapes != nullptr) slots_->shapes[std::countr_zero(bit)] = *shapes;
  job.open(work);
  // relaxed, both: hints. A thief that sees them early finds a closed ticket and goes away.
  slots_->open.fetch_or(bit, std::memory_order_relaxed);
  board_->post(rank_);
  return &job;
}

void SlotKeeper::hide(const Job& job) {
  const std::uint32_t bit = bit_of(job);
  // relaxed: only this rank writes `open`; a look first, because the owner comes here in a loop.
  if ((slots_->open.load(std::memory_order_relaxed) & bit) == 0) return;
  const std::uint32_t before = slots_->open.fetch_and(~bit, std::memory_order_relaxed);
  if (before != bit) return;  // hidden already, or others are still to be seen
  board_->clear(rank_);
  // Another thread of this rank may have opened a job between the two; its post must not be lost.
  if (slots_->open.load(std::memory_order_relaxed) != 0) board_->post(rank_);
}

void SlotKeeper::close(Job& job) {
  hide(job);
  // release: pairs with the acquire in open().
  used_.fetch_and(~bit_of(job), std::memory_order_release);
}

}  // namespace mh::steal
