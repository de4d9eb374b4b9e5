// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/pack_pipeline.hpp"

#include "base/clock.hpp"
#include "observe/trace.hpp"

namespace mh::p2p {
namespace {

constexpr double kBytesPerNs = 5;  // assumed rate of one core that packs; only a hint for lenders

}  // namespace

void PackPipeline::open(const End& end, PackKind kind) {
  const std::uint32_t use = use_in(offers()) + 1;
  end_ = end;
  kind_ = kind;
  collected_ = 0;
  for (PackCell& cell : cells_) cell.finished.store(0, std::memory_order_relaxed);
  next_.store(word_of(use, 0), std::memory_order_relaxed);
  offered_.store(word_of(use, 0), std::memory_order_release);
}

void PackPipeline::offer(const PackedChunk& chunk) {
  const std::uint64_t word = offers();
  cells_[count_in(word) % kCells].chunk = chunk;
  offered_.store(word + 1, std::memory_order_release);
}

std::optional<PackedChunk> PackPipeline::collect() {
  if (empty()) return std::nullopt;
  PackCell& cell = cells_[collected_ % kCells];
  if (cell.finished.load(std::memory_order_acquire) != collected_ + 1) return std::nullopt;
  ++collected_;
  return cell.chunk;
}

std::optional<std::uint32_t> PackPipeline::claim() {
  // acquire keeps this read of next_ before the read of offered_. Their counts of chunks are
  // compared only if both words have the same use, which is the number of a message.
  std::uint64_t next = next_.load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t offered = offered_.load(std::memory_order_acquire);
    if (use_in(offered) != use_in(next) || count_in(next) >= count_in(offered)) return std::nullopt;
    // A failed compare-and-swap reads next_ again, with acquire. A successful one has the same
    // order, because GCC accepts no order for success that is weaker than that for failure.
    if (next_.compare_exchange_weak(next, next + 1, std::memory_order_acquire)) {
      return count_in(next);
    }
  }
}

std::uint64_t PackPipeline::work() {
  const auto index = claim();
  if (!index) return 0;
  PackCell& cell = cells_[*index % kCells];
  const PackedChunk chunk = cell.chunk;
  if (kind_ == PackKind::pack) {
    pack(end_, chunk.range, chunk.buffer);
  } else {
    unpack(end_, chunk.range, chunk.buffer);
  }
  cell.finished.store(*index + 1, std::memory_order_release);
  return chunk.range.end - chunk.range.begin;
}

// ---- The pack pipelines of a process -----------------------------------------------------------

PackPipelines::Use::Use(PackPipelines& pack_pipelines, const End& end, PackKind kind,
                        std::uint64_t bytes)
    : pack_pipelines_(pack_pipelines), index_(pack_pipelines.taken_.take()) {
  if (index_ == kNone) own_ = std::make_unique<PackPipeline>();
  pack_pipeline_ = own_ ? own_.get() : &pack_pipelines.pack_pipelines_[index_];
  pack_pipeline_->open(end, kind);
  if (own_ || !pack_pipelines_.may_expose()) return;
  if (pack_pipelines_.exposed_.test_and_set(std::memory_order_acquire)) return;
  const double alone_ns = static_cast<double>(bytes) / kBytesPerNs;
  // The result does not matter: if no helper comes, the owner, this thread, packs or unpacks all
  // chunks alone.
  static_cast<void>(pack_pipelines_.pool_->expose(lend::WorkKind::internode, pack_pipelines_,
                                                  ticks() + ticks_from_ns(alone_ns)));
  has_helpers_ = true;
}

PackPipelines::Use::~Use() {
  if (has_helpers_) {
    pack_pipelines_.pool_->withdraw(lend::WorkKind::internode);
    pack_pipelines_.exposed_.clear(std::memory_order_release);
  }
  if (!own_) pack_pipelines_.taken_.give_back(index_);
}

void PackPipelines::Use::nothing_more() {
  if (has_helpers_) pack_pipelines_.pool_->nothing_left(lend::WorkKind::internode);
}

// True if helpers may be asked to pack or unpack: this process has helpers, or another rank waits
// and could lend its core. Otherwise no helper threads are made, because no core is free for them
// at the moment.
bool PackPipelines::may_expose() const {
  return pool_ != nullptr && (pool_->hired() || node_.has_idle_peer());
}

bool PackPipelines::work_one() {
  for (PackPipeline& pack_pipeline : pack_pipelines_) {
    const std::uint64_t bytes = pack_pipeline.work();
    if (bytes == 0) continue;
    counters_.chunks_on_lent_cores.add_shared(1);
    counters_.bytes_on_lent_cores.add_shared(bytes);
    if (observe::trace() != nullptr) {
      observe::add_to_trace(
          {.begin = ticks(), .bytes = bytes, .kind = observe::EventKind::on_lent_core});
    }
    return true;
  }
  return false;
}

bool PackPipelines::unit(std::uint32_t /*helper*/, std::uint64_t deadline) noexcept {
  bool done = false;
  while (ticks() < deadline && work_one()) done = true;
  return done;
}

}  // namespace mh::p2p
