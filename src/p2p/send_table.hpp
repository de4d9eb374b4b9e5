// SPDX-License-Identifier: BSD-3-Clause
// The send table: one slot for each large message a rank has described and whose buffer is still in
// use.
//
// Words: the *sender* owns the send table; the *receiver* of a message moves its slot along. A
// descriptor names a slot, the slot says where the bytes are, and its state is how the two agree on
// the end:
//
//   free ─sender─▶ posted ─either─▶ taken ─receiver─▶ claimed ─receiver─▶ done ─sender─▶ free
//                    │                │ │                └───receiver──▶ resend ─receiver─▶ done
//                    │                │ └──either──▶ done
//                    └──sender──▶ free└──sender──▶ posted
//
// posted ▶ taken is a compare-and-swap: the receiver found the descriptor, or the sender found it
// in the receiver's buffer and pushes the message itself (posted_receives.hpp); only one of them
// moves the data. claimed: a job of the receiver moves it and the sender may help, or it is on a
// pipeline and the sender has to. posted ▶ free: the descriptor was cancelled before it was
// matched. taken ▶ posted: the sender could not push.
//
// Lies in the node segment. Limit: kSlots messages in flight a rank; further ones travel
// undescribed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/cacheline.hpp"
#include "base/slot_set.hpp"
#include "layout/compact.hpp"
#include "memory/view.hpp"

namespace mh::p2p {

// Where a claimed message is being moved: a job of its receiver, or one of the receiver's pipelines
// in one of its uses. One word, so that a pipeline and its use are never taken for those of another
// rendezvous send.
struct OnPipeline {
  std::uint32_t receiver;
  std::uint32_t pipeline;
  std::uint32_t use;

  static constexpr std::uint64_t kBit = 1ULL << 63U;
  [[nodiscard]] std::uint64_t word() const {
    return kBit | std::uint64_t{pipeline} << 48U | std::uint64_t{receiver} << 32U | use;
  }
  static bool is(std::uint64_t word) { return (word & kBit) != 0; }
  static OnPipeline of(std::uint64_t word) {
    return {.receiver = static_cast<std::uint32_t>(word >> 32U) & 0xffffU,
            .pipeline = static_cast<std::uint32_t>(word >> 48U) & 0xffU,
            .use = static_cast<std::uint32_t>(word)};
  }
};

enum class SlotState : std::uint32_t { free, posted, taken, claimed, resend, done };

inline constexpr std::uint32_t kNoFin = 0xffffffffU;

// A copy of what a posted rendezvous send says.
struct Posted {
  std::uint64_t generation = 0;
  std::uint64_t bytes = 0;
  std::uint64_t communicator = 0;
  std::uint64_t sequence = 0;
  std::int32_t tag = 0;
  std::uint32_t to = 0;
  std::uint32_t ordered = 0;
  std::uint32_t synchronous = 0;
  std::uint64_t posted_at = 0;  // ticks
};

struct alignas(kCacheLine) SendSlot {
  // Written by the sender while free, read by whoever has the rendezvous send, or names its
  // generation while it is not over (ordered by `word`). Others read a copy: posted().
  memory::View from;
  std::uint64_t bytes;
  std::uint64_t communicator;  // its key: the same number on every member
  std::uint64_t sequence;      // counts the messages of this sender: the order of posting
  std::int32_t tag;
  std::uint32_t to;          // receiver, rank on the node
  std::uint32_t fin_tag;     // tag of the completion message the receiver owes, or kNoFin
  std::uint32_t contiguous;  // 1: at `from`, without gaps; else only the sender knows where
  std::uint32_t ordered;     // 1: the sender's messages are sent in the order of `sequence`
  std::uint32_t shaped;      // 1: not contiguous, from `from` on as SharedSendTable::shapes says

  // Written by sender and receiver in turn, as in the picture above: the state, and above it the
  // generation, which counts the uses of this slot. One word, so that who was held up between a
  // look and the next step never takes a later rendezvous send for the one it knew.
  // Each change is a release and each look an acquire: posted publishes the fields above to the
  // receiver, claimed publishes `job` to the sender, done gives the buffer and the slot back.
  alignas(kCacheLine) std::atomic<std::uint64_t> word{0};
  std::atomic<std::uint64_t> job{0};  // receiver's job slot, or OnPipeline; valid from claimed on
  // Written by the sender while free, as the fields above.
  std::uint64_t posted_at;    // ticks
  std::uint32_t synchronous;  // 1: the send must not complete before its receive is started
  // 1: the RTS header is with the library. release, pairs with the acquire of a receiver that looks
  // for the header.
  std::atomic<std::uint32_t> rts_sent{0};

  // Tags of completion messages, one for each of the last kFinUses uses of a slot: a message that
  // is slow to come is not taken for that of the next rendezvous send.
  static constexpr std::uint32_t kFinUses = 32;
  static constexpr std::uint32_t kOwnFins = 128 * kFinUses;
  static constexpr std::uint32_t own_fin(std::uint32_t slot, std::uint64_t generation) {
    return slot * kFinUses + static_cast<std::uint32_t>(generation % kFinUses);
  }

