// SPDX-License-Identifier: BSD-3-Clause
#include "rma/window.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "base/clock.hpp"

namespace mh::rma {
namespace {

bool is_alive(const void* node, std::uint32_t rank) {
  return static_cast<const node::Node*>(node)->is_alive(rank);
}

// Sets buffer.mapped if this process can load and store the whole buffer: it lies in a peer's heap
// or in this process's own memory. `extent`: the bytes that the buffer covers.
void find_here(RmaBuffer& buffer, const Extent& extent, const memory::Reach& reach) {
  const memory::View begin = buffer.base.at(static_cast<std::uint64_t>(extent.low));
  std::byte* here = reach.to_here(begin, extent.bytes());
  if (here == nullptr) return;
  buffer.mapped = here - extent.low;
  buffer.in_heap = !reach.is_own(begin);
}

// Returns the form of a buffer in which thieves read it; nothing if the buffer is neither
// contiguous nor a single grid.
std::optional<SharedBuffer> shared_buffer_of(const RmaBuffer& buffer, std::uint64_t bytes) {
  if (buffer.layout == nullptr) return SharedBuffer{layout::compact_of_bytes(bytes), buffer.base};
  const auto compact = layout::compact_of(*buffer.layout, buffer.count);
  if (!compact) return std::nullopt;
  return SharedBuffer{*compact, buffer.base};
}

bool is_contiguous(const layout::Compact& compact) { return compact.grid.dims == 0; }

}  // namespace

Extent extent_of(const layout::Layout* layout, std::uint64_t count, std::uint64_t bytes) {
  if (bytes == 0) return {};
  if (layout == nullptr) return {0, static_cast<std::int64_t>(bytes)};
  const std::int64_t last = static_cast<std::int64_t>(count - 1) * layout->extent();
  return {layout->true_lower() + std::min<std::int64_t>(last, 0),
          layout->true_upper() + std::max<std::int64_t>(last, 0)};
}

std::uint64_t lead_of(const Operation& what, std::uint64_t address, bool contiguous) {
  if (!what.atomic || !contiguous) return 0;
  return (address + what.begin) % kStripe / what.element * what.element;
}

layout::StreamRange range_of(const Operation& what, std::uint64_t lead, const steal::Chunk& chunk) {
  const std::uint64_t end = std::max(chunk.offset + chunk.bytes, lead);
  return {what.begin + std::max(chunk.offset, lead) - lead,
          std::min(what.begin + end - lead, what.bytes)};
}

// ---- class RmaContext ---------------------------------------------------------------------------

RmaContext::RmaContext(const node::Node& node, const memory::Reach& reach)
    : node_(&node),
      reach_(&reach),
      liveness_{is_alive, &node},
      executor_(node.me(), reach, liveness_) {}

RmaBuffer RmaContext::end_of(const SharedBuffer& shared, std::size_t number) {
  RmaBuffer buffer{.layout = nullptr, .count = 1, .base = shared.base};
  if (is_contiguous(shared.shape)) {
    buffer.base = shared.base.at(static_cast<std::uint64_t>(shared.shape.first));
    find_here(buffer, {0, static_cast<std::int64_t>(shared.shape.bytes)}, *reach_);
    return buffer;
  }
  buffer.layout = &known_[number].of(shared.shape);
  find_here(buffer, {shared.shape.low, shared.shape.high}, *reach_);
  return buffer;
}

// ---- class Window -------------------------------------------------------------------------------

Window::Window(const Control& control, std::uint32_t me, std::vector<Exposed> exposed)
    : control_(control),
      me_(me),
      exposed_(std::move(exposed)),
      epochs_(exposed_.size()),
      slots_(control.part(me).open, {&control.board(), 1}, me, kJobs),
      skips_left_(exposed_.size(), 0),
      deferred_(exposed_.size()),
      victims_(me) {}

std::optional<RmaBuffer> Window::target_buffer(std::uint32_t rank, std::uint64_t address,
                                               const layout::Layout* layout, std::uint64_t count,
                                               std::uint64_t bytes,
                                               const memory::Reach& reach) const {
  const Exposed& target = exposed_[rank];
  const Extent extent = extent_of(layout, count, bytes);
  const std::uint64_t begin = address + static_cast<std::uint64_t>(extent.low) - target.base;
  if (begin > target.bytes || extent.bytes() > target.bytes - begin) return std::nullopt;
  RmaBuffer buffer{
      .layout = layout, .count = count, .base = {address, target.pid, target.node_rank}};
  if (target.mapped != nullptr) {
    buffer.mapped = target.mapped + (address - target.base);
  } else if (!target.is_elsewhere()) {
    find_here(buffer, extent, reach);
  }
  return buffer;
}

bool Window::help(RmaContext& context, bool (*may_help)(std::uint32_t), HelpedChunk& helped) {
  const auto pick = [&](bool near) {
    return victims_.pick(control_.board(), ranks(), [&](std::uint32_t rank) {
      if (rank == me_ || rank >= ranks() || exposed_[rank].is_elsewhere()) return false;
      const std::uint32_t node_rank = exposed_[rank].node_rank;
      return context.node().is_near(node_rank) == near && may_help(node_rank);
    });
  };
  for (const bool near : {true, false}) {
    const std::uint32_t rank = pick(near);
    if (rank != steal::kNobody && help_rank(context, rank, helped)) return true;
  }
  return false;
}

bool Window::help_rank(RmaContext& context, std::uint32_t rank, HelpedChunk& helped) {
  RankPart& part = control_.part(rank);
  // relaxed: a hint where to look; each job itself decides whether a chunk is left.
  std::uint32_t open = part.open.load(std::memory_order_relaxed);
  for (; open != 0; open &= open - 1) {
    SharedJob& job = part.jobs[std::countr_zero(open)];
    if (!job.job.has_work()) continue;
    const std::uint32_t owner = exposed_[rank].node_rank;
    const node::ClaimIntent intent(context.node().mine(), owner);
    steal::Chunk chunk{};
    if (!intent || !job.job.claim(chunk, steal::ClaimSide::other)) continue;
    const Status done = run_shared(context, job, chunk);
    job.job.finish(done.ok());
    helped = {chunk.bytes, owner};
    return true;
  }
  return false;
}

Status Window::run_shared(RmaContext& context, const SharedJob& job, const steal::Chunk& chunk) {
  BoundOperation operation;
  operation.what = job.what;
  if (operation.what.has_origin) operation.origin = context.end_of(job.origin, 0);
  if (operation.what.has_result) operation.result = context.end_of(job.result, 1);
  operation.target = context.end_of(job.target, 2);
  const Exposed& exposed = exposed_[operation.what.target];
  if (exposed.mapped != nullptr) {
    operation.target.mapped = exposed.mapped + (operation.target.base.address - exposed.base);
    operation.target.in_heap = false;
  }
  operation.locks = &control_.part(operation.what.target).stripes;
  return context.executor().run(operation, range_of(operation.what, job.lead, chunk));
}

// ---- Active messages, by which a target acts for an origin --------------------------------------

namespace {

// After a target did not take an active message of this rank, this rank makes so many of its next
// operations on that target without a message: it copies through the kernel at once.
constexpr std::uint8_t kGoStraight = 32;
constexpr std::uint32_t kTurnsBeforeDoubt = 4096;  // yields between two looks at the process table
constexpr int kPatience = 80;                      // polls: some microseconds, about a system call

RmaBuffer buffer_of_bytes(std::byte* bytes) {
  RmaBuffer buffer;
  buffer.mapped = bytes;
  return buffer;
}

// Waits for the answer to the active message with the word `posted` and returns the message's last
// state. kFree: the target did not take the message for some microseconds, and it was withdrawn.
ActiveMessage::DeliveryState await_answer(ActiveMessage& message, std::uint64_t posted,
                                          const RmaContext& context, std::uint32_t target) {
  for (int look = 0; look < kPatience; ++look) {
    // acquire: pairs with the release in serve_one() of the target, whose result this thread then
    // reads.
    const auto state = ActiveMessage::state_of(message.word.load(std::memory_order_acquire));
    if (state == ActiveMessage::kDone || state == ActiveMessage::kFailed) return state;
    spin_pause();
  }
  std::uint64_t expected = posted;
  const std::uint64_t withdrawn = ActiveMessage::with(posted, ActiveMessage::kFree);
  // relaxed: if the exchange succeeds, the target has not taken the message, and has read and
  // written nothing.
  if (message.word.compare_exchange_strong(expected, withdrawn, std::memory_order_relaxed)) {
    return ActiveMessage::kFree;
  }
  // The target has taken the message, so this thread must wait. The target needs the time of a few
  // memory copies, or, if the kernel has taken its core away, until it runs again.
  for (std::uint32_t turn = 1;; ++turn) {
    const auto state = ActiveMessage::state_of(message.word.load(std::memory_order_acquire));
    if (state != ActiveMessage::kTaken) return state;
    if (turn % kTurnsBeforeDoubt == 0 && !context.node().is_alive(target))
      return ActiveMessage::kFailed;
    ::sched_yield();
  }
}

}  // namespace

// Posts this rank's active message, which fill(message) writes, to `target`; read(message) reads
// the answer. Returns nothing if another thread of this rank uses the message, or if the target is
// unlikely to be in MPI, as it did not take a recent message.
template <class Fill, class Read>
std::optional<Status> Window::ask(const RmaContext& context, std::uint32_t target, Fill&& fill,
                                  Read&& read) {
  // acquire: pairs with the release in asking_.clear() of the thread that has used the message
  // last.
  if (asking_.test_and_set(std::memory_order_acquire)) return std::nullopt;
  if (skips_left_[target] != 0) {
    --skips_left_[target];
    asking_.clear(std::memory_order_release);
    return std::nullopt;
  }
  ActiveMessage& message = control_.part(me_).message;
  fill(message);
  const std::uint32_t number =
      static_cast<std::uint32_t>(message.word.load(std::memory_order_relaxed) >> 32U) + 1;
  const std::uint64_t posted = ActiveMessage::word_of(number, target, ActiveMessage::kPosted);
  // release: pairs with the acquire in serve_one() of the target, which then reads the message.
  message.word.store(posted, std::memory_order_release);
  // relaxed: a hint for the target where to look. If it overlooks the message, await_answer()
  // withdraws the message.
  control_.part(target).mail[me_ / 64].fetch_or(1ULL << (me_ % 64), std::memory_order_relaxed);
  const ActiveMessage::DeliveryState state =
      await_answer(message, posted, context, exposed_[target].node_rank);
  if (state == ActiveMessage::kFree) skips_left_[target] = kGoStraight;
  if (state == ActiveMessage::kDone) read(message);
  asking_.clear(std::memory_order_release);
  if (state == ActiveMessage::kFree) return std::nullopt;
  return state == ActiveMessage::kDone ? Status{} : Status{Code::system, 0};
}

std::optional<Status> Window::ask_target(const RmaContext& context, const BoundOperation& operation,
                                         const void* compare) {
  const std::size_t bytes = operation.what.bytes;
  const auto fill = [&](ActiveMessage& message) {
    message.kind =
        compare == nullptr ? ActiveMessageKind::operation : ActiveMessageKind::compare_and_swap;
    message.what = operation.what;
    message.address = operation.target.base.address;
    if (operation.what.has_origin) std::memcpy(message.data, operation.origin.mapped, bytes);
    if (compare != nullptr) std::memcpy(message.compare, compare, bytes);
  };
  return ask(context, operation.what.target, fill, [&](const ActiveMessage& message) {
    if (operation.what.has_result) std::memcpy(operation.result.mapped, message.data, bytes);
  });
}

void Window::serve(RmaContext& context) {
  RankPart& mine = control_.part(me_);
  for (std::uint32_t word = 0; word * 64 < ranks(); ++word) {
    // relaxed, for the load and the exchange: a hint, since an origin withdraws a message that this
    // rank overlooks.
    if (mine.mail[word].load(std::memory_order_relaxed) == 0) continue;
    std::uint64_t from = mine.mail[word].exchange(0, std::memory_order_relaxed);
    for (; from != 0; from &= from - 1) {
      serve_one(context, word * 64 + static_cast<std::uint32_t>(std::countr_zero(from)));
    }
  }
}

void Window::serve_one(RmaContext& context, std::uint32_t origin) {
  ActiveMessage& message = control_.part(origin).message;
  std::uint64_t word = message.word.load(std::memory_order_relaxed);
  const bool for_me = ActiveMessage::target_of(word) == me_;
  if (!for_me || ActiveMessage::state_of(word) != ActiveMessage::kPosted) return;
  const std::uint64_t taken = ActiveMessage::with(word, ActiveMessage::kTaken);
  // acquire: pairs with the release in ask() of the origin, which has written the message.
  if (!message.word.compare_exchange_strong(word, taken, std::memory_order_acquire)) return;
  const Status done = carry_out(context, message);
  // release: pairs with the acquire in await_answer() of the origin, which then reads the result.
  message.word.store(
      ActiveMessage::with(taken, done ? ActiveMessage::kDone : ActiveMessage::kFailed),
      std::memory_order_release);
}

Status Window::carry_out(RmaContext& context, ActiveMessage& message) {
  StripeLocks& locks = control_.part(me_).stripes;
  if (message.kind == ActiveMessageKind::list) {
    const Exposed& own = exposed_[me_];
    return context.executor().run(message.list, {own.base, own.pid, own.node_rank}, locks);
  }
  std::byte origin[ActiveMessage::kMost];
  std::memcpy(origin, message.data, sizeof origin);
  BoundOperation operation;
  operation.what = message.what;
  operation.origin = buffer_of_bytes(origin);
  operation.result = buffer_of_bytes(message.data);
  operation.target = buffer_of_bytes(reinterpret_cast<std::byte*>(message.address));
  operation.target.base.address = message.address;
  operation.locks = &locks;
  return message.kind == ActiveMessageKind::compare_and_swap
             ? context.executor().compare_and_swap(operation, message.compare)
             : context.executor().run(operation, {0, operation.what.bytes});
}

// ---- Deferred operations of this rank on a target -----------------------------------------------

bool Window::defer(const Operation& what, std::uint64_t address, const void* origin) {
  if (!DeferredList::is_short(what.bytes) || what.has_result) return false;
  std::unique_ptr<DeferredList>& list = deferred_[what.target];
  if (list == nullptr) list.reset(new (std::nothrow) DeferredList);
  if (list == nullptr || !list->has_space(what.bytes)) return false;
  if (list->entries == 0) deferred_lists_.fetch_add(1, std::memory_order_relaxed);
  list->add(what, address, origin);
  return true;
}

Status Window::carry_out_deferred(RmaContext& context, std::uint32_t target) {
  DeferredList* list = deferred_[target].get();
  if (list == nullptr || list->entries == 0) return {};
  const Exposed& there = exposed_[target];
  const auto fill = [&](ActiveMessage& message) {
    message.kind = ActiveMessageKind::list;
    message.list.copy_from(*list);
  };
  const auto answered = ask(context, target, fill, [](const ActiveMessage&) {});
  const Status done = answered
                          ? *answered
                          : context.executor().run(*list, {there.base, there.pid, there.node_rank},
                                                   control_.part(target).stripes);
  list->clear();
  deferred_lists_.fetch_sub(1, std::memory_order_relaxed);
  return done;
}

// ---- class OperationRun -------------------------------------------------------------------------

OperationRun::OperationRun(Window& window, const BoundOperation& operation,
                           std::uint32_t chunk_bytes, bool shared)
    : window_(window),
      operation_(operation),
      lead_(lead_of(operation.what, operation.target.base.address,
                    operation.target.layout == nullptr)),
      done_(operation.what.begin),
      chunk_bytes_(std::max(chunk_bytes / operation.what.element, 1U) * operation.what.element) {
  if (shared && operation.what.bytes - operation.what.begin > chunk_bytes_) open(chunk_bytes_);
}

// Opens a job, so that other ranks can claim chunks of the operation. Opens none, and leaves all
// chunks to this thread, if a buffer is neither contiguous nor a single grid, if the MPI library
// computes the reduction, or if no job slot is free.
void OperationRun::open(std::uint32_t chunk_bytes) {
  const Operation& what = operation_.what;
  std::optional<SharedBuffer> origin = SharedBuffer{};
  std::optional<SharedBuffer> result = SharedBuffer{};
  if (what.has_origin) origin = shared_buffer_of(operation_.origin, what.bytes);
  if (what.has_result) result = shared_buffer_of(operation_.result, what.bytes);
  const std::optional<SharedBuffer> target = shared_buffer_of(operation_.target, what.bytes);
  const bool computable = operation_.reducer.reduce == nullptr;
  if (!origin || !result || !target || !computable) return;
  const std::uint32_t slot = window_.slots_.take();
  if (slot == steal::SlotBits::kNone) return;
  job_ = &window_.control_.part(window_.me_).jobs[slot];
  job_->what = what;
  job_->lead = lead_;
  job_->origin = *origin;
  job_->target = *target;
  job_->result = *result;
  job_->job.open({.to = target->base,
                  .from = origin->base,
                  .bytes = lead_ + what.bytes - what.begin,
                  .chunk_bytes = chunk_bytes,
                  .order = steal::CopyOrder::both_ends});
  window_.slots_.show(slot);
}

bool OperationRun::step(RmaContext& context) {
  if (job_ == nullptr) {
    const std::uint64_t end = std::min(done_ + chunk_bytes_, operation_.what.bytes);
    succeeded_ = context.executor().run(operation_, {done_, end}).ok();
    done_ = end;
    return done_ == operation_.what.bytes || !succeeded_;
  }
  steal::Chunk chunk{};
  if (job_->job.claim(chunk, steal::ClaimSide::owner)) {
    const layout::StreamRange range = rma::range_of(operation_.what, lead_, chunk);
    job_->job.finish(context.executor().run(operation_, range).ok());
    return job_->job.finished();
  }
  window_.slots_.hide(slot());
  return job_->job.finished();
}

std::uint32_t OperationRun::slot() const {
  return static_cast<std::uint32_t>(job_ - window_.control_.part(window_.me_).jobs);
}

void OperationRun::close() {
  if (job_ != nullptr) window_.slots_.give_back(slot());
  job_ = nullptr;
}

void OperationRun::give_up() {
  window_.slots_.hide(slot());
  job_ = nullptr;  // the job slot is never reused: dead processes have claimed its chunks
  succeeded_ = false;
}

}  // namespace mh::rma
