// SPDX-License-Identifier: BSD-3-Clause
// A pack pipeline: the threads of one process pack, or unpack, the chunks of a message that a
// network carries.
//
// The *owner* is the thread that sends or receives the chunks. It *offers* a chunk with its buffer.
// Any thread of the process, or a helper on a lent core, claims the chunk and packs or unpacks it.
// The owner *collects* finished chunks in the order of its offers, so chunks are packed while
// earlier chunks are sent. Helpers make no MPI call.
//
// A pack pipeline serves one message after another. Each message is a *use*, and every claim names
// its use, so a delayed thread cannot claim a chunk of a later message. Pack pipelines lie in
// process-private memory. Limits: kCells chunks at a time, 2^32-1 chunks a message; a claim is
// valid until 2^32 messages later.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/cacheline.hpp"
#include "base/slot_set.hpp"
#include "lend/pool.hpp"
#include "node/node.hpp"
#include "observe/counters.hpp"
#include "p2p/end.hpp"

namespace mh::p2p {

enum class PackKind : std::uint8_t { pack, unpack };

// A chunk of a message: a range of its packed stream, and the buffer with the packed bytes.
struct PackedChunk {
  layout::StreamRange range;
  std::byte* buffer;
};

// Invariants
//   R1  next_ is a word (use, chunks claimed). A claim changes it by compare-and-swap; open()
//       starts the next use. offered_ is a word (use, chunks offered), written by the owner.
//       Therefore a successful claim is of the use that the thread has read, and of an offered
//       chunk.
//   R2  A cell holds one offered chunk. The owner writes a cell after it has collected the cell's
//       previous chunk and before it offers the next one. It writes end_ and kind_ while the pack
//       pipeline is empty. A thread reads the cell, end_ and kind_ without a lock, from its claim
//       of a chunk to the chunk's finish.
class PackPipeline {
 public:
  static constexpr std::uint32_t kCells = 8;

  // The owner of the message's chunks calls these functions. open() begins the next use, for a
  // message whose buffer is `end`; the pack pipeline must be empty.
  void open(const End& end, PackKind kind);
  [[nodiscard]] bool empty() const { return count_in(offers()) == collected_; }
  [[nodiscard]] std::uint32_t outstanding() const { return count_in(offers()) - collected_; }
  void offer(const PackedChunk& chunk);  // while fewer than kCells are outstanding
  // Collects the oldest chunk that is offered and not collected yet, and returns it; nothing if
  // that chunk is not finished.
  std::optional<PackedChunk> collect();

  // Called by any thread: claims one chunk and packs or unpacks it. Returns its number of bytes; 0
  // if there is no chunk to claim.
  std::uint64_t work();

 private:
  struct PackCell {
    PackedChunk chunk{};
    // 1 + the number of the chunk that was finished last in this cell; 0 before the message's first
    // chunk in this cell. Release by the thread that has finished the chunk; pairs with the acquire
    // in collect().
    std::atomic<std::uint32_t> finished{0};
  };

  static constexpr std::uint64_t word_of(std::uint32_t use, std::uint32_t count) {
    return std::uint64_t{use} << 32U | count;
  }
  static std::uint32_t use_in(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> 32U);
  }
  static std::uint32_t count_in(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
  // Called by the owner, the thread that offers the chunks. relaxed, because only the owner writes
  // offered_.
  [[nodiscard]] std::uint64_t offers() const { return offered_.load(std::memory_order_relaxed); }
  std::optional<std::uint32_t> claim();

  End end_{};
  PackKind kind_ = PackKind::pack;
  std::uint32_t collected_ = 0;  // chunks of this use; only the owner reads and writes it
  // Release by the owner (the thread that offers the chunks) in open() and offer(), acquire by any
  // thread before its claim of a chunk. That thread then sees the chunk's cell, end_ and kind_.
  alignas(kCacheLine) std::atomic<std::uint64_t> offered_{0};
  // No store to next_ is a release, because a claim publishes nothing, and offered_ publishes what
  // open() writes.
  alignas(kCacheLine) std::atomic<std::uint64_t> next_{0};
  std::array<PackCell, kCells> cells_;
};

// The pack pipelines of a process, at which the helpers of this process work. There is one object
// in a process.
class PackPipelines final : public lend::LendableWork {
 public:
  static constexpr std::uint32_t kPackPipelines = 4;

  // `pool`: the helpers of this process; null where no cores are lent.
  PackPipelines(const node::Node& node, observe::RankCounters& counters, lend::Pool* pool)
      : node_(node), counters_(counters), pool_(pool) {}

  // The use of a pack pipeline for one message of `bytes` bytes. Helpers of this process may claim
  // its chunks. One thread at a time, the owner, uses this object, and collects every offered chunk
  // before the object is destroyed. If all pack pipelines of the process are in use, the message
  // gets one without helpers.
  class Use {
   public:
    Use(PackPipelines& pack_pipelines, const End& end, PackKind kind, std::uint64_t bytes);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    PackPipeline* operator->() const { return pack_pipeline_; }
    // The number of chunks that keeps all threads busy once the owner has offered them and not yet
    // collected them. The threads are the owner, and the helpers if there are any.
    [[nodiscard]] std::uint32_t enough() const { return has_helpers_ ? 4 : 1; }
    // Called by the owner after it has offered the last chunk, so that no further core is lent for
    // this message.
    void nothing_more();

   private:
    static constexpr std::uint32_t kNone = SlotSet<kPackPipelines>::kNone;

    PackPipelines& pack_pipelines_;
    std::uint32_t index_;                // of the process's pack pipelines; kNone: all were in use
    std::unique_ptr<PackPipeline> own_;  // the pack pipeline of this use, if index_ is kNone
    PackPipeline* pack_pipeline_ = nullptr;
    bool has_helpers_ = false;  // this use has asked for helpers
  };

  bool unit(std::uint32_t helper, std::uint64_t deadline) noexcept override;

 private:
  [[nodiscard]] bool may_expose() const;
  bool work_one();

  const node::Node& node_;
  observe::RankCounters& counters_;
  lend::Pool* pool_;
  std::array<PackPipeline, kPackPipelines> pack_pipelines_{};
  SlotSet<kPackPipelines> taken_;
  // Set while helpers may pack or unpack a message, and lenders are offered the work. Acquire and
  // release, as for a lock: only one thread at a time may call the pool of helpers for a kind of
  // work.
  std::atomic_flag exposed_ = ATOMIC_FLAG_INIT;
};

}  // namespace mh::p2p
