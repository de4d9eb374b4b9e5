// SPDX-License-Identifier: BSD-3-Clause
#include "rma/executor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "base/emulated.hpp"
#include "memory/view.hpp"

namespace mh::rma {
namespace {

// The size of each of three scratch buffers, for the origin's, the result's and the target's bytes.
// They stay in the second-level cache together. Longer ranges are carried out in parts of this
// size.
constexpr std::size_t kPart = 64U << 10U;
constexpr std::size_t kScratches = 3;
enum ScratchUse : std::size_t { kOfOrigin, kOfResult, kOfTarget };

// Converts an address, which may be in another process, to a pointer for an iovec.
std::byte* pointer_to(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

// The most blocks of one kernel copy. More gain little, since one system call costs as much as
// several blocks.
constexpr std::size_t kBlocks = 64;
using BlockBatch = std::array<iovec, kBlocks>;

// Calls each(blocks, bytes) for the blocks of a range of a buffer, at most kBlocks at a time. The
// buffer lies in another process, and only the kernel reaches it.
template <class Each>
Status for_blocks(const RmaBuffer& buffer, layout::StreamRange range, Each&& each) {
  BlockBatch batch;  // NOLINT(cppcoreguidelines-pro-type-member-init): written first
  for (std::uint64_t begin = range.begin; begin < range.end;) {
    const layout::ListedBlocks found =
        layout::list_blocks(elements_there(buffer), {begin, range.end}, batch);
    const Status done = each(std::span<const iovec>(batch.data(), found.used), found.bytes);
    if (!done) return done;
    begin += found.bytes;
  }
  return {};
}

}  // namespace

// Applies an atomic operation to the target's blocks, in the order of the stream and under the
// locks of their stripes (locks.hpp). The class is a sink of layout::walk_range(), which calls its
// functions for the blocks of a layout.
class BlockUpdater {
 public:
  BlockUpdater(Executor& executor, const BoundOperation& operation, const std::byte* origin,
               std::byte* result)
      : executor_(executor),
        operation_(operation),
        kernel_(kernel_of(operation.what.op, operation.what.type)),
        origin_(origin),
        result_(result) {}
  ~BlockUpdater() { let_go(); }
  BlockUpdater(const BlockUpdater&) = delete;
  BlockUpdater& operator=(const BlockUpdater&) = delete;

  [[nodiscard]] bool full() const { return !status_.ok(); }

  // Applies the blocks that were collected and not applied yet. Called after the last block.
  [[nodiscard]] Status finish() {
    if (status_.ok()) status_ = apply_collected();
    return status_;
  }

  // Applies the operation to a block of whole elements. `at`: the block's address in the target's
  // process.
  void block(layout::Address at, std::uint64_t bytes) {
    while (bytes != 0 && !full()) {
      const std::uint64_t here = std::min(bytes, bytes_in_stripe(at));
      hold(at);
      if (full()) return;
      status_ = apply(at, here);
      at += here;
      bytes -= here;
    }
  }
  void rows(layout::Address at, const layout::BlockRows& rows) {
    for (std::uint64_t i = 0; i < rows.rows; ++i) {
      for (std::uint64_t k = 0; k < rows.length; ++k) {
        block(layout::address_at(layout::address_at(at, i, rows.row_stride), k, rows.stride),
              rows.block);
      }
    }
  }
  void list(layout::Address at, const layout::Runs& runs, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i < last; ++i) {
      block(layout::address_at(at, runs.offset[i]), runs.begin_of(i + 1) - runs.begin_of(i));
    }
  }
  void lists(layout::Address at, const layout::Runs& runs, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      list(layout::address_at(at, i, runs.stride), runs, 0, runs.runs);
    }
  }

