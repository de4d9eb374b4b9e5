// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/pipeline_engine.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/emulated.hpp"
#include "base/tuning.hpp"
#include "observe/trace.hpp"

namespace mh::p2p {
namespace {

// A message is cut into kChunks chunks of whole pages (kPage bytes). A short message has fewer
// chunks, of kLeastChunk bytes. A long message has more chunks, so short that a pipeline has room
// for kLeastCells cells of one chunk each. A message for which third ranks lend their cores has
// kCellsOfThread cells, at least, for each thread at work, and as many chunks.
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kLeastChunk = 16U << 10U;
constexpr std::uint64_t kChunks = 16;
constexpr std::uint64_t kLeastCells = 8;
constexpr std::uint64_t kCellsOfThread = 2;

layout::StreamRange range_of(const PipelineChunk& chunk) {
  return {chunk.offset, chunk.offset + chunk.bytes};
}

// The assumed rate of one core that packs or unpacks, before the first chunk of a message is
// measured.
constexpr double kBytesPerNs = 8;

// ticks_alone(): the time (ticks) in which one core packs or unpacks `bytes` bytes.
// is_for_third_ranks(): whether that time is long enough to invite third ranks.
std::uint64_t ticks_alone(std::uint64_t bytes) {
  return ticks_from_ns(static_cast<double>(bytes) / kBytesPerNs);
}
bool is_for_third_ranks(std::uint64_t ticks) {
  return ticks >= ticks_from_ns(tuning::kWorthInvitingNs);
}

emulated::Way way_of(const End& end) {
  return end.layout == nullptr ? emulated::Way::copy : emulated::Way::blocks;
}

}  // namespace

PipelineEngine::PipelineEngine(const node::Node& node, const Offsets& offsets,
                               observe::RankCounters& counters, lend::Pool& pool,
                               const memory::Reach& reach)
    : node_(node),
      offsets_(offsets),
      counters_(counters),
      pool_(pool),
      reach_(reach),
      pipeline_bytes_(pipeline_bytes(node.ranks())) {}

PipelineEngine::~PipelineEngine() {
  if (exposed_.test(std::memory_order_relaxed)) pool_.withdraw(lend::WorkKind::pipelines);
}

bool PipelineEngine::let_helpers_in() {
  const bool exposed =
      exposed_.test(std::memory_order_relaxed) || exposed_.test_and_set(std::memory_order_relaxed);
  // The result of expose() does not matter: if no helper can be made, each rank moves the chunks of
  // its own end alone.
  if (!exposed) static_cast<void>(pool_.expose(lend::WorkKind::pipelines, *this, 0));
  return pool_.helpers_roam();
}

Pipelines& PipelineEngine::pipelines_of(std::uint32_t rank) const {
  return *reinterpret_cast<Pipelines*>(node_.area(rank) + offsets_.pipelines);
}

SharedSendTable& PipelineEngine::send_table() const {
  return *reinterpret_cast<SharedSendTable*>(node_.area(node_.me()) + offsets_.send_table);
}

Pipeline& PipelineEngine::pipeline_of(const OnPipeline& on) const {
  return pipelines_of(on.receiver).pipelines[on.pipeline];
}

std::byte* PipelineEngine::cell_of(const OnPipeline& on, const PipelineChunk& chunk) const {
  const std::size_t pipeline = std::size_t{on.pipeline} * pipeline_bytes_;
  return node_.area(on.receiver) + offsets_.cells + pipeline + chunk.place;
}

// The place of a chunk's cell for the emulation of nodes (base/emulated.hpp): its position in the
// receiver's area, a part of the node segment.
emulated::Place PipelineEngine::place_of(const OnPipeline& on, const PipelineChunk& chunk) const {
  const std::size_t pipeline = std::size_t{on.pipeline} * pipeline_bytes_;
  return {on.receiver, offsets_.cells + pipeline + chunk.place};
}

// Invites third ranks to lend their cores to `rank`, for its end of a message that keeps one core
// busy for `ticks_left` ticks more. If that time is too short to invite them, withdraws the
// invitation. Sender and receiver lend to each other without an invitation (who_is_late()).
void PipelineEngine::invite(std::uint32_t rank, std::uint64_t ticks_left) {
  if (node_.ranks() == 2) return;
  const bool worth = is_for_third_ranks(ticks_left);
  pool_.suggest_end(rank, lend::WorkKind::pipelines, worth ? ticks() + ticks_left : 0,
                    ticks_left / 2);
}

// Notes that the calling thread has moved a chunk from tick `begin` to now, for who_is_late(). A
// helper thread on a lent core notes nothing. Returns the ticks since `begin`.
std::uint64_t PipelineEngine::note_moved(std::uint64_t begin) {
  const std::uint64_t now = ticks();
  if (lend::guest() != lend::Guest::no) return now - begin;
  moved_at_.store(now, std::memory_order_relaxed);
  chunk_ticks_.store(now - begin, std::memory_order_relaxed);
  counters_.own_copy_ticks.add(now - begin);
  return now - begin;
}

// Counts a chunk, and its bytes, in the counters of this rank. Called where a chunk is drained, so
// that each chunk is counted once.
void PipelineEngine::count_moved(std::uint64_t bytes) {
  if (lend::guest() != lend::Guest::no) {
    counters_.chunks_on_lent_cores.add_shared(1);
    counters_.bytes_on_lent_cores.add_shared(bytes);
    if (observe::trace() != nullptr) {
      observe::add_to_trace(
          {.begin = ticks(), .bytes = bytes, .kind = observe::EventKind::on_lent_core});
    }
  } else {
    counters_.own_chunks_received.add(1);
    counters_.own_bytes_received.add(bytes);
  }
}

std::uint32_t PipelineEngine::chunk_for(std::uint64_t bytes) const {
  const bool alone = !is_for_third_ranks(ticks_alone(bytes));
  const std::uint64_t threads = alone ? 2 : 1 + node_.idle_peers();
  const std::uint64_t room =
      std::clamp<std::uint64_t>(pipeline_bytes_ / kLeastChunk, kLeastCells, Pipeline::kMostCells);
  const std::uint64_t cells = std::clamp(kCellsOfThread * threads, kLeastCells, room);
  const std::uint64_t share = bytes / std::max(cells, kChunks) / kPage * kPage;
  const std::uint64_t most = pipeline_bytes_ / cells / kPage * kPage;
  return static_cast<std::uint32_t>(std::clamp(share, std::min(kLeastChunk, most), most));
}

layout::CacheLevel PipelineEngine::cache_level_of(std::uint64_t bytes) const {
  return layout::cache_level_of(bytes, node_.header().cache_bytes);
}

// ---- The sender's end of a message -------------------------------------------------------------

void PipelineEngine::announce(std::uint32_t slot, const End& from) {
  from_[slot] = from;
  from_[slot].cache_level = cache_level_of(send_table().slots[slot].bytes);
  announced_.add(slot);
}

void PipelineEngine::withdraw(std::uint32_t slot) { announced_.give_back(slot); }

// The pipeline that carries the message of this rank's send in `slot`; it belongs to the receiver.
// Nothing if no pipeline carries the message.
std::optional<OnPipeline> PipelineEngine::moving_on(std::uint32_t slot) const {
  const SendSlot& send = send_table().slots[slot];
  // acquire: pairs with the receiver's change to moving. `job` is of this rendezvous send or of a
  // later one in the same slot. Either is safe, because a claim succeeds only for the message, the
  // use, that `job` names.
  if (send.state() != SlotState::moving) return std::nullopt;
  const std::uint64_t job = send.job.load(std::memory_order_relaxed);
  if (!OnPipeline::is(job)) return std::nullopt;
  return OnPipeline::of(job);
}

bool PipelineEngine::fill(std::uint32_t slot) {
  const auto on = moving_on(slot);
  PipelineChunk chunk{};
  if (!on || !pipeline_of(*on).claim_fill(on->use, chunk)) return false;
  const std::uint64_t begin = ticks();
  {
    const emulated::Leaf leaf(way_of(from_[slot]), place_of(*on, chunk),
                              {node_.me(), from_[slot].base + chunk.offset}, chunk.bytes);
    pack(from_[slot], range_of(chunk), cell_of(*on, chunk));
  }
  pipeline_of(*on).filled(chunk);
  const std::uint64_t each = note_moved(begin);
  invite(node_.me(), pipeline_of(*on).fills_left(on->use) * each);
  return true;
}

// ---- The receiver's end of a message -----------------------------------------------------------

std::optional<std::uint32_t> PipelineEngine::begin(SendSlot& send, std::uint32_t sender,
                                                   const End& to, std::uint64_t bytes,
                                                   steal::CopyOrder order) {
  const std::uint32_t index = taken_.take();
  if (index == taken_.kNone) return std::nullopt;
  failed_[index] = false;
  to_[index] = to;
  to_[index].cache_level = cache_level_of(bytes);
  moved_at_.store(ticks(), std::memory_order_relaxed);
  const OnPipeline on{
      .receiver = node_.me(),
      .pipeline = index,
      .use = mine().pipelines[index].open(bytes, chunk_for(bytes), pipeline_bytes_, order)};
  senders_[index].store(sender, std::memory_order_relaxed);
  const std::uint64_t alone = ticks_alone(bytes);
  // A short message must not withdraw the invitation of a longer message on another pipeline.
  if (is_for_third_ranks(alone)) {
    invite(sender, alone);
    invite(node_.me(), alone);
  }
  uses_[index].store(on.word(), std::memory_order_release);
  // relaxed: change() publishes `job` with release, so a sender that acquires the state `moving`
  // sees which pipeline carries its message.
  send.job.store(on.word(), std::memory_order_relaxed);
  send.change(SlotState::moving);
  return index;
}

bool PipelineEngine::finish(std::uint32_t pipeline) {
  const bool complete = !failed_[pipeline];
  uses_[pipeline].store(0, std::memory_order_relaxed);
  taken_.give_back(pipeline);
  return complete;
}

bool PipelineEngine::fetch(std::uint32_t pipeline, const memory::View& from) {
  const OnPipeline on = OnPipeline::of(uses_[pipeline].load(std::memory_order_relaxed));
  Pipeline& here = pipeline_of(on);
  PipelineChunk chunk{};
  if (failed_[pipeline] || !here.claim_fill(on.use, chunk)) return false;
  const std::uint64_t begin = ticks();
  failed_[pipeline] = !reach_.read(cell_of(on, chunk), from.at(chunk.offset), chunk.bytes).ok();
  here.filled(chunk);
  note_moved(begin);
  if (here.fills_left(on.use) == 0) invite(senders_[pipeline].load(std::memory_order_relaxed), 0);
  return true;
}

bool PipelineEngine::drain(std::uint32_t pipeline) {
  const std::uint64_t use = uses_[pipeline].load(std::memory_order_acquire);
  if (use == 0) return false;
  const OnPipeline on = OnPipeline::of(use);
  Pipeline& here = pipeline_of(on);
  PipelineChunk chunk{};
  if (!here.claim_drain(on.use, chunk)) return false;
  const std::uint64_t begin = ticks();
  {
    const emulated::Leaf leaf(way_of(to_[pipeline]),
                              {node_.me(), to_[pipeline].base + chunk.offset}, place_of(on, chunk),
                              chunk.bytes);
    unpack(to_[pipeline], range_of(chunk), cell_of(on, chunk));
  }
  here.drained(chunk);
  const std::uint64_t each = note_moved(begin);
  invite(node_.me(), here.drains_left(on.use) * each);
  count_moved(chunk.bytes);
  return true;
}

// ---- Messages of which this rank is sender or receiver -----------------------------------------

bool PipelineEngine::move_one() {
  for (std::uint32_t pipeline = 0; pipeline < kPipelines; ++pipeline) {
    if (drain(pipeline)) return true;
  }
  return announced_.find([this](std::uint32_t slot) { return fill(slot); }) != announced_.kNone;
}

std::optional<std::uint32_t> PipelineEngine::late_sender(std::uint32_t least) const {
  for (std::uint32_t index = 0; index < kPipelines; ++index) {
    const std::uint64_t use = uses_[index].load(std::memory_order_acquire);
    if (use == 0) continue;
    const OnPipeline on = OnPipeline::of(use);
    if (pipeline_of(on).fills_are_worth_lending(on.use, least))
      return senders_[index].load(std::memory_order_relaxed);
  }
  return std::nullopt;
}

std::optional<std::uint32_t> PipelineEngine::late_receiver(std::uint32_t least) const {
  std::optional<std::uint32_t> late;
  announced_.find([&](std::uint32_t slot) {
    const auto on = moving_on(slot);
    if (on && pipeline_of(*on).drains_are_worth_lending(on->use, least)) late = on->receiver;
    return late.has_value();
  });
  return late;
}

std::optional<std::uint32_t> PipelineEngine::who_is_late() const {
  if (!has_messages()) return std::nullopt;
  const std::uint64_t waited = ticks() - moved_at_.load(std::memory_order_relaxed);
  if (waited < ticks_from_ns(tuning::kEndIsLateNs)) return std::nullopt;
  const std::uint64_t each =
      std::max<std::uint64_t>(chunk_ticks_.load(std::memory_order_relaxed), 1);
  const auto least = static_cast<std::uint32_t>(ticks_from_ns(tuning::kWorthLendingNs) / each + 1);
  const auto sender = late_sender(least);
  return sender ? sender : late_receiver(least);
}

bool PipelineEngine::has_messages() const { return taken_.any() || announced_.any(); }

bool PipelineEngine::unit(std::uint32_t /*helper*/, std::uint64_t deadline) noexcept {
  if (!has_messages()) return false;
  while (ticks() < deadline && move_one()) {
  }
  return true;
}

}  // namespace mh::p2p
