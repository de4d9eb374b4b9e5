// SPDX-License-Identifier: BSD-3-Clause
// One operation on a window, as it is carried out: where its bytes lie, what becomes of them.
//
// Words: the *stream* of an operation is the packed bytes of origin, target and result alike, whose
// basic elements agree; any range of it between two elements can be carried out by itself, by any
// process that reaches the three *ends*. The *owner* is the origin, the rank that made the call.
// Put is an operation that replaces, get one that changes nothing but fetches; both without
// `atomic`. Limits: ranks of one node; to others it goes in pieces (piece.hpp).
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

// Where the bytes of one side lie, as this process sees it.
struct End {
  const layout::Layout* layout = nullptr;  // null: contiguous, from the base on
  std::uint64_t count = 0;                 // elements of the layout
  memory::View base{};                     // in the process whose memory it is
  std::byte* here = nullptr;               // the base, where this process loads and stores; or null
  bool in_heap = false;                    // `here` is a view of a peer's heap: see after_writing()
};

// The elements of an end, in the process whose memory it is, and where this one reaches them.
inline layout::Elements elements_there(const End& end) {
  return {.layout = end.layout, .count = end.count, .base = end.base.address};
}
inline layout::Elements elements_here(const End& end) {
  return {.layout = end.layout, .count = end.count, .base = layout::address_of(end.here)};
}
// A range of its stream, from there into packed bytes, and back.
inline void pack_here(const End& from, layout::Range range, std::byte* to) {
  if (from.layout == nullptr) {
    std::memcpy(to, from.here + range.begin, range.end - range.begin);
  } else {
    layout::pack(elements_here(from), range, to);
  }
}
inline void unpack_here(const End& to, layout::Range range, const std::byte* from) {
  if (to.layout == nullptr) {
    std::memcpy(to.here + range.begin, from, range.end - range.begin);
  } else {
    layout::unpack(elements_here(to), range, from);
  }
}

// Plain data: also what a helper is told.
struct Operation {
  Op op = Op::replace;
  Type type = Type::other;
  bool atomic = false;        // each element, against all other atomic operations
  bool has_origin = false;    // false: op is no_op
  bool has_result = false;    // what the target had before
  std::uint32_t element = 1;  // bytes of a basic element
  std::uint32_t target = 0;   // rank in the window
  std::uint64_t begin = 0;    // of the stream, from here on; not 0 in parts alone (piece.hpp)
  std::uint64_t bytes = 0;    // of the stream, up to here
};

// How elements are combined where there is no kernel: by the MPI library, in the owner's process.
struct Reducer {
  void (*reduce)(const void* context, void* target, const void* origin,
                 std::size_t elements) = nullptr;
  const void* context = nullptr;
};

// An operation with its ends.
struct Task {
  Operation what;
  End origin;
  End target;
  End result;
  StripeLocks* locks = nullptr;  // the target's
  Reducer reducer;               // if kernel_of() has none
};

// How the owner tells a helper of an end. Only regular ones have this form.
struct SharedEnd {
  layout::Compact shape;
  memory::View base{};
};

}  // namespace mh::rma
