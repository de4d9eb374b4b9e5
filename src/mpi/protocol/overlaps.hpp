// SPDX-License-Identifier: BSD-3-Clause
// Receives under way at the same time into memory that overlaps.
//
// The standard forbids them, and they are harmless in every library: the corners of halos, windows
// of messages into one buffer. But a descriptor that has landed is all that is known of its
// message, and another receive must not write over it before it is looked at.
//
// Words: the *head* of a receive is where a descriptor lands, the first bytes of its buffer. Two
// receives *clash* if one may write to the other's head. The second of two that clash gets a
// *bounce buffer* of ours. Its message comes to its place when it completes, after what has landed
// in the heads there was fetched. So a head in the program's memory is written to by its own
// receive alone, and of several receives the one that completes last writes last.
//
// Started receives are known here from their start to their completion, persistent ones from when
// they are made until they are freed. Limits: receives too short for a descriptor, and from other
// nodes, are remembered for the next kMemory receives, however long they are under way; a blocking
// receive of another thread is not known; MPI_Isendrecv gets no bounce buffer; where memory is
// short nothing does. With several threads in the library it may write a descriptor just while a
// message is put over its place.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "layout/touch.hpp"
#include "mpi/protocol/receive_target.hpp"

namespace mh::mpi {

class PendingReceive;

// The bytes of a buffer.
struct Memory {
  static Memory of(const ReceiveTarget& target);

  layout::AddressRange bounds{};
  layout::LayoutPtr layout{};  // null: all within the bounds
  std::uint64_t count = 0;
  layout::Address base = 0;
};

class Overlaps {
 public:
  // Heads are in the program's memory. relaxed, as everything that is asked without the lock: a
  // receive is started by the thread that started the one before, or by one it told.
  [[nodiscard]] bool any_heads() const { return heads_.load(std::memory_order_relaxed) != 0; }
  // There are receives with a bounce buffer.
  [[nodiscard]] static bool any_bounced() {
    return Bounce::alive.load(std::memory_order_relaxed) != 0;
  }
  // Whether a contiguous receive would write to a head.
  [[nodiscard]] bool meets_head(const void* buffer, std::uint64_t bytes);

  // A receive into `target` is about to be started: if it clashes with another, the target
  // becomes a bounce buffer. Without a communicator no descriptor comes there. `most`: bytes that
  // the call can take.
  void avoid(ReceiveTarget& target, std::uint64_t most) {
    if (may_clash(target)) [[unlikely]]
      divert(target, most);
  }

  // A started receive that nothing else remembers; one that something does.
  void note(const void* buffer, std::uint64_t bytes) {
    const auto begin = reinterpret_cast<layout::Address>(buffer);
    note({.begin = begin, .end = begin + bytes});
  }
  void note(const ReceiveTarget& target);
  void pass() { clock_.store(now() + 1, std::memory_order_relaxed); }

  // Entries of the pending requests, while they are there.
  void add(const std::shared_ptr<PendingReceive>& entry, const ReceiveTarget& target);
  void remove(const PendingReceive& entry);
  // Persistent receives that have none.
  void add_persistent(MPI_Request request, const ReceiveTarget& target);
  void remove_persistent(MPI_Request request);

  // Entries with heads in this memory, but for those about to go.
  [[nodiscard]] std::vector<std::shared_ptr<PendingReceive>> heads_in(const Memory& memory);

 private:
  static constexpr std::size_t kNotes = 64;
  static constexpr std::uint32_t kMemory = 256;

  struct Pending {
    Memory memory;
    const PendingReceive* entry;  // null for a persistent receive that has none
    std::weak_ptr<PendingReceive> shared;
    std::uint64_t handle;  // of a persistent receive without an entry
    bool has_head;
  };
  struct Note {
    std::atomic<layout::Address> begin{0};
    std::atomic<layout::Address> end{0};
    std::atomic<std::uint32_t> at{0};
  };

  [[nodiscard]] std::uint32_t now() const { return clock_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool any_notes() const {
    return now() - last_note_.load(std::memory_order_relaxed) < kMemory;
  }
  [[nodiscard]] bool may_clash(const ReceiveTarget& target) const;
  [[nodiscard]] bool clashes(const ReceiveTarget& target);
  void divert(ReceiveTarget& target, std::uint64_t most);
  void note(const layout::AddressRange& range) {
    const std::uint32_t at = now() + 1;
    clock_.store(at, std::memory_order_relaxed);
    last_note_.store(at, std::memory_order_relaxed);
    Note& note = notes_[at % kNotes];
    note.at.store(at, std::memory_order_relaxed);
    note.begin.store(range.begin, std::memory_order_relaxed);
    note.end.store(range.end, std::memory_order_relaxed);
  }
  void put(Pending pending);
  void drop(std::size_t index);

  std::atomic<std::size_t> heads_{0};
  std::atomic<std::size_t> known_{0};
  std::atomic<std::uint32_t> clock_{kMemory};  // counts started receives
  std::atomic<std::uint32_t> last_note_{0};
  std::array<Note, kNotes> notes_{};
  std::mutex mutex_;
  std::vector<Pending> pending_;
};

[[gnu::visibility("hidden")]] extern Overlaps overlaps;

}  // namespace mh::mpi
