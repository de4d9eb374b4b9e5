// SPDX-License-Identifier: BSD-3-Clause
// A ring of bytes between two processes: messages of one sender to one receiver, in order, each in
// one piece. The processes share the memory; the state of each end is private to its process.
//
//   record   a word with the kind and the size, and the payload, in multiples of 8 bytes
//   word     0: not written yet. The receiver polls the word; the sender shares no counter.
//   skip     a record without payload: the next record is at the start of the ring
//
// Before the sender publishes a record, the sender writes 0 into the word after the record and
// keeps that word free. The receiver therefore never reads bytes of an earlier pass over the ring
// as a record. The receiver publishes its position once for each quarter of the ring.
//
// Limits, in bytes: the size of a ring is a power of two. A record has at most an eighth of that
// size, and a payload of at most 2^20 - 2.
//
// Thread-safety: each end is for one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/cacheline.hpp"

namespace mh::lci::detail {

// The head of the shared memory, before the bytes of the ring. All bytes of head and ring are zero
// when the ring is made.
struct alignas(kCacheLine) RingHead {
  // Bytes that the receiver has consumed, over all passes over the ring. release: the receiver;
  // acquire: the sender, which overwrites consumed bytes.
  std::atomic<std::uint64_t> used;
};
static_assert(sizeof(RingHead) == kCacheLine);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The layout of the word in front of a record: the payload size + 1 in the bits of kSizeMask; all
// other bits are the caller's.
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
  static constexpr std::uint64_t kSkip = 1;  // no record's word: the size bits are 0

  static std::uint64_t length_of(std::size_t payload) {
    return sizeof(std::uint64_t) + ((payload + 7) & ~std::size_t{7});
  }
  [[nodiscard]] std::byte* place(std::uint64_t position) const {
    return bytes_ + (position & mask_);
  }
  // The word of the record at `position`. All accesses are relaxed, except the sender's store that
  // publishes a record (release) and the receiver's load (acquire).
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

  // Appends one record, whose payload is `first` followed by `second`. False: the ring has no room,
  // and nothing was written.
  bool send(std::uint64_t word_of_caller, std::span<const std::byte> first,
            std::span<const std::byte> second = {}) {
    const std::size_t size = first.size() + second.size();
    const std::uint64_t length = length_of(size);
    const std::uint64_t left = left_in_round(position_);
    // The word after a record is set to 0 before the record is published, and has to lie in the
    // same pass over the ring. A record that would end too late begins the next pass, behind a skip
    // (a record without payload).
    const bool skips = length + sizeof(std::uint64_t) > left;
    const std::uint64_t at = skips ? position_ + left : position_;
    if (!has_room(at + length + sizeof(std::uint64_t))) return false;
    std::byte* payload = place(at) + sizeof(std::uint64_t);
    if (!first.empty()) std::memcpy(payload, first.data(), first.size());
    if (!second.empty()) std::memcpy(payload + first.size(), second.data(), second.size());
    word(at + length).store(0, std::memory_order_relaxed);
    // release: partner is the acquire in the receiver's next(), which then sees the payload and the
    // 0 after it.
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
  std::uint64_t used_ = 0;      // the last value read from head_->used
};

class RingReceiver : public RingEnd {
 public:
  using RingEnd::RingEnd;

  struct RingRecord {
    std::uint64_t word = 0;  // 0: no record
    std::span<const std::byte> payload;
  };

  // Returns the next record of the sender, valid until done(); its word is 0 if there is none.
  [[nodiscard]] RingRecord next() {
    std::uint64_t found = word(position_).load(std::memory_order_acquire);
    if (found == kSkip) {
      position_ += left_in_round(position_);
      found = word(position_).load(std::memory_order_acquire);
    }
    if (found == 0) return {};
    return {found, {place(position_) + sizeof(std::uint64_t), size_of(found)}};
  }

  // Consumes the record that next() has returned, so the sender may overwrite its bytes.
  void done(const RingRecord& record) {
    position_ += length_of(record.payload.size());
    if (position_ - told_ < (mask_ + 1) / 4) return;
    told_ = position_;
    head_->used.store(position_, std::memory_order_release);
  }

 private:
  std::uint64_t position_ = 0;
  std::uint64_t told_ = 0;  // the last value written to head_->used
};

}  // namespace mh::lci::detail
