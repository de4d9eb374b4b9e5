// SPDX-License-Identifier: BSD-3-Clause
// The work of this process at pipelines (pipeline.hpp): fills cells with the messages that its rank
// sends, drains cells into the messages that its rank receives.
//
// There is one object in a process. The process's own threads call it from the wait loop, and its
// helper threads call it on cores that other ranks lend. Each call moves one chunk. An *end* of a
// message is its buffer in this process. No other process knows the layout of the end, so only
// threads of this process can move its bytes. No function takes a lock. Limit: kPipelines messages
// at a time for a receiver; further messages wait.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/emulated.hpp"
#include "base/slot_set.hpp"
#include "lend/pool.hpp"
#include "memory/reach.hpp"
#include "node/node.hpp"
#include "observe/counters.hpp"
#include "p2p/end.hpp"
#include "p2p/pipeline.hpp"
#include "p2p/send_table.hpp"

namespace mh::p2p {

inline constexpr std::uint32_t kPipelines = 2;

// A rank's pipelines. Their cells lie at the end of the rank's area, its part of the node segment.
struct Pipelines {
  Pipeline pipelines[kPipelines];
};

// pipeline_bytes() is the bytes of all cells of a pipeline, a power of two that depends on the
// number of ranks on the node. All pipelines of a node together take at most kPipelineBytesOfNode,
// unless a pipeline would then have less than kLeastPipelineBytes. Pages are allocated when the
// first message uses them.
inline constexpr std::uint32_t kPipelineBytesOfNode = 64U << 20U;
inline constexpr std::uint32_t kLeastPipelineBytes = 64U << 10U;
inline constexpr std::uint32_t kMostPipelineBytes = 2U << 20U;
constexpr std::uint32_t pipeline_bytes(std::uint32_t ranks) {
  const std::uint32_t share = kPipelineBytesOfNode / kPipelines / ranks;
  return std::bit_floor(std::clamp(share, kLeastPipelineBytes, kMostPipelineBytes));
}
constexpr std::size_t cells_bytes(std::uint32_t ranks) {
  return std::size_t{kPipelines} * pipeline_bytes(ranks);
}

class PipelineEngine final : public lend::LendableWork {
 public:
  // The offsets in each rank's area, its part of the node segment, at which these objects of the
  // rank lie.
  struct Offsets {
    std::size_t send_table;
    std::size_t pipelines;
    std::size_t cells;
  };

  PipelineEngine(const node::Node& node, const Offsets& offsets, observe::RankCounters& counters,
                 lend::Pool& pool, const memory::Reach& reach);
  PipelineEngine(const PipelineEngine&) = delete;
  PipelineEngine& operator=(const PipelineEngine&) = delete;
  ~PipelineEngine() override;

  // ---- The sender's end of a message

  // announce(): called when this rank posts a rendezvous send, which a pipeline may carry; `from`
  // is its send buffer. withdraw(): called when the send is done.
  void announce(std::uint32_t slot, const End& from);
  void withdraw(std::uint32_t slot);
  // Lets helpers of this process move chunks for as long as this object lives, and starts helpers
  // if the rank has none. False if helpers may not run on every core of the node; a chunk may then
  // wait until this rank is in MPI.
  bool let_helpers_in();
  // Fills one chunk of the send in `slot`, if a pipeline carries the send. True if a chunk was
  // filled.
  bool fill(std::uint32_t slot);

  // ---- The receiver's end of a message

  // Puts the message of a send that this rank has taken on one of its pipelines, which changes the
  // send's state to moving. Returns the index of the pipeline, or nothing if none is free. The
  // caller waits until over() is true and calls finish(); the receive buffer `to` must live until
  // then. Chunks are filled in the order `order`; both_ends means from the low end, as low_to_high.
  std::optional<std::uint32_t> begin(SendSlot& send, std::uint32_t sender, const End& to,
                                     std::uint64_t bytes,
                                     steal::CopyOrder order = steal::CopyOrder::both_ends);
  // Drains one chunk of the message that this process receives through `pipeline`. False if no
  // chunk is filled.
  bool drain(std::uint32_t pipeline);
  // Fills one chunk in place of the sender, which may be outside MPI, from contiguous data at
  // `from` that this process can read. False if every cell is full, or if every chunk is filled.
  bool fetch(std::uint32_t pipeline, const memory::View& from);
  [[nodiscard]] bool over(std::uint32_t pipeline) const {
    return mine().pipelines[pipeline].over();
  }
  // Frees the pipeline after its message is over. False if fetch() could not read a chunk, so that
  // the message is incomplete.
  bool finish(std::uint32_t pipeline);

