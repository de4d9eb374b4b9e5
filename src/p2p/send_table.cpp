// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/send_table.hpp"

#include "base/clock.hpp"

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
                    .ordered = get(ordered),
                    .synchronous = get(synchronous),
                    .posted_at = get(posted_at)};
  // acquire: pairs with the fence in SendTable::post().
  std::atomic_thread_fence(std::memory_order_acquire);
  if (word.load(std::memory_order_relaxed) != before) return std::nullopt;
  return copy;
}

std::uint32_t SendTable::post(const NewSend& send, std::uint32_t fin_tag) {
  const std::uint32_t index = taken_.take();
  if (index == kNone) return kNone;
  SendSlot& slot = shared_->slots[index];
  const std::uint64_t generation = slot.generation() + 1;
  // release: pairs with the fence in posted(). Who reads what is written from here on finds that
  // the send descriptor before is over.
  std::atomic_thread_fence(std::memory_order_release);
  slot.from = send.from;
  put(slot.bytes, send.bytes);
  put(slot.communicator, send.communicator);
  put(slot.sequence, sequence_.fetch_add(1, std::memory_order_relaxed));
  put(slot.tag, send.tag);
  put(slot.to, send.to);
  put(slot.ordered, send.ordered ? 1U : 0U);
  put(slot.synchronous, send.synchronous ? 1U : 0U);
  put(slot.posted_at, ticks());
  slot.rts_sent.store(0, std::memory_order_relaxed);
  slot.contiguous = send.contiguous ? 1 : 0;
  slot.shaped = send.shape != nullptr ? 1 : 0;
  if (send.shape != nullptr) shared_->shapes[index] = *send.shape;
  slot.fin_tag = fin_tag == kOwnTag ? SendSlot::own_fin(index, generation) : fin_tag;
  slot.word.store(SendSlot::word_of(generation, SlotState::posted), std::memory_order_release);
  return index;
}

void SendTable::release(std::uint32_t index) {
  shared_->slots[index].change(SlotState::free);
  taken_.give_back(index);
}

}  // namespace mh::p2p
