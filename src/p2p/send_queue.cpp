// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/send_queue.hpp"

namespace mh::p2p {
namespace {

// A field that posted() reads while it may be written.
template <class T>
void put(T& field, T value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}
template <class T>
T get(const T& field) {
  return std::atomic_ref<T>(const_cast<T&>(field)).load(std::memory_order_relaxed);
}

}  // namespace

std::optional<Posted> SendSlot::posted() const {
  const std::uint64_t before = word.load(std::memory_order_acquire);
  if (state_in(before) != SlotState::posted) return std::nullopt;
  const Posted copy{.generation = before >> kStateBits,
                    .bytes = get(bytes),
                    .communicator = get(communicator),
                    .sequence = get(sequence),
                    .tag = get(tag),
                    .to = get(to),
                    .ordered = get(ordered)};
  // acquire: pairs with the fence in Send queue::post().
  std::atomic_thread_fence(std::memory_order_acquire);
  if (word.load(std::memory_order_relaxed) != before) return std::nullopt;
  return copy;
}

std::uint32_t SendQueue::post(const NewSend& send, std::uint32_t fin_tag) {
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
      const std::uint64_t generation = slot.generation() + 1;
      // release: pairs with the fence in posted(). Who reads what is written from here on finds
      // that the send descriptor before is over.
      std::atomic_thread_fence(std::memory_order_release);
      slot.from = send.from;
      put(slot.bytes, send.bytes);
      put(slot.communicator, send.communicator);
      put(slot.sequence, sequence_.fetch_add(1, std::memory_order_relaxed));
      put(slot.tag, send.tag);
      put(slot.to, send.to);
      put(slot.ordered, send.ordered ? 1U : 0U);
      slot.contiguous = send.contiguous ? 1 : 0;
      slot.shaped = send.shape != nullptr ? 1 : 0;
      if (send.shape != nullptr) shared_->shapes[index] = *send.shape;
      slot.fin_tag = fin_tag == kOwnTag ? SendSlot::own_fin(index, generation) : fin_tag;
      slot.word.store(SendSlot::word_of(generation, SlotState::posted), std::memory_order_release);
      return index;
    }
  }
  return kNone;
}

void SendQueue::release(std::uint32_t index) {
  shared_->slots[index].change(SlotState::free);
  used_.fetch_sub(1, std::memory_order_relaxed);
  taken_[index / 64].fetch_and(~(1ULL << (index % 64)), std::memory_order_release);
}

}  // namespace mh::p2p