  // ---- Messages of which this rank is sender or receiver

  // True if a pipeline carries a message to or from this rank, or if this rank has an announced
  // send, which a pipeline may carry. A hint.
  [[nodiscard]] bool has_messages() const;
  // Drains one chunk of a message to this rank, or else fills a chunk of a send of this rank. False
  // if no pipeline has a chunk that this process can move at the moment.
  bool move_one();
  // The rank at the other end of a message on a pipeline, to which this rank may lend its core: it
  // has chunks to move, and this rank has had none for tuning::kEndIsLateNs. Nothing if there is no
  // such rank.
  [[nodiscard]] std::optional<std::uint32_t> who_is_late() const;

  bool unit(std::uint32_t helper, std::uint64_t deadline) noexcept override;

 private:
  [[nodiscard]] Pipelines& pipelines_of(std::uint32_t rank) const;
  [[nodiscard]] Pipelines& mine() const { return pipelines_of(node_.me()); }
  [[nodiscard]] SharedSendTable& send_table() const;
  [[nodiscard]] Pipeline& pipeline_of(const OnPipeline& on) const;
  [[nodiscard]] std::byte* cell_of(const OnPipeline& on, const PipelineChunk& chunk) const;
  [[nodiscard]] emulated::Place place_of(const OnPipeline& on, const PipelineChunk& chunk) const;
  [[nodiscard]] std::uint32_t chunk_for(std::uint64_t bytes) const;
  [[nodiscard]] layout::CacheLevel cache_level_of(std::uint64_t bytes) const;
  [[nodiscard]] std::optional<OnPipeline> moving_on(std::uint32_t slot) const;
  [[nodiscard]] std::optional<std::uint32_t> late_sender(std::uint32_t least) const;
  [[nodiscard]] std::optional<std::uint32_t> late_receiver(std::uint32_t least) const;
  std::uint64_t note_moved(std::uint64_t begin);
  void invite(std::uint32_t rank, std::uint64_t ticks_left);
  void count_moved(std::uint64_t bytes);

  const node::Node& node_;
  Offsets offsets_;
  observe::RankCounters& counters_;
  lend::Pool& pool_;
  const memory::Reach& reach_;
  // True once helpers may move chunks (let_helpers_in()). Set once, for the first message.
  std::atomic_flag exposed_ = ATOMIC_FLAG_INIT;
  std::uint32_t pipeline_bytes_;
  // The buffers of this rank's messages: send buffers by slot of its send table, receive buffers by
  // index of its pipeline. Written by the thread that owns the slot or the pipeline; read only
  // after a claim (pipeline.hpp, B2).
  std::array<End, SharedSendTable::kSlots> from_{};
  std::array<End, kPipelines> to_{};
  // The slots of this rank's send table between announce() and withdraw(): a pipeline may carry
  // their sends. A hint: the state of the slot says whether a pipeline carries the send.
  SlotSet<SharedSendTable::kSlots> announced_;
  // For each pipeline of this rank, the use in which it carries a message (OnPipeline::word()), or
  // 0. Release by begin(), acquire by readers, which then see `to_`.
  std::array<std::atomic<std::uint64_t>, kPipelines> uses_{};
  // For each pipeline of this rank, the rank on the node that sends the message. relaxed: a hint.
  std::array<std::atomic<std::uint32_t>, kPipelines> senders_{};
  // True for each pipeline for which fetch() could not read a chunk. Used only by the thread that
  // called begin() for the message.
  std::array<bool, kPipelines> failed_{};
  // The tick at which a thread of this rank, not a helper, last moved a chunk, and the ticks which
  // that chunk took; 0 before the first chunk. relaxed: hints.
  std::atomic<std::uint64_t> moved_at_{0};
  std::atomic<std::uint64_t> chunk_ticks_{0};
  SlotSet<kPipelines> taken_;
};

}  // namespace mh::p2p
