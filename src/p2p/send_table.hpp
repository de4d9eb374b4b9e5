// SPDX-License-Identifier: BSD-3-Clause
// The send table: one slot for each rendezvous send of a rank, until the send buffer is free again.
//
// The sender owns the send table. An RTS header names a slot, the slot says where the bytes are,
// and sender and receiver change the slot's state:
//
//   free ─sender─▶ posted ─either─▶ taken ─receiver─▶ moving ─receiver─▶ done ─sender─▶ free
//                    │                │ │ │              └───receiver──▶ resend ─receiver─▶ done
//                    │                │ │ └────────────────receiver──▶ resend
//                    │                │ └──either──▶ done
//                    └──sender──▶ free└──sender──▶ posted or free
//
// posted ▶ taken is a compare-and-swap by the receiver, which has the header, or by the sender,
// which has found the header in the receive buffer and pushes the message (posted_receives.hpp), or
// which cancels the send. Only the winner moves the data.
//
// In state moving, a job of the receiver copies the message and the sender may claim chunks, or a
// pipeline carries the message and the sender has to fill cells.
//
// posted ▶ free: rendezvous has ended meanwhile, or the MPI library refused to send the header.
//
// taken ▶ posted: the push failed, or the header could not be cancelled. taken ▶ free: the header
// was cancelled before a receive matched it. Each change to resend: the receiver could not copy the
// message.
//
// The table lies in the node segment. Limit: kSlots rendezvous sends a rank at a time; the MPI
// library sends further messages by its own protocols.
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

// The pipeline of the receiver that carries a message in state moving, and the pipeline's use: the
// number of the message among those that the pipeline carries. All are packed into one word, so
// that a reader never combines the pipeline of one send with the use of another.
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

enum class SlotState : std::uint32_t { free, posted, taken, moving, resend, done };

inline constexpr std::uint32_t kNoFin = 0xffffffffU;

// A copy of those fields of a SendSlot that a rank may read without taking the send. It is needed
// because the sender may meanwhile use the slot for another send.
struct PostedFields {
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
  // The sender writes these members while the slot is free. They are read by the rank that has
  // taken the send, and by a rank that finds in `word` that the send which it means (by its
  // generation) is not over; `word` orders these reads. All other ranks read a copy, by fields_of()
  // or posted().
  memory::View from;
  std::uint64_t bytes;
  std::uint64_t communicator;  // the key: the same number on every member
  std::uint64_t sequence;      // counts the messages of this sender: the order of posting
  std::int32_t tag;
  std::uint32_t to;          // receiver, rank on the node
  std::uint32_t fin_tag;     // tag of the FIN, which the rank that moves the data sends; or kNoFin
  std::uint32_t contiguous;  // 1: at `from`, without gaps; else only the sender knows the layout
  std::uint32_t ordered;     // 1: the sender's messages are sent in the order of `sequence`
  std::uint32_t shaped;  // 1: not contiguous; SharedSendTable::shapes has the shape from `from` on

  // The state of the send, and in the bits above it the *generation*, which counts the sends in
  // this slot. Written by sender and receiver as in the picture at the top of this file. One word,
  // so that a delayed rank cannot mistake a later send for the send that it has seen. Each change
  // is a release and each read an acquire. The change to posted publishes the fields above to the
  // receiver, the change to moving publishes `job` to the sender. In state done the send buffer is
  // the sender's again, and the sender may free the slot.
  alignas(kCacheLine) std::atomic<std::uint64_t> word{0};
  std::atomic<std::uint64_t> job{0};  // receiver's job slot, or OnPipeline; valid from moving on
  // The sender writes these two members while the slot is free, and they are read like the members
  // above `word`.
  std::uint64_t posted_at;    // ticks
  std::uint32_t synchronous;  // 1: the send must not complete before its receive is started

