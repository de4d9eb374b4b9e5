// SPDX-License-Identifier: BSD-3-Clause
// The hands at the belts (belt.hpp): what this process packs as a sender and unpacks as a receiver.
//
// One object a process. Its own threads come here from the wait loop, its helpers on cores that
// other ranks lend; all do the same, a chunk at a time. An *end* is where the bytes of a message
// lie in this process; it is known to nobody else, which is why only threads of this process can
// move them. Takes no lock. Limit: kBelts messages at a time for a
// receiver; further ones wait.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "lend/pool.hpp"
#include "node/node.hpp"
#include "observe/counters.hpp"
#include "p2p/belt.hpp"
#include "p2p/end.hpp"
#include "p2p/outbox.hpp"

namespace mh::p2p {

inline constexpr std::uint32_t kBelts = 2;

// A rank's belts; the cells lie behind all else of its area.
struct Belts {
  Belt belts[kBelts];
};

// The bytes of a belt's cells, of a rank of so many on the node: a power of two, the smaller the
// more ranks there are, so that all belts of a node take kBeltsOfNode at most as long as that
// leaves kLeastBelt for each. Memory that no message has passed through is not there yet.
inline constexpr std::uint32_t kBeltsOfNode = 64U << 20U;
inline constexpr std::uint32_t kLeastBelt = 64U << 10U;
inline constexpr std::uint32_t kMostBelt = 2U << 20U;
constexpr std::uint32_t belt_bytes(std::uint32_t ranks) {
  const std::uint32_t share = kBeltsOfNode / kBelts / ranks;
  return std::bit_floor(std::clamp(share, kLeastBelt, kMostBelt));
}
constexpr std::size_t cells_bytes(std::uint32_t ranks) {
  return std::size_t{kBelts} * belt_bytes(ranks);
}

class Carrier final : public lend::Work {
 public:
  // Where things lie in each rank's area.
  struct Offsets {
    std::size_t outbox;
    std::size_t belts;
    std::size_t cells;
  };

  Carrier(const node::Node& node, const Offsets& offsets, observe::Counters& counters,
          lend::Pool& pool);
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;
  ~Carrier() override;

  // ---- Sender

  // While a letter that may come on a belt is in that slot: from when it is posted to when it is
  // done.
  void announce(std::uint32_t slot, const End& from);
  // Helpers may come from now on; they are made where there are none yet.
  void let_helpers_in();
  void withdraw(std::uint32_t slot);
  // One chunk of the letter in that slot, if its receiver has put it on a belt.
  bool fill(std::uint32_t slot);

  // ---- Receiver

  // Puts the message of a letter (taken) on a belt and says so in it (claimed); nothing if no belt
  // is free. The end stays until over(), then finish().
  std::optional<std::uint32_t> begin(SendSlot& letter, std::uint32_t sender, const End& to,
                                     std::uint64_t bytes);
  // One chunk of a message that this process receives. placed: its bytes had been brought to their
  // place by fetch() before.
  enum class Drained : std::uint8_t { nothing, placed, moved };
  Drained drain(std::uint32_t belt);
  // One chunk of a message whose bytes lie at `from` without gaps and may be read there: its sender
  // may be away. It goes to its place at once where the end has no gaps either. False also if the
  // belt is full, or all is filled.
  bool fetch(std::uint32_t belt, const memory::View& from);
  [[nodiscard]] bool over(std::uint32_t belt) const { return mine().belts[belt].over(); }
  // After that. The belt is free for others. False if something could not be fetched.
  bool finish(std::uint32_t belt);

  // ---- Either

  // A message to or from this rank is on a belt, or may come on one. A hint.
  [[nodiscard]] bool has_messages() const;
  // When (ticks) a thread of this rank last filled or drained a cell.
  [[nodiscard]] std::uint64_t last_at_a_cell() const {
    return cell_at_.load(std::memory_order_relaxed);
  }
  // One chunk of any message.
  bool move_one();
  // A rank whose process has something to do for a message to or from this one, where this one has
  // had nothing for a while.
  [[nodiscard]] std::optional<std::uint32_t> who_is_late() const;

  bool unit(std::uint32_t helper, std::uint64_t deadline) noexcept override;

 private:
  [[nodiscard]] Belts& belts_of(std::uint32_t rank) const;
  [[nodiscard]] Belts& mine() const { return belts_of(node_.me()); }
  [[nodiscard]] SharedOutbox& outbox() const;
  [[nodiscard]] Belt& belt_of(const OnBelt& on) const;
  [[nodiscard]] std::byte* cell_of(const OnBelt& on, const Stretch& stretch) const;
  [[nodiscard]] std::uint32_t chunk_for(std::uint64_t bytes) const;
  [[nodiscard]] layout::Home home_of(std::uint64_t bytes) const;
  bool fill_any();
  [[nodiscard]] std::optional<std::uint32_t> late_sender(std::uint32_t least) const;
  [[nodiscard]] std::optional<std::uint32_t> late_receiver(std::uint32_t least) const;
  // How a chunk was moved: through its cell, past it by the kernel, or it was in its place before.
  enum class Path : std::uint8_t { cell, fetched, in_place };
  // Returns how long (ticks) that took.
  std::uint64_t note_moved(std::uint64_t begin, Path path);
  void invite(std::uint32_t rank, std::uint64_t ticks_left);
  void count_moved(std::uint64_t bytes);

  static constexpr std::size_t kWords = SharedOutbox::kSlots / 64;

  const node::Node& node_;
  Offsets offsets_;
  observe::Counters& counters_;
  lend::Pool& pool_;
  // Helpers may come: set by the first message, by one thread.
  std::atomic_flag exposed_ = ATOMIC_FLAG_INIT;
  std::uint32_t belt_bytes_;
  // Written by the thread that has the slot or belt, read after a claim only (belt.hpp, B2).
  std::array<End, SharedOutbox::kSlots> from_{};
  std::array<End, kBelts> to_{};
  // Bit s: slot s is announced. relaxed: a hint, the letter's state and a claim decide.
  std::array<std::atomic<std::uint64_t>, kWords> announced_{};
  // Per belt of this rank: what is on it (OnBelt), 0 for nothing. Release by begin(), acquire by
  // who looks: `to_` is there.
  std::array<std::atomic<std::uint64_t>, kBelts> uses_{};
  // Who sends that. relaxed: a hint.
  std::array<std::atomic<std::uint32_t>, kBelts> senders_{};
  std::array<bool, kBelts> failed_{};  // of the thread that has the belt
  // When (ticks) a thread of this rank, not a helper, last moved a chunk, when it last did so
  // through a cell, and how long one took; 0 before the first. relaxed: hints.
  std::atomic<std::uint64_t> moved_at_{0};
  std::atomic<std::uint64_t> cell_at_{0};
  std::atomic<std::uint64_t> chunk_ticks_{0};
  std::atomic<std::uint32_t> taken_{0};  // a bit for each belt; acquire and release, as a lock
};

}  // namespace mh::p2p