  static constexpr std::uint32_t kStateBits = 3;
  static constexpr std::uint64_t word_of(std::uint64_t generation, SlotState state) {
    return generation << kStateBits | static_cast<std::uint64_t>(state);
  }
  [[nodiscard]] SlotState state() const { return state_in(word.load(std::memory_order_acquire)); }
  [[nodiscard]] std::uint64_t generation() const {
    return word.load(std::memory_order_relaxed) >> kStateBits;
  }
  // free if that use of the slot is over.
  [[nodiscard]] SlotState state_of(std::uint64_t generation) const {
    const std::uint64_t now = word.load(std::memory_order_acquire);
    const bool over = now >> kStateBits != generation || state_in(now) == SlotState::done;
    return over ? SlotState::free : state_in(now);
  }
  // The sender has buffer and slot back, in that use of the slot.
  [[nodiscard]] bool is_done(std::uint64_t generation) const {
    return word.load(std::memory_order_acquire) == word_of(generation, SlotState::done);
  }
  // What a posted rendezvous send says, to one who only looks: the sender may cancel it, and post
  // another in its place, meanwhile.
  // ... while that use of the slot is not over, whoever has claimed the send.
  [[nodiscard]] std::optional<Posted> says(std::uint64_t generation) const;
  [[nodiscard]] std::optional<Posted> posted() const;
  // By the side whose arrow it is in the picture.
  void change(SlotState next) {
    word.store(word_of(generation(), next), std::memory_order_release);
  }
  // Either side, once it knows where the descriptor lies. True for the one that may move the data.
  // acquire: pairs with the release of posted; the fields above are visible to whoever takes it.
  [[nodiscard]] bool take(std::uint64_t generation) {
    std::uint64_t expected = word_of(generation, SlotState::posted);
    return word.compare_exchange_strong(expected, word_of(generation, SlotState::taken),
                                        std::memory_order_acquire, std::memory_order_relaxed);
  }

  static SlotState state_in(std::uint64_t word) {
    return static_cast<SlotState>(word & ((1U << kStateBits) - 1));
  }
};
static_assert(sizeof(SendSlot) == 2 * kCacheLine);
static_assert(std::is_standard_layout_v<SendSlot>);

struct SharedSendTable {
  static constexpr std::uint32_t kSlots = 128;
  static_assert(SendSlot::kOwnFins == kSlots * SendSlot::kFinUses);

  // Counts the slots receivers have put into `resend`; written by receivers, watched by the sender.
  // release by the receiver after the state change, acquire by the sender before it scans the
  // slots.
  alignas(kCacheLine) std::atomic<std::uint32_t> resends{0};
  SendSlot slots[kSlots];
  // Of slots[i], where it is shaped. Written by the sender before it posts the rendezvous send,
  // read by who has taken it.
  layout::Compact shapes[kSlots];
};

// What a sender knows of a message it wants described.
struct NewSend {
  memory::View from;
  std::uint64_t bytes;
  std::uint64_t communicator;
  std::int32_t tag;
  std::uint32_t to;
  bool contiguous = true;
  bool ordered = true;
  bool synchronous = false;
  const layout::Compact* shape = nullptr;  // if others may know it
};

// The sender's private side: which slots are in use. Thread-safe.
class SendTable {
 public:
  static constexpr std::uint32_t kNone = SlotSet<SharedSendTable::kSlots>::kNone;

  void attach(SharedSendTable* shared) { shared_ = shared; }

  // Takes a slot and posts the rendezvous send in it; kNone when all are in use. With `fin_tag` ==
  // kOwnTag the completion message has the rendezvous send's own tag, own_fin().
  static constexpr std::uint32_t kOwnTag = 0xfffffffeU;
  std::uint32_t post(const NewSend& send, std::uint32_t fin_tag);

  // Gives back a slot whose state is done, or posted with its descriptor cancelled.
  void release(std::uint32_t index);

  [[nodiscard]] SendSlot& slot(std::uint32_t index) { return shared_->slots[index]; }
  [[nodiscard]] bool empty() const { return !taken_.any(); }  // a hint

  // Calls visit(index, slot) for every slot in use.
  template <class Visit>
  void for_each(Visit&& visit) {
    taken_.find([&](std::uint32_t index) {
      visit(index, shared_->slots[index]);
      return false;
    });
  }
  // Until it is true: then true.
  template <class Visit>
  bool any_of(Visit&& visit) {
    return taken_.find([&](std::uint32_t index) { return visit(index, shared_->slots[index]); }) !=
           kNone;
  }

  // True once for every batch of new resend requests.
  [[nodiscard]] bool resends_wanted() {
    const std::uint32_t now = shared_->resends.load(std::memory_order_acquire);
    return now != resends_seen_.exchange(now, std::memory_order_relaxed);
  }

 private:
  SharedSendTable* shared_ = nullptr;
  SlotSet<SharedSendTable::kSlots> taken_;  // by threads of this rank
  std::atomic<std::uint32_t> resends_seen_{0};
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace mh::p2p
