// SPDX-License-Identifier: BSD-3-Clause
#include "steal/thief.hpp"

#include <bit>
#include <cerrno>
#include <new>
#include <span>

#include "base/clock.hpp"
#include "base/emulated.hpp"
#include "observe/trace.hpp"

namespace mh::steal {
namespace {

constexpr std::size_t kLittleScratch = 4096;  // used if kScratchBytes cannot be allocated
// The size of a thread's scratch buffer, in bytes. It fits into an L2 cache of 256 KB, beside the
// data that are read and written.
constexpr std::size_t kScratchBytes = 64U << 10U;

template <class T>
T& in_area(const node::Node& node, std::uint32_t rank, std::size_t offset) {
  return *reinterpret_cast<T*>(node.area(rank) + offset);
}

}  // namespace

Thief::Thief(const node::Node& node, const AreaOffsets& offsets, Strategy strategy,
             std::uint64_t saturate_ranks, const memory::Reach& reach)
    : node_(&node),
      offsets_(offsets),
      strategy_(strategy),
      saturate_ranks_(saturate_ranks),
      counters_(&in_area<observe::RankCounters>(node, node.me(), offsets.counters)),
      helped_(&in_area<observe::Counter>(node, node.me(), offsets.helped), node.ranks()),
      choice_(node.me()),
      reach_(&reach),
      scratch_(new (std::nothrow) std::byte[kScratchBytes]) {}

JobSlots& Thief::slots_of(std::uint32_t rank) const {
  return in_area<JobSlots>(*node_, rank, offsets_.slots);
}

const Shapes& Thief::shapes_of(const Job& job, std::uint32_t owner) const {
  const JobSlots& slots = slots_of(owner);
  return slots.shapes[&job - slots.jobs];
}

layout::CacheLevel Thief::cache_level_of(const CopySpec& work) const {
  return layout::cache_level_of(work.bytes, node_->header().cache_bytes);
}

std::span<std::byte> Thief::scratch(std::span<std::byte> little) const {
  return scratch_ == nullptr ? little : std::span<std::byte>(scratch_.get(), kScratchBytes);
}

// Copies data with gaps by loads and stores alone, so this process must map both ends: the kernel
// cannot copy from one layout to another.
Status Thief::copy_shaped(const CopySpec& work, const Shapes& shapes, const Chunk& chunk) {
  const auto begin = [](const memory::View& view, const layout::Compact& shape) {
    return view.at(static_cast<std::uint64_t>(shape.low));
  };
  std::byte* to = reach_->to_here(begin(work.to, shapes.to), shapes.to.reach());
  const std::byte* from = reach_->here(begin(work.from, shapes.from), shapes.from.reach());
  if (to == nullptr || from == nullptr) return {Code::refused, EPERM};
  const layout::CacheLevel cache_level = cache_level_of(work);
  const auto elements = [&](const std::byte* bytes, const layout::Compact& shape,
                            layout::LastLayout& known) {
    return layout::Elements{
        .layout = &known.of(shape),
        .count = 1,
        .base = layout::address_of(bytes) - static_cast<std::uint64_t>(shape.low),
        .cache_level = cache_level};
  };
  const emulated::Leaf leaf(emulated::Way::blocks, {work.to.rank, work.to.address + chunk.offset},
                            {work.from.rank, work.from.address + chunk.offset}, chunk.bytes);
  std::byte little[kLittleScratch];
  layout::copy_range(elements(to, shapes.to, to_), elements(from, shapes.from, from_),
                     {chunk.offset, chunk.offset + chunk.bytes}, scratch(little));
  return {};
}

void Thief::count(const CopySpec& work, const Chunk& chunk, std::uint32_t owner,
                  std::uint64_t spent_ticks) {
  observe::RankCounters& mine = *counters_;
  if (reach_->is_own(work.to)) {
    mine.own_chunks_received.add(1);
    mine.own_bytes_received.add(chunk.bytes);
    mine.own_copy_ticks.add(spent_ticks);
  } else if (reach_->is_own(work.from)) {
    mine.own_chunks_sent.add(1);
    mine.own_bytes_sent.add(chunk.bytes);
    mine.own_copy_ticks.add(spent_ticks);
  } else {
    mine.others_chunks.add(1);
    mine.others_bytes.add(chunk.bytes);
    mine.help_ticks.add(spent_ticks);
    helped_[owner].add(chunk.bytes);
    if (observe::trace() != nullptr) trace_help(chunk, owner, spent_ticks);
  }
}

void Thief::trace_help(const Chunk& chunk, std::uint32_t owner, std::uint64_t spent_ticks) const {
  observe::add_to_trace({.begin = ticks() - spent_ticks,
                         .extent = spent_ticks,
                         .bytes = chunk.bytes,
                         .peer = node_->record(owner).world_rank,
                         .kind = observe::EventKind::helped});
}

bool Thief::run_one_chunk(Job& job, std::uint32_t owner) {
  if (!is_worth_a_claim(job)) return false;
  const node::ClaimIntent intent(node_->mine(), owner);
  return intent && claim_and_copy(job, owner);
}

bool Thief::claim_and_copy(Job& job, std::uint32_t owner) {
  if (!is_worth_a_claim(job)) return false;
  Chunk chunk{};
  if (!job.claim(chunk, owner == node_->me() ? ClaimSide::owner : ClaimSide::other)) {
    exhausted_ = &job;
    return false;
  }
  copy_claimed(job, owner, chunk);
  return true;
}

void Thief::copy_claimed(Job& job, std::uint32_t owner, const Chunk& chunk) {
  const CopySpec work = job.work();  // a copy: the job must not be accessed after finish()
  const std::uint64_t start = ticks();
  std::byte little[kLittleScratch];
  const Status copied = work.shaped
                            ? copy_shaped(work, shapes_of(job, owner), chunk)
                            : reach_->copy(work.to.at(chunk.offset), work.from.at(chunk.offset),
                                           chunk.bytes, scratch(little), cache_level_of(work));
  const std::uint64_t spent = ticks() - start;
  exhausted_ = job.finish(copied.ok(), chunk.count) ? nullptr : &job;
  const bool third_party = !reach_->is_own(work.to) && !reach_->is_own(work.from);
  if (third_party && copied.code == Code::refused) retired_ = true;
  if (copied.ok()) count(work, chunk, owner, spent);
}

bool Thief::help_rank(std::uint32_t victim) {
  JobSlots& slots = slots_of(victim);
  emulated::touch(&slots.open, emulated::Access::read);
  // relaxed: a hint where to look; each job itself decides whether a chunk is left.
  std::uint32_t open = slots.open.load(std::memory_order_relaxed);
  for (; open != 0; open &= open - 1) {
    if (run_one_chunk(slots.jobs[std::countr_zero(open)], victim)) return true;
  }
  return false;
}

bool Thief::other_numa_node_allowed(std::uint32_t victim) const {
  return strategy_ == Strategy::mixed ||
         !node_->has_active_ranks(node_->numa_of(victim), saturate_ranks_);
}

bool Thief::may_help(std::uint32_t victim) const {
  if (node_->is_near(victim)) return true;
  return strategy_ != Strategy::localized && other_numa_node_allowed(victim);
}

bool Thief::help() {
  if (retired_) return false;
  const auto pick = [&](bool near) {
    return choice_.pick(node_->board(), node_->ranks(), [&](std::uint32_t rank) {
      return rank != node_->me() && node_->is_near(rank) == near;
    });
  };
  if (const std::uint32_t near = pick(true); near != kNobody && help_rank(near)) return true;
  if (strategy_ == Strategy::localized) return false;
  const std::uint32_t far = pick(false);
  return far != kNobody && other_numa_node_allowed(far) && help_rank(far);
}

}  // namespace mh::steal
