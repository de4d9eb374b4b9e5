// SPDX-License-Identifier: BSD-3-Clause
// A ring of bytes between two processes: messages of one sender to one receiver, in order, each in
// one piece. The memory is shared; each side has an end of its own, which only it knows.
//
//   record   one word, which says what it is and how long, and the payload, in multiples of 8 bytes
//   word     0: not written yet. It is what the receiver looks at: no counter of the sender's.
//   skip     a record without payload: the next one is at the start of the ring
//
// Before the sender publishes a record it writes 0 where the next one will be, and it keeps that
// place free; so what is left there of an earlier round is never taken for a record. The receiver
// says how far it is only now and then, when the sender may need the room.
//
// Limits: the size of a ring is a power of two; a payload has an eighth of it at most, and less
// than 2^20 bytes. Either end is for one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/cacheline.hpp"

namespace mh::lci::detail {

// The part of a ring that is shared; all zero at the start. The bytes follow.
struct alignas(kCacheLine) RingHead {
  // Bytes that the receiver has done with, all rounds. release: the receiver; acquire: the sender,
  // which writes over them.
  std::atomic<std::uint64_t> used;
};
static_assert(sizeof(RingHead) == kCacheLine);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The word of a record: its size + 1 in kSizeBits bits, everything else is the caller's.
inline constexpr unsigned kSizeShift = 32;
inline constexpr std::uint64_t kSizeMask = 0xFFFFFU;
constexpr std::uint64_t with_size(std::uint64_t word, std::size_t size) {
  return (word & ~(kSizeMask << kSizeShift)) | (size + 1) << kSizeShift;
}
constexpr std::size_t size_of(std::uint64_t word) {
  return static_cast<std::size_t>(word >> kSizeShift & kSizeMask) - 1;
}

class RingEnd {
 public:
  RingEnd() = default;
  RingEnd(RingHead* head, std::size_t bytes)
      : head_(head), bytes_(reinterpret_cast<std::byte*>(head + 1)), mask_(bytes - 1) {}

  [[nodiscard]] std::size_t most_payload() const { return (mask_ + 1) / 8 - sizeof(std::uint64_t); }

 protected:
  static constexpr std::uint64_t kSkip = 1;  // no size: never a record's word

  static std::uint64_t length_of(std::size_t payload) {
    return sizeof(std::uint64_t) + ((payload + 7) & ~std::size_t{7});
  }
  [[nodiscard]] std::byte* place(std::uint64_t position) const {
    return bytes_ + (position & mask_);
  }
  // relaxed, but for the one who publishes (release) or looks (acquire).
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(std::uint64_t position) const {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(place(position)));
  }
  [[nodiscard]] std::uint64_t left_in_round(std::uint64_t position) const {
    return mask_ + 1 - (position & mask_);
  }

  RingHead* head_ = nullptr;
  std::byte* bytes_ = nullptr;
  std::uint64_t mask_ = 0;
};

class RingSender : public RingEnd {
 public:
  using RingEnd::RingEnd;

  // False: there is no room. `first` and `second` are one payload.
  bool send(std::uint64_t word_of_caller, std::span<const std::byte> first,
            std::span<const std::byte> second = {}) {
    const std::size_t size = first.size() + second.size();
    const std::uint64_t length = length_of(size);
    const std::uint64_t left = left_in_round(position_);
    // A record never ends with the round: the word after it has to be in the same round.
    const bool skips = length + sizeof(std::uint64_t) > left;
    const std::uint64_t at = skips ? position_ + left : position_;
    if (!has_room(at + length + sizeof(std::uint64_t))) return false;
    std::byte* payload = place(at) + sizeof(std::uint64_t);
    if (!first.empty()) std::memcpy(payload, first.data(), first.size());
    if (!second.empty()) std::memcpy(payload + first.size(), second.data(), second.size());
    word(at + length).store(0, std::memory_order_relaxed);
    // release: partner is next(), which then sees the payload and the 0 after it.
    if (skips) {
      word(at).store(with_size(word_of_caller, size), std::memory_order_relaxed);
      word(position_).store(kSkip, std::memory_order_release);
    } else {
      word(at).store(with_size(word_of_caller, size), std::memory_order_release);
    }
    position_ = at + length;
    return true;
  }

 private:
  bool has_room(std::uint64_t end) {
    if (end - used_ <= mask_ + 1) return true;
    used_ = head_->used.load(std::memory_order_acquire);
    return end - used_ <= mask_ + 1;
  }

  std::uint64_t position_ = 0;  // of the next record
  std::uint64_t used_ = 0;      // what it last knew of the receiver
};

class RingReceiver : public RingEnd {
 public:
  using RingEnd::RingEnd;

  struct RingRecord {
    std::uint64_t word = 0;  // 0: there is none
    std::span<const std::byte> payload;
  };

  // The next record, which stays until done().
  [[nodiscard]] RingRecord next() {
    std::uint64_t found = word(position_).load(std::memory_order_acquire);
    if (found == kSkip) {
      position_ += left_in_round(position_);
      found = word(position_).load(std::memory_order_acquire);
    }
    if (found == 0) return {};
    return {found, {place(position_) + sizeof(std::uint64_t), size_of(found)}};
  }

  // With the record that next() has given.
  void done(const RingRecord& record) {
    position_ += length_of(record.payload.size());
    if (position_ - told_ < (mask_ + 1) / 4) return;
    told_ = position_;
    head_->used.store(position_, std::memory_order_release);
  }

 private:
  std::uint64_t position_ = 0;
  std::uint64_t told_ = 0;  // what the sender can know of it
};

}  // namespace mh::lci::detail
