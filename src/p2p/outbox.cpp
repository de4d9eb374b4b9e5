// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/outbox.hpp"

namespace mh::p2p {

std::uint32_t Outbox::post(const Letter& letter, std::uint32_t fin_tag) {
  for (std::uint32_t word = 0; word < kWords; ++word) {
    std::uint64_t bits = taken_[word].load(std::memory_order_relaxed);
    while (~bits != 0) {
      const auto bit = static_cast<std::uint32_t>(__builtin_ctzll(~bits));
      if (!taken_[word].compare_exchange_weak(bits, bits | (1ULL << bit), std::memory_order_acquire,
                                              std::memory_order_relaxed)) {
        continue;
      }
      const std::uint32_t index = word * 64 + bit;
      used_.fetch_add(1, std::memory_order_relaxed);
      SendSlot& slot = shared_->slots[index];
      slot.from = letter.from;
      slot.bytes = letter.bytes;
      slot.communicator = letter.communicator;
      slot.sequence = sequence_.fetch_add(1, std::memory_order_relaxed);
      slot.tag = letter.tag;
      slot.to = letter.to;
      slot.dense = letter.dense ? 1 : 0;
      slot.fin_tag = fin_tag == kOwnTag ? index : fin_tag;
      slot.word.store(SendSlot::word_of(slot.generation() + 1, SlotState::posted),
                      std::memory_order_release);
      return index;
    }
  }
  return kNone;
}

void Outbox::release(std::uint32_t index) {
  shared_->slots[index].change(SlotState::free);
  used_.fetch_sub(1, std::memory_order_relaxed);
  taken_[index / 64].fetch_and(~(1ULL << (index % 64)), std::memory_order_release);
}

}  // namespace mh::p2p
