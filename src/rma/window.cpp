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
  return static_cast<const node::Node*>(node)->alive(rank);
}

// Where this process reaches all of an end in a peer's heap, or in its own memory.
void find_here(End& end, const Extent& extent, const memory::Reach& reach) {
  const memory::View begin = end.base.at(static_cast<std::uint64_t>(extent.low));
  std::byte* here = reach.to_here(begin, extent.bytes());
  if (here == nullptr) return;
  end.here = here - extent.low;
  end.in_heap = !reach.is_own(begin);
}

// Regular ends can be told to others.
std::optional<SharedEnd> share(const End& end, std::uint64_t bytes) {
  if (end.layout == nullptr) return SharedEnd{layout::compact_of_bytes(bytes), end.base};
  const auto compact = layout::compact_of(*end.layout, end.count);
  if (!compact) return std::nullopt;
  return SharedEnd{*compact, end.base};
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

layout::Range range_of(const Operation& what, std::uint64_t lead, const steal::Chunk& chunk) {
  const std::uint64_t end = std::max(chunk.offset + chunk.bytes, lead);
  return {what.begin + std::max(chunk.offset, lead) - lead,
          std::min(what.begin + end - lead, what.bytes)};
}

// ---- Hands --------------------------------------------------------------------------------------

Hands::Hands(const node::Node& node, const memory::Reach& reach)
    : node_(&node),
      reach_(&reach),
      liveness_{is_alive, &node},
      executor_(node.me(), reach, liveness_) {}

End Hands::end_of(const SharedEnd& shared, std::size_t number) {
  End end{.layout = nullptr, .count = 1, .base = shared.base};
  if (is_contiguous(shared.shape)) {
    end.base = shared.base.at(static_cast<std::uint64_t>(shared.shape.first));
    find_here(end, {0, static_cast<std::int64_t>(shared.shape.bytes)}, *reach_);
    return end;
  }
  end.layout = &known_[number].of(shared.shape);
  find_here(end, {shared.shape.low, shared.shape.high}, *reach_);
  return end;
}

// ---- Window -------------------------------------------------------------------------------------

Window::Window(const Control& control, std::uint32_t me, std::vector<Exposed> exposed)
    : control_(control),
      me_(me),
      exposed_(std::move(exposed)),
      epochs_(exposed_.size()),
      slots_(control.part(me).open, control.board(), me, kJobs),
      reluctance_(exposed_.size(), 0),
      kept_(exposed_.size()) {}

std::optional<End> Window::target_end(std::uint32_t rank, std::uint64_t address,
                                      const layout::Layout* layout, std::uint64_t count,
                                      std::uint64_t bytes, const memory::Reach& reach) const {
  const Exposed& target = exposed_[rank];
  const Extent extent = extent_of(layout, count, bytes);
  const std::uint64_t begin = address + static_cast<std::uint64_t>(extent.low) - target.base;
  if (begin > target.bytes || extent.bytes() > target.bytes - begin) return std::nullopt;
  End end{.layout = layout, .count = count, .base = {address, target.pid, target.node_rank}};
  if (target.here != nullptr) {
    end.here = target.here + (address - target.base);
  } else if (!target.is_elsewhere()) {
    find_here(end, extent, reach);
  }
  return end;
}

bool Window::help(Hands& hands, bool (*may_help)(std::uint32_t), Helped& helped) {
  const node::WorkBoard& board = control_.board();
  for (std::uint32_t word = 0; word * 64 < ranks(); ++word) {
    // relaxed: a hint; the ticket of each job decides.
    std::uint64_t posted = board.bits[word].load(std::memory_order_relaxed);
    for (; posted != 0; posted &= posted - 1) {
      const auto rank = word * 64 + static_cast<std::uint32_t>(std::countr_zero(posted));
      if (rank == me_ || rank >= ranks() || !may_help(exposed_[rank].node_rank)) continue;
      if (help_rank(hands, rank, helped)) return true;
    }
  }
  return false;
}

bool Window::help_rank(Hands& hands, std::uint32_t rank, Helped& helped) {
  RankPart& part = control_.part(rank);
  // relaxed: a hint; the ticket of each job decides.
  std::uint32_t open = part.open.load(std::memory_order_relaxed);
  for (; open != 0; open &= open - 1) {
    SharedJob& job = part.jobs[std::countr_zero(open)];
    if (!job.job.has_work()) continue;
    const std::uint32_t owner = exposed_[rank].node_rank;
    const node::Visit visit(hands.node().mine(), owner);
    steal::Chunk chunk{};
    if (!visit || !job.job.claim(chunk, steal::End::other)) continue;
    const Status done = run_shared(hands, job, chunk);
    job.job.finish(done.ok());
    helped = {chunk.bytes, owner};
    return true;
  }
  return false;
}

Status Window::run_shared(Hands& hands, const SharedJob& job, const steal::Chunk& chunk) {
  Task task;
  task.what = job.what;
  if (task.what.has_origin) task.origin = hands.end_of(job.origin, 0);
  if (task.what.has_result) task.result = hands.end_of(job.result, 1);
  task.target = hands.end_of(job.target, 2);
  const Exposed& exposed = exposed_[task.what.target];
  if (exposed.here != nullptr) {
    task.target.here = exposed.here + (task.target.base.address - exposed.base);
    task.target.in_heap = false;
  }
  task.locks = &control_.part(task.what.target).stripes;
  return hands.executor().run(task, range_of(task.what, job.lead, chunk));
}

// ---- Active messages ----------------------------------------------------------------------------

namespace {

constexpr std::uint8_t kGoStraight = 32;  // operations after one that the target did not take
constexpr std::uint32_t kTurnsBeforeDoubt = 4096;
constexpr int kPatience = 80;  // looks: some microseconds, as long as a system call

End end_of_bytes(std::byte* bytes) {
  End end;
  end.here = bytes;
  return end;
}

// How the message `posted` ended: kFree where the target did not take it, and it was withdrawn.
ActiveMessage::State await(ActiveMessage& message, std::uint64_t posted, const Hands& hands,
                           std::uint32_t target) {
  for (int look = 0; look < kPatience; ++look) {
    // acquire: pairs with the release in serve_one().
    const auto state = ActiveMessage::state_of(message.word.load(std::memory_order_acquire));
    if (state == ActiveMessage::kDone || state == ActiveMessage::kFailed) return state;
    relax();
  }
  std::uint64_t expected = posted;
  const std::uint64_t withdrawn = ActiveMessage::with(posted, ActiveMessage::kFree);
  // relaxed: nobody has looked at it.
  if (message.word.compare_exchange_strong(expected, withdrawn, std::memory_order_relaxed)) {
    return ActiveMessage::kFree;
  }
  // The target is at it: as long as a few moves of memory take, or until it has its core again.
  for (std::uint32_t turn = 1;; ++turn) {
    const auto state = ActiveMessage::state_of(message.word.load(std::memory_order_acquire));
    if (state != ActiveMessage::kTaken) return state;
    if (turn % kTurnsBeforeDoubt == 0 && !hands.node().alive(target)) return ActiveMessage::kFailed;
    ::sched_yield();
  }
}

}  // namespace

// Posts this rank's message, filled in by fill(), if it is free and the target is likely in MPI,
// and reads the answer by read().
template <class Fill, class Read>
std::optional<Status> Window::ask(const Hands& hands, std::uint32_t target, Fill&& fill,
                                  Read&& read) {
  if (reluctance_[target] != 0) {
    --reluctance_[target];
    return std::nullopt;
  }
  // acquire: pairs with the release below, by another thread.
  if (asking_.test_and_set(std::memory_order_acquire)) return std::nullopt;
  ActiveMessage& message = control_.part(me_).message;
  fill(message);
  const std::uint32_t number =
      static_cast<std::uint32_t>(message.word.load(std::memory_order_relaxed) >> 32U) + 1;
  const std::uint64_t posted = ActiveMessage::word_of(number, target, ActiveMessage::kPosted);
  // release: pairs with the acquire in serve_one().
  message.word.store(posted, std::memory_order_release);
  // relaxed: a hint.
  control_.part(target).mail[me_ / 64].fetch_or(1ULL << (me_ % 64), std::memory_order_relaxed);
  const ActiveMessage::State state = await(message, posted, hands, exposed_[target].node_rank);
  if (state == ActiveMessage::kFree) reluctance_[target] = kGoStraight;
  if (state == ActiveMessage::kDone) read(message);
  asking_.clear(std::memory_order_release);
  if (state == ActiveMessage::kFree) return std::nullopt;
  return state == ActiveMessage::kDone ? Status{} : Status{Code::system, 0};
}

std::optional<Status> Window::ask_target(const Hands& hands, const Task& task,
                                         const void* compare) {
  using Kind = ActiveMessage::Kind;
  const std::size_t bytes = task.what.bytes;
  const auto fill = [&](ActiveMessage& message) {
    message.kind = compare == nullptr ? Kind::operation : Kind::compare_and_swap;
    message.what = task.what;
    message.address = task.target.base.address;
    if (task.what.has_origin) std::memcpy(message.data, task.origin.here, bytes);
    if (compare != nullptr) std::memcpy(message.compare, compare, bytes);
  };
  return ask(hands, task.what.target, fill, [&](const ActiveMessage& message) {
    if (task.what.has_result) std::memcpy(task.result.here, message.data, bytes);
  });
}

void Window::serve(Hands& hands) {
  RankPart& mine = control_.part(me_);
  for (std::uint32_t word = 0; word * 64 < ranks(); ++word) {
    // relaxed, both: a hint.
    if (mine.mail[word].load(std::memory_order_relaxed) == 0) continue;
    std::uint64_t from = mine.mail[word].exchange(0, std::memory_order_relaxed);
    for (; from != 0; from &= from - 1) {
      serve_one(hands, word * 64 + static_cast<std::uint32_t>(std::countr_zero(from)));
    }
  }
}

void Window::serve_one(Hands& hands, std::uint32_t origin) {
  ActiveMessage& message = control_.part(origin).message;
  std::uint64_t word = message.word.load(std::memory_order_relaxed);
  const bool for_me = ActiveMessage::target_of(word) == me_;
  if (!for_me || ActiveMessage::state_of(word) != ActiveMessage::kPosted) return;
  const std::uint64_t taken = ActiveMessage::with(word, ActiveMessage::kTaken);
  // acquire: pairs with the release in ask().
  if (!message.word.compare_exchange_strong(word, taken, std::memory_order_acquire)) return;
  const Status done = carry_out(hands, message);
  // release: pairs with the acquire in await().
  message.word.store(
      ActiveMessage::with(taken, done ? ActiveMessage::kDone : ActiveMessage::kFailed),
      std::memory_order_release);
}

Status Window::carry_out(Hands& hands, ActiveMessage& message) {
  StripeLocks& locks = control_.part(me_).stripes;
  if (message.kind == ActiveMessage::Kind::list) {
    const Exposed& own = exposed_[me_];
    return hands.executor().run(message.list, {own.base, own.pid, own.node_rank}, locks);
  }
  std::byte origin[ActiveMessage::kMost];
  std::memcpy(origin, message.data, sizeof origin);
  Task task;
  task.what = message.what;
  task.origin = end_of_bytes(origin);
  task.result = end_of_bytes(message.data);
  task.target = end_of_bytes(reinterpret_cast<std::byte*>(message.address));
  task.target.base.address = message.address;
  task.locks = &locks;
  return message.kind == ActiveMessage::Kind::compare_and_swap
             ? hands.executor().compare_and_swap(task, message.compare)
             : hands.executor().run(task, {0, task.what.bytes});
}

// ---- Kept operations ----------------------------------------------------------------------------

bool Window::keep(const Operation& what, std::uint64_t address, const void* origin) {
  if (!KeptList::is_short(what.bytes) || what.has_result) return false;
  std::unique_ptr<KeptList>& list = kept_[what.target];
  if (list == nullptr) list.reset(new (std::nothrow) KeptList);
  if (list == nullptr || !list->has_room(what.bytes)) return false;
  if (list->entries == 0) kept_lists_.fetch_add(1, std::memory_order_relaxed);
  list->add(what, address, origin);
  return true;
}

Status Window::carry_out_kept(Hands& hands, std::uint32_t target) {
  KeptList* list = kept_[target].get();
  if (list == nullptr || list->entries == 0) return {};
  const Exposed& there = exposed_[target];
  const auto fill = [&](ActiveMessage& message) {
    message.kind = ActiveMessage::Kind::list;
    message.list.copy_from(*list);
  };
  const auto answered = ask(hands, target, fill, [](const ActiveMessage&) {});
  const Status done = answered
                          ? *answered
                          : hands.executor().run(*list, {there.base, there.pid, there.node_rank},
                                                 control_.part(target).stripes);
  list->clear();
  kept_lists_.fetch_sub(1, std::memory_order_relaxed);
  return done;
}

// ---- Running ------------------------------------------------------------------------------------

Running::Running(Window& window, const Task& task, std::uint32_t chunk_bytes, bool shared)
    : window_(window),
      task_(task),
      lead_(lead_of(task.what, task.target.base.address, task.target.layout == nullptr)),
      done_(task.what.begin),
      chunk_bytes_(std::max(chunk_bytes / task.what.element, 1U) * task.what.element) {
  if (shared && task.what.bytes - task.what.begin > chunk_bytes_) open(chunk_bytes_);
}

// Leaves all to this thread where an end cannot be told to others, or no slot is free.
void Running::open(std::uint32_t chunk_bytes) {
  const Operation& what = task_.what;
  std::optional<SharedEnd> origin = SharedEnd{};
  std::optional<SharedEnd> result = SharedEnd{};
  if (what.has_origin) origin = share(task_.origin, what.bytes);
  if (what.has_result) result = share(task_.result, what.bytes);
  const std::optional<SharedEnd> target = share(task_.target, what.bytes);
  const bool computable = task_.reducer.reduce == nullptr;
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
                  .order = steal::Order::both_ends});
  window_.slots_.show(slot);
}

bool Running::step(Hands& hands) {
  if (job_ == nullptr) {
    const std::uint64_t end = std::min(done_ + chunk_bytes_, task_.what.bytes);
    succeeded_ = hands.executor().run(task_, {done_, end}).ok();
    done_ = end;
    return done_ == task_.what.bytes || !succeeded_;
  }
  steal::Chunk chunk{};
  if (job_->job.claim(chunk, steal::End::owner)) {
    const layout::Range range = rma::range_of(task_.what, lead_, chunk);
    job_->job.finish(hands.executor().run(task_, range).ok());
    return job_->job.finished();
  }
  window_.slots_.hide(slot());
  return job_->job.finished();
}

std::uint32_t Running::slot() const {
  return static_cast<std::uint32_t>(job_ - window_.control_.part(window_.me_).jobs);
}

void Running::close() {
  if (job_ != nullptr) window_.slots_.give_back(slot());
  job_ = nullptr;
}

void Running::give_up() {
  window_.slots_.hide(slot());
  job_ = nullptr;  // its place is not used again: a dead process may still be seen in it
  succeeded_ = false;
}

}  // namespace mh::rma
