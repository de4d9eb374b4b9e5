// SPDX-License-Identifier: BSD-3-Clause
#include "rma/piece.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "layout/pack.hpp"

namespace mh::rma {
namespace {

const ListedBlock* blocks_of(const RmaMessage& message) {
  return reinterpret_cast<const ListedBlock*>(&message + 1);
}

// Returns the origin's bytes in a message, which lie behind the head and the list of blocks.
const std::byte* payload_of(const RmaMessage& message) {
  return reinterpret_cast<const std::byte*>(blocks_of(message) + message.blocks);
}

std::uint64_t whole_elements(std::uint64_t bytes, const Operation& what) {
  return bytes / what.element * what.element;
}

// Returns a buffer for a piece of an operation. Only the piece's part of the packed stream, from
// byte `begin` on, is in memory, at `bytes`. The buffer's address is `bytes - begin`, so that
// offsets in the whole stream lead to the right byte. Nothing accesses addresses below `bytes`.
RmaBuffer end_of(const std::byte* bytes, std::uint64_t begin, const memory::View& owner) {
  RmaBuffer buffer;
  buffer.base = {reinterpret_cast<std::uint64_t>(bytes) - begin, owner.pid, owner.rank};
  buffer.mapped = reinterpret_cast<std::byte*>(buffer.base.address);
  return buffer;
}

}  // namespace

// ---- Pieces at the origin, which sends them -----------------------------------------------------

OperationPiece::OperationPiece(const BoundOperation& operation, std::uint64_t begin,
                               std::size_t most)
    : operation_(operation) {
  const std::size_t space = most - sizeof(RmaMessage);
  const std::uint64_t end =
      std::min(operation.what.bytes, begin + whole_elements(space, operation.what));
  range_ = {begin, end};
  if (operation.target.layout == nullptr) {
    shape_ = layout::Compact{};
  } else {
    shape_ = layout::compact_of(*operation.target.layout, operation.target.count);
    if (!shape_) list_blocks(space);
  }
}

void OperationPiece::list_blocks(std::size_t space) {
  const layout::Elements elements = elements_there(operation_.target);
  std::array<iovec, 64> found;  // NOLINT(cppcoreguidelines-pro-type-member-init): written first
  const std::uint64_t end = range_.end;
  for (range_.end = range_.begin; range_.end < end;) {
    const std::size_t used = layout::list_blocks(elements, {range_.end, end}, found).used;
    for (std::size_t i = 0; i < used; ++i) {
      if (space < sizeof(ListedBlock)) return;
      const std::uint64_t most = whole_elements(space - sizeof(ListedBlock), operation_.what);
      const std::uint64_t bytes = std::min<std::uint64_t>(found[i].iov_len, most);
      if (bytes == 0) return;
      blocks_.push_back({layout::address_of(found[i].iov_base), bytes});
      range_.end += bytes;
      space -= sizeof(ListedBlock) + bytes;
      if (bytes < found[i].iov_len) return;
    }
  }
}

std::size_t OperationPiece::bytes() const {
  const std::uint64_t data = operation_.what.has_origin ? range_.end - range_.begin : 0;
  return sizeof(RmaMessage) + blocks_.size() * sizeof(ListedBlock) + data;
}

void OperationPiece::write(RmaMessage head, std::byte* to) const {
  // If the target buffer is a grid, the message describes the whole grid, and the piece as a range
  // of the operation's stream. Otherwise the piece has a stream of its own, which begins at 0, and
  // `address` is the address of the piece.
  const bool whole = shape_ && shape_->grid.dims != 0;
  head.what = operation_.what;
  head.what.begin = whole ? range_.begin : 0;
  head.what.bytes = whole ? range_.end : range_.end - range_.begin;
  head.shape = shape_.value_or(layout::Compact{});
  head.address = operation_.target.base.address;
  if (!whole) head.address += range_.begin + static_cast<std::uint64_t>(head.shape.first);
  head.blocks = static_cast<std::uint32_t>(blocks_.size());
  std::memcpy(to, &head, sizeof head);
  to += sizeof head;
  if (!blocks_.empty()) std::memcpy(to, blocks_.data(), blocks_.size() * sizeof(ListedBlock));
  to += blocks_.size() * sizeof(ListedBlock);
  if (operation_.what.has_origin) pack_here(operation_.origin, range_, to);
}

// ---- Pieces at the target, which carries them out -----------------------------------------------

PieceRun::PieceRun(Window& window, const RmaContext& context, const RmaMessage& message,
                   std::byte* result, std::uint32_t chunk_bytes, bool shared)
    : message_(message), origin_(payload_of(message)), result_(result) {
  const memory::View own{message.address, context.node().mine().pid, context.node().me()};
  operation_.what = message.what;
  operation_.what.target = window.me();
  operation_.target.base = own;
  operation_.target.mapped = reinterpret_cast<std::byte*>(message.address);
  if (message.shape.grid.dims != 0) {
    layout_ = layout::layout_of(message.shape);
    operation_.target.layout = layout_.get();
    operation_.target.count = 1;
  }
  if (operation_.what.has_origin) operation_.origin = end_of(origin_, operation_.what.begin, own);
  if (operation_.what.has_result) operation_.result = end_of(result, operation_.what.begin, own);
  operation_.locks = &window.control().part(window.me()).stripes;
  const bool at_once = message.kind == RmaMessageKind::swap || message.blocks != 0;
  if (!at_once) running_.emplace(window, operation_, chunk_bytes, shared);
}

bool PieceRun::step(RmaContext& context) {
  if (running_) return running_->step(context);
  const Status done =
      message_.kind == RmaMessageKind::swap
          ? context.executor().compare_and_swap(operation_, origin_ + operation_.what.bytes)
          : run_listed(context);
  succeeded_ = done.ok();
  return true;
}

Status PieceRun::run_listed(RmaContext& context) {
  BoundOperation block = operation_;
  std::uint64_t at = 0;  // offset in the stream of the piece
  for (std::uint32_t i = 0; i < message_.blocks; ++i) {
    const ListedBlock& listed = blocks_of(message_)[i];
    block.what.bytes = listed.bytes;
    block.target.base.address = listed.address;
    block.target.mapped = reinterpret_cast<std::byte*>(listed.address);
    if (block.what.has_origin) block.origin = end_of(origin_ + at, 0, operation_.target.base);
    if (block.what.has_result) block.result = end_of(result_ + at, 0, operation_.target.base);
    const Status done = context.executor().run(block, {0, listed.bytes});
    if (!done) return done;
    at += listed.bytes;
  }
  return {};
}

}  // namespace mh::rma