  // A slot has kFinUses FIN tags, which its successive sends use in turn, so that a late FIN does
  // not complete the slot's next send. A rank has kFinTagsOfRank such tags for all of its slots.
  static constexpr std::uint32_t kFinUses = 32;
  static constexpr std::uint32_t kFinTagsOfRank = 128 * kFinUses;
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
  // The state of the slot's send with this generation. `free` if that send is over, although its
  // sender may not have freed the slot yet.
  [[nodiscard]] SlotState state_of(std::uint64_t generation) const {
    const std::uint64_t now = word.load(std::memory_order_acquire);
    const bool over = now >> kStateBits != generation || state_in(now) == SlotState::done;
    return over ? SlotState::free : state_in(now);
  }
  // True if the receiver has given back the buffer of the send with this generation, and the sender
  // has not freed the slot yet.
  [[nodiscard]] bool is_done(std::uint64_t generation) const {
    return word.load(std::memory_order_acquire) == word_of(generation, SlotState::done);
  }
  // These functions copy the fields of a send that the caller has not taken. They return nothing if
  // the sender meanwhile cancels the send and posts another in the slot. The function fields_of()
  // copies the send of `generation`, in any state, until the slot is freed. The function posted()
  // copies a send in state posted.
  [[nodiscard]] std::optional<PostedFields> fields_of(std::uint64_t generation) const;
  [[nodiscard]] std::optional<PostedFields> posted() const;
  // Changes the state to `next`. Called by the rank, sender or receiver, that makes this change in
  // the picture at the top of this file.
  void change(SlotState next) {
    word.store(word_of(generation(), next), std::memory_order_release);
  }
  // Takes the send if it is still posted. Called by sender or receiver, once it has found the RTS
  // header in the receive buffer. True for one of them, which then moves the data. acquire: pairs
  // with the release of the change to posted, so that this rank sees the fields above.
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
  static_assert(SendSlot::kFinTagsOfRank == kSlots * SendSlot::kFinUses);

  // Counts the slots that receivers have put into `resend`. release by the receiver after the
  // change of the state; pairs with the acquire in resends_wanted(), after which the sender looks
  // at the slots.
  alignas(kCacheLine) std::atomic<std::uint32_t> resends{0};
  SendSlot slots[kSlots];
  // The shapes of the data of sends whose slots are marked `shaped`: data with gaps whose buffer
  // all ranks map. Written by the sender before it posts the send, read by the receiver that has
  // taken the send.
  layout::Compact shapes[kSlots];
};

// The facts of a send that SendTable::post() is to post; the names are those of SendSlot.
struct NewSend {
  memory::View from;
  std::uint64_t bytes;
  std::uint64_t communicator;
  std::int32_t tag;
  std::uint32_t to;
  bool contiguous = true;
  bool ordered = true;
  bool synchronous = false;
  const layout::Compact* shape = nullptr;  // of data with gaps that all ranks can map; else null
};

// The sender's private side of its send table: which slots are in use. Any thread may call.
class SendTable {
 public:
  static constexpr std::uint32_t kNone = SlotSet<SharedSendTable::kSlots>::kNone;

  void attach(SharedSendTable* shared) { shared_ = shared; }

  // Posts the send in a free slot and returns the slot's index; kNone if all slots are in use. With
  // `fin_tag` == kOwnTag the FIN has the tag SendSlot::own_fin(); otherwise `fin_tag` is the
  // caller's tag, or no FIN is sent (kNoFin).
  static constexpr std::uint32_t kOwnTag = 0xfffffffeU;
  std::uint32_t post(const NewSend& send, std::uint32_t fin_tag);

  // Frees a slot whose message is done or was cancelled, or whose header was never sent.
  void release(std::uint32_t index);

  [[nodiscard]] SendSlot& slot(std::uint32_t index) { return shared_->slots[index]; }
  [[nodiscard]] bool empty() const { return !in_use_.any(); }  // a hint

  // Calls visit(index, slot) for every slot in use.
  template <class Visit>
  void for_each(Visit&& visit) {
    in_use_.find([&](std::uint32_t index) {
      visit(index, shared_->slots[index]);
      return false;
    });
  }
  // Calls visit(index, slot) for slots in use until a call returns true. True if one has.
  template <class Visit>
  bool any_of(Visit&& visit) {
    return in_use_.find([&](std::uint32_t index) { return visit(index, shared_->slots[index]); }) !=
           kNone;
  }

  // True if a receiver has put a slot into state resend after the last call of this function.
  [[nodiscard]] bool resends_wanted() {
    const std::uint32_t now = shared_->resends.load(std::memory_order_acquire);
    return now != resends_seen_.exchange(now, std::memory_order_relaxed);
  }

 private:
  SharedSendTable* shared_ = nullptr;
  SlotSet<SharedSendTable::kSlots> in_use_;  // by threads of this rank
  std::atomic<std::uint32_t> resends_seen_{0};
  std::atomic<std::uint64_t> sequence_{0};
};

}  // namespace mh::p2p