 private:
  // Returns how many bytes the whole elements have, from `at` on, that begin in the same stripe as
  // `at`. A stripe is kStripe bytes of the target's addresses (locks.hpp).
  [[nodiscard]] std::uint64_t bytes_in_stripe(layout::Address at) const {
    const std::uint64_t left = kStripe - at % kStripe;
    return (left + operation_.what.element - 1) / operation_.what.element * operation_.what.element;
  }
  // Locks the stripe of `at` (locks.hpp), and holds the lock until a block with another lock comes.
  // Blocks that were collected under the lock held before are applied first.
  void hold(layout::Address at) {
    StripeLock& wanted = operation_.locks->of(at);
    if (held_ == &wanted) return;
    if (!finish()) return;
    let_go();
    wanted.lock(executor_.me_, executor_.liveness_);
    held_ = &wanted;
  }
  void let_go() {
    if (held_ != nullptr) held_->unlock();
    held_ = nullptr;
  }

  Status apply(layout::Address at, std::uint64_t bytes) {
    const std::uint64_t offset = at - operation_.target.base.address;
    if (operation_.target.mapped != nullptr) {
      combine(operation_.target.mapped + offset, bytes);
      return executor_.after_writing(operation_.target, offset, bytes);
    }
    collected_[used_++] = {pointer_to(at), bytes};
    collected_bytes_ += bytes;
    return used_ == kBlocks ? apply_collected() : Status{};
  }

  // Applies the collected blocks: reads them by one kernel copy, combines, and writes them back.
  // They have at most kPart bytes, and only the kernel reaches them. The caller holds the lock of
  // their stripe.
  Status apply_collected() {
    const std::span<const iovec> blocks(collected_.data(), std::exchange(used_, 0));
    const std::uint64_t bytes = std::exchange(collected_bytes_, 0);
    if (blocks.empty()) return {};
    const memory::View& there = operation_.target.base;
    std::byte* copy = executor_.scratch(kOfTarget).data();
    const Status read = executor_.reach_->read_blocks(copy, there, blocks);
    if (!read) return read;
    combine(copy, bytes);
    return operation_.what.has_origin ? executor_.reach_->write_blocks(there, blocks, copy)
                                      : Status{};
  }

  void combine(std::byte* target, std::uint64_t bytes) {
    if (result_ != nullptr) std::memcpy(result_ + done_, target, bytes);
    const std::size_t count = bytes / operation_.what.element;
    if (operation_.what.op == Op::replace) {
      std::memcpy(target, origin_ + done_, bytes);
    } else if (kernel_ != nullptr) {
      kernel_(target, origin_ + done_, count);
    } else if (operation_.reducer.reduce != nullptr) {
      operation_.reducer.reduce(operation_.reducer.context, target, origin_ + done_, count);
    }
    done_ += bytes;
  }

  Executor& executor_;
  const BoundOperation& operation_;
  ReduceKernel kernel_;
  const std::byte* origin_;
  std::byte* result_;
  std::uint64_t done_ = 0;
  StripeLock* held_ = nullptr;
  BlockBatch collected_;  // blocks of the locked stripe, in the order of the stream
  std::size_t used_ = 0;
  std::uint64_t collected_bytes_ = 0;
  Status status_{};
};

Executor::Executor(std::uint32_t me, const memory::Reach& reach, const Liveness& liveness)
    : me_(me),
      reach_(&reach),
      liveness_(liveness),
      scratch_(new (std::nothrow) std::byte[kScratches * kPart]) {}

std::span<std::byte> Executor::scratch(std::size_t number) const {
  return {scratch_.get() + number * kPart, kPart};
}

Status Executor::run(const BoundOperation& operation, layout::StreamRange range) {
  if (scratch_ == nullptr) return {Code::full, 0};
  if (!operation.what.atomic) {
    return operation.what.op == Op::replace ? move(operation.target, operation.origin, range)
                                            : move(operation.result, operation.target, range);
  }
  const std::uint64_t part = kPart / operation.what.element * operation.what.element;
  while (range.begin < range.end) {
    const std::uint64_t end = std::min(range.end, range.begin + part);
    const Status done = run_part(operation, {range.begin, end});
    if (!done) return done;
    range.begin = end;
  }
  return {};
}

