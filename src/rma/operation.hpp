// SPDX-License-Identifier: BSD-3-Clause
// A one-sided operation with its buffers, ready to be carried out.
//
// The *stream* of an operation is the packed bytes of its buffers: origin, target and result have
// the same basic elements. Any range of the stream with whole elements can be carried out alone, by
// any process that reaches all buffers. The *owner* is the origin, the rank that made the call. A
// put replaces the target's elements; a get fetches them and changes nothing; neither is atomic.
// Limit: origin and target are on one node; operations on other nodes go in pieces (piece.hpp).
#pragma once

#include <cstdint>
#include <cstring>

#include "layout/compact.hpp"
#include "layout/layout.hpp"
#include "layout/pack.hpp"
#include "memory/view.hpp"
#include "rma/locks.hpp"
#include "rma/reduce.hpp"

namespace mh::rma {

// A buffer of an operation: the memory of the origin, the target or the result, as this process
// sees it.
struct RmaBuffer {
  const layout::Layout* layout = nullptr;  // null: contiguous from `base` on
  std::uint64_t count = 0;                 // elements of the layout, one after the other
  memory::View base{};                     // in the process that owns the memory
  std::byte* mapped = nullptr;             // address of `base` in this process; null: not mapped
  bool in_heap = false;                    // `mapped` lies in a peer's heap: see after_writing()
};

// Return the elements of a buffer for the layout engine: at their addresses in the process that
// owns the memory (there), or at their addresses in this process (here).
inline layout::Elements elements_there(const RmaBuffer& buffer) {
  return {.layout = buffer.layout, .count = buffer.count, .base = buffer.base.address};
}
inline layout::Elements elements_here(const RmaBuffer& buffer) {
  return {
      .layout = buffer.layout, .count = buffer.count, .base = layout::address_of(buffer.mapped)};
}
// Pack and unpack a range of the packed stream of a buffer. Precondition: this process maps the
// buffer.
inline void pack_here(const RmaBuffer& from, layout::StreamRange range, std::byte* to) {
  if (from.layout == nullptr) {
    std::memcpy(to, from.mapped + range.begin, range.end - range.begin);
  } else {
    layout::pack_range(elements_here(from), range, to);
  }
}
inline void unpack_here(const RmaBuffer& to, layout::StreamRange range, const std::byte* from) {
  if (to.layout == nullptr) {
    std::memcpy(to.mapped + range.begin, from, range.end - range.begin);
  } else {
    layout::unpack_range(elements_here(to), range, from);
  }
}

// An operation without its buffers. Plain data, which thieves in other processes read.
struct Operation {
  Op op = Op::replace;
  Type type = Type::other;
  bool atomic = false;        // each element, with respect to all other atomic operations
  bool has_origin = false;    // false: op is no_op
  bool has_result = false;    // returns the target's previous elements
  std::uint32_t element = 1;  // bytes of a basic element
  std::uint32_t target = 0;   // rank in the window
  std::uint64_t begin = 0;    // first byte of the stream; not 0 only in pieces (piece.hpp)
  std::uint64_t bytes = 0;    // end of the stream
};

// Computes a reduction by the MPI library, in the owner's process alone, if kernel_of()
// (reduce.hpp) has no reduction kernel for the operation and type.
struct Reducer {
  void (*reduce)(const void* context, void* target, const void* origin,
                 std::size_t elements) = nullptr;
  const void* context = nullptr;
};

// An operation together with its buffers, as the process that carries it out sees them.
struct BoundOperation {
  Operation what;
  RmaBuffer origin;
  RmaBuffer target;
  RmaBuffer result;
  StripeLocks* locks = nullptr;  // of the target
  Reducer reducer;               // used if kernel_of() has no kernel
};

// A buffer of an operation as the job's owner publishes it to thieves: contiguous, or a single grid
// (regularly spaced blocks). Other buffers have no such form, so their operations become no jobs.
struct SharedBuffer {
  layout::Compact shape;
  memory::View base{};
};

}  // namespace mh::rma
