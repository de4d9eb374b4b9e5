// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/send_table.hpp"

#include "base/clock.hpp"

namespace mh::p2p {
namespace {

// put() and get() write and read a field of a slot as relaxed atomics, because a rank may read the
// field in copy_of() while the sender writes it in post().
template <class T>
void put(T& field, T value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}
template <class T>
T get(const T& field) {
  return std::atomic_ref<T>(const_cast<T&>(field)).load(std::memory_order_relaxed);
}

// Returns a copy of the fields of the slot. `before` is SendSlot::word as the caller read it before
// the copy. If is_same() is false for the word after the copy, the copy may mix two sends, and the
// function returns nothing.
template <class IsSame>
std::optional<PostedFields> copy_of(const SendSlot& slot, std::uint64_t before, IsSame&& is_same) {
  const PostedFields copy{.generation = before >> SendSlot::kStateBits,
                          .bytes = get(slot.bytes),
                          .communicator = get(slot.communicator),
                          .sequence = get(slot.sequence),
                          .tag = get(slot.tag),
                          .to = get(slot.to),
                          .ordered = get(slot.ordered),
                          .synchronous = get(slot.synchronous),
                          .posted_at = get(slot.posted_at)};
  // acquire: pairs with the release fence in SendTable::post(). If a field read above is of a later
  // send, the next load sees that the slot's word has changed.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!is_same(slot.word.load(std::memory_order_relaxed))) return std::nullopt;
  return copy;
}

}  // namespace

std::optional<PostedFields> SendSlot::posted() const {
  const std::uint64_t before = word.load(std::memory_order_acquire);
  if (state_in(before) != SlotState::posted) return std::nullopt;
  return copy_of(*this, before, [&](std::uint64_t now) { return now == before; });
}

std::optional<PostedFields> SendSlot::fields_of(std::uint64_t generation) const {
  const auto is_current = [&](std::uint64_t now) {
    return now >> kStateBits == generation && state_in(now) != SlotState::free;
  };
  const std::uint64_t before = word.load(std::memory_order_acquire);
  if (!is_current(before)) return std::nullopt;
  return copy_of(*this, before, is_current);
}

std::uint32_t SendTable::post(const NewSend& send, std::uint32_t fin_tag) {
  const std::uint32_t index = in_use_.take();
  if (index == kNone) return kNone;
  SendSlot& slot = shared_->slots[index];
  const std::uint64_t generation = slot.generation() + 1;
  // release: pairs with the fence in copy_of(). A rank that reads a field written below then finds,
  // by the slot's word, that the slot's previous send is over.
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
  slot.contiguous = send.contiguous ? 1 : 0;
  slot.shaped = send.shape != nullptr ? 1 : 0;
  if (send.shape != nullptr) shared_->shapes[index] = *send.shape;
  slot.fin_tag = fin_tag == kOwnTag ? SendSlot::own_fin(index, generation) : fin_tag;
  slot.word.store(SendSlot::word_of(generation, SlotState::posted), std::memory_order_release);
  return index;
}

void SendTable::release(std::uint32_t index) {
  shared_->slots[index].change(SlotState::free);
  in_use_.give_back(index);
}

}  // namespace mh::p2p
