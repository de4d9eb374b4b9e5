// SPDX-License-Identifier: BSD-3-Clause
#include "rma/piece.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "layout/pack.hpp"

namespace mh::rma {
namespace {

const ListedBlock* blocks_of(const Message& message) {
  return reinterpret_cast<const ListedBlock*>(&message + 1);
}

// What follows the head and the list of blocks.
const std::byte* payload_of(const Message& message) {
  return reinterpret_cast<const std::byte*>(blocks_of(message) + message.blocks);
}

std::uint64_t whole_elements(std::uint64_t bytes, const Operation& what) {
  return bytes / what.element * what.element;
}

// Bytes that are the first ones of a stream only from `begin` on.
End end_of(const std::byte* bytes, std::uint64_t begin, const memory::View& owner) {
  End end;
  end.base = {reinterpret_cast<std::uint64_t>(bytes) - begin, owner.pid, owner.rank};
  end.here = reinterpret_cast<std::byte*>(end.base.address);
  return end;
}

}  // namespace

// ---- At the origin ------------------------------------------------------------------------------

Piece::Piece(const Task& task, std::uint64_t begin, std::size_t most) : task_(task) {
  const std::size_t room = most - sizeof(Message);
  const std::uint64_t end = std::min(task.what.bytes, begin + whole_elements(room, task.what));
  range_ = {begin, end};
  if (task.target.layout == nullptr) {
    shape_ = layout::Compact{};
  } else {
    shape_ = layout::compact_of(*task.target.layout, task.target.count);
    if (!shape_) list_blocks(room);
  }
}

void Piece::list_blocks(std::size_t room) {
  const layout::Elements elements = elements_there(task_.target);
  std::array<iovec, 64> found;  // NOLINT(cppcoreguidelines-pro-type-member-init): written first
  const std::uint64_t end = range_.end;
  for (range_.end = range_.begin; range_.end < end;) {
    const std::size_t used = layout::blocks(elements, {range_.end, end}, found).used;
    for (std::size_t i = 0; i < used; ++i) {
      if (room < sizeof(ListedBlock)) return;
      const std::uint64_t most = whole_elements(room - sizeof(ListedBlock), task_.what);
      const std::uint64_t bytes = std::min<std::uint64_t>(found[i].iov_len, most);
      if (bytes == 0) return;
      blocks_.push_back({layout::address_of(found[i].iov_base), bytes});
      range_.end += bytes;
      room -= sizeof(ListedBlock) + bytes;
      if (bytes < found[i].iov_len) return;
    }
  }
}

std::size_t Piece::bytes() const {
  const std::uint64_t data = task_.what.has_origin ? range_.end - range_.begin : 0;
  return sizeof(Message) + blocks_.size() * sizeof(ListedBlock) + data;
}

void Piece::write(Message head, std::byte* to) const {
  const bool whole = shape_ && shape_->grid.dims != 0;  // the shape is, of which this is a range
  head.what = task_.what;
  head.what.begin = whole ? range_.begin : 0;
  head.what.bytes = whole ? range_.end : range_.end - range_.begin;
  head.shape = shape_.value_or(layout::Compact{});
  head.address = task_.target.base.address;
  if (!whole) head.address += range_.begin + static_cast<std::uint64_t>(head.shape.first);
  head.blocks = static_cast<std::uint32_t>(blocks_.size());
  std::memcpy(to, &head, sizeof head);
  to += sizeof head;
  if (!blocks_.empty()) std::memcpy(to, blocks_.data(), blocks_.size() * sizeof(ListedBlock));
  to += blocks_.size() * sizeof(ListedBlock);
  if (task_.what.has_origin) pack_here(task_.origin, range_, to);
}

// ---- At the target ------------------------------------------------------------------------------

PieceRun::PieceRun(Window& window, const Hands& hands, const Message& message, std::byte* result,
                   std::uint32_t chunk_bytes, bool shared)
    : message_(message), origin_(payload_of(message)), result_(result) {
  const memory::View own{message.address, hands.node().mine().pid, hands.node().me()};
  task_.what = message.what;
  task_.what.target = window.me();
  task_.target.base = own;
  task_.target.here = reinterpret_cast<std::byte*>(message.address);
  if (message.shape.grid.dims != 0) {
    layout_ = layout::layout_of(message.shape);
    task_.target.layout = layout_.get();
    task_.target.count = 1;
  }
  if (task_.what.has_origin) task_.origin = end_of(origin_, task_.what.begin, own);
  if (task_.what.has_result) task_.result = end_of(result, task_.what.begin, own);
  task_.locks = &window.control().part(window.me()).stripes;
  const bool at_once = message.kind == Message::Kind::swap || message.blocks != 0;
  if (!at_once) running_.emplace(window, task_, chunk_bytes, shared);
}

bool PieceRun::step(Hands& hands) {
  if (running_) return running_->step(hands);
  const Status done = message_.kind == Message::Kind::swap
                          ? hands.executor().compare_and_swap(task_, origin_ + task_.what.bytes)
                          : run_listed(hands);
  succeeded_ = done.ok();
  return true;
}

Status PieceRun::run_listed(Hands& hands) {
  Task block = task_;
  std::uint64_t at = 0;  // of the piece
  for (std::uint32_t i = 0; i < message_.blocks; ++i) {
    const ListedBlock& listed = blocks_of(message_)[i];
    block.what.bytes = listed.bytes;
    block.target.base.address = listed.address;
    block.target.here = reinterpret_cast<std::byte*>(listed.address);
    if (block.what.has_origin) block.origin = end_of(origin_ + at, 0, task_.target.base);
    if (block.what.has_result) block.result = end_of(result_ + at, 0, task_.target.base);
    const Status done = hands.executor().run(block, {0, listed.bytes});
    if (!done) return done;
    at += listed.bytes;
  }
  return {};
}

}  // namespace mh::rma