Status Executor::run_part(const BoundOperation& operation, layout::StreamRange range) {
  const memory::View& target = operation.target.base;
  const emulated::Leaf leaf(emulated::Way::reduce, {target.rank, target.address + range.begin},
                            emulated::kOwnPlace, range.end - range.begin);
  const std::byte* origin = nullptr;
  if (operation.what.has_origin) {
    const Status read = gather(operation.origin, range, scratch(kOfOrigin), &origin);
    if (!read) return read;
  }
  if (!operation.what.has_result) return update(operation, range, origin, nullptr);
  const bool straight = operation.result.layout == nullptr && operation.result.mapped != nullptr;
  std::byte* result = straight ? operation.result.mapped + range.begin : scratch(kOfResult).data();
  const Status done = update(operation, range, origin, result);
  return done && !straight ? scatter(operation.result, range, result) : done;
}

Status Executor::update(const BoundOperation& operation, layout::StreamRange range,
                        const std::byte* origin, std::byte* result) {
  BlockUpdater sink(*this, operation, origin, result);
  const RmaBuffer& target = operation.target;
  if (target.layout == nullptr) {
    sink.block(target.base.address + range.begin, range.end - range.begin);
  } else {
    layout::walk_range(*target.layout, target.count, target.base.address, range, sink);
  }
  return sink.finish();
}

// Carries out a range of a put or get, which is not atomic and needs no locks.
Status Executor::move(const RmaBuffer& to, const RmaBuffer& from, layout::StreamRange range) {
  const bool to_contiguous = to.layout == nullptr;
  if (to.mapped != nullptr && from.mapped != nullptr && !to.in_heap && !to_contiguous &&
      from.layout != nullptr) {
    layout::copy_range(elements_here(to), elements_here(from), range, scratch(kOfOrigin));
    return {};
  }
  if (to.mapped != nullptr && to_contiguous && from.layout == nullptr) {
    const std::uint64_t bytes = range.end - range.begin;
    if (from.mapped == nullptr)
      return reach_->read(to.mapped + range.begin, from.base.at(range.begin), bytes);
    std::memmove(to.mapped + range.begin, from.mapped + range.begin, bytes);
    return after_writing(to, range.begin, bytes);
  }
  while (range.begin < range.end) {
    const layout::StreamRange part{range.begin, std::min(range.end, range.begin + kPart)};
    const std::byte* packed = nullptr;
    Status done = gather(from, part, scratch(kOfOrigin), &packed);
    if (done) done = scatter(to, part, packed);
    if (!done) return done;
    range.begin = part.end;
  }
  return {};
}

Status Executor::gather(const RmaBuffer& from, layout::StreamRange range,
                        std::span<std::byte> scratch, const std::byte** packed) const {
  *packed = scratch.data();
  const std::uint64_t bytes = range.end - range.begin;
  if (from.mapped != nullptr && from.layout == nullptr) {
    *packed = from.mapped + range.begin;
    return {};
  }
  if (from.mapped != nullptr) {
    layout::pack_range(elements_here(from), range, scratch.data());
    return {};
  }
  if (from.layout == nullptr) return reach_->read(scratch.data(), from.base.at(range.begin), bytes);
  std::byte* into = scratch.data();
  return for_blocks(from, range, [&](std::span<const iovec> blocks, std::uint64_t length) {
    const Status done = reach_->read_blocks(into, from.base, blocks);
    into += length;
    return done;
  });
}

Status Executor::scatter(const RmaBuffer& to, layout::StreamRange range,
                         const std::byte* packed) const {
  const std::uint64_t bytes = range.end - range.begin;
  if (to.mapped != nullptr && to.layout == nullptr) {
    std::memcpy(to.mapped + range.begin, packed, bytes);
    return after_writing(to, range.begin, bytes);
  }
  if (to.mapped != nullptr && !to.in_heap) {
    layout::unpack_range(elements_here(to), range, packed);
    return {};
  }
  if (to.layout == nullptr) return reach_->write(to.base.at(range.begin), packed, bytes);
  return for_blocks(to, range, [&](std::span<const iovec> blocks, std::uint64_t length) {
    const Status done = reach_->write_blocks(to.base, blocks, packed);
    packed += length;
    return done;
  });
}

Status Executor::after_writing(const RmaBuffer& to, std::uint64_t offset,
                               std::uint64_t bytes) const {
  if (!to.in_heap) return {};
  const memory::View there = to.base.at(offset);
  if (reach_->to_here(there, bytes) != nullptr) return {};
  return reach_->write(there, to.mapped + offset, bytes);
}

// ---- Lists of deferred operations ---------------------------------------------------------------

Status Executor::run(const DeferredList& list, const memory::View& target, StripeLocks& locks) {
  if (scratch_ == nullptr) return {Code::full, 0};
  Status done;
  const std::byte* data = list.data;
  for (std::uint32_t next = 0; done && next < list.entries;) {
    const DeferredOperation& entry = list.entry[next];
    if (!entry.atomic) {
      done = write_run(list, target, next, data);
      continue;
    }
    BoundOperation operation;
    operation.what = {.op = entry.op,
                      .type = entry.type,
                      .atomic = true,
                      .has_origin = true,
                      .element = entry.element,
                      .bytes = entry.bytes};
    operation.locks = &locks;
    // const_cast: the bytes of the list are an origin buffer here, which is only read.
    operation.origin.mapped = const_cast<std::byte*>(data);
    operation.target.base = {entry.address, target.pid, target.rank};
    operation.target.mapped = reach_->is_own(target) ? pointer_to(entry.address) : nullptr;
    done = run_part(operation, {0, entry.bytes});
    data += entry.bytes;
    ++next;
  }
  return done;
}

// Carries out the successive puts of the list from entry `next` on, by one kernel copy. Then `next`
// is the first entry that is no put, and `data` its bytes.
Status Executor::write_run(const DeferredList& list, const memory::View& target,
                           std::uint32_t& next, const std::byte*& data) const {
  std::array<iovec, DeferredList::kOperations>
      to;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const std::byte* const first = data;
  std::size_t blocks = 0;
  for (; next < list.entries && !list.entry[next].atomic; ++next) {
    const DeferredOperation& entry = list.entry[next];
    std::byte* const address = pointer_to(entry.address);
    data += entry.bytes;
    if (blocks != 0 &&
        static_cast<std::byte*>(to[blocks - 1].iov_base) + to[blocks - 1].iov_len == address) {
      to[blocks - 1].iov_len += entry.bytes;
    } else {
      to[blocks++] = {address, entry.bytes};
    }
  }
  return reach_->write_blocks(target, std::span(to.data(), blocks), first);
}

Status Executor::compare_and_swap(const BoundOperation& operation, const void* compare) {
  const std::size_t bytes = operation.what.element;
  std::array<std::byte, kMostSwapped> had{};
  if (bytes > had.size()) return {Code::misuse, 0};
  StripeLock& lock = operation.locks->of(operation.target.base.address);
  lock.lock(me_, liveness_);
  Status done;
  if (operation.target.mapped != nullptr) {
    std::memcpy(had.data(), operation.target.mapped, bytes);
  } else {
    done = reach_->read(had.data(), operation.target.base, bytes);
  }
  if (done && std::memcmp(had.data(), compare, bytes) == 0) {
    done = scatter(operation.target, {0, bytes}, operation.origin.mapped);
  }
  lock.unlock();
  if (done) std::memcpy(operation.result.mapped, had.data(), bytes);
  return done;
}

}  // namespace mh::rma
