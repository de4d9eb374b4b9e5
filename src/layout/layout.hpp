// SPDX-License-Identifier: BSD-3-Clause
// A layout: an MPI datatype, flattened once into a canonical shape.
//
// The constructors are the standard's (MPI-4.1, chapter 5), over existing layouts; a duplicated
// type has the same layout. A layout is immutable and shared; counts, sizes and offsets have 64
// bits. A constructor fails with (system, EINVAL) on erroneous arguments such as negative counts. A
// constructor fails with (system, EOVERFLOW) if an offset needs more than 62 bits or a size more
// than 63, or if the nesting exceeds kMaxDepth (shape.hpp). pack.hpp moves the bytes. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "layout/shape.hpp"

namespace mh::layout {

// Lower and upper bound of an element in bytes, by the standard's rules; their distance, padded, is
// the extent.
struct LayoutBounds {
  bool any = false;           // false: the type has no entries, not even a marker of a bound
  bool lower_marked = false;  // set explicitly (resized, subarray, darray)
  bool upper_marked = false;
  std::int64_t lower = 0;
  std::int64_t upper = 0;      // without the padding to the alignment
  std::int64_t alignment = 1;  // of the strictest basic type
};

class Layout;
using LayoutPtr = std::shared_ptr<const Layout>;

class Layout {
 public:
  Layout(PlacedShape root, const LayoutBounds& bounds, std::int64_t extent)
      : root_(std::move(root)), bounds_(bounds), extent_(extent) {}

  // Bytes of an element's packed stream.
  [[nodiscard]] std::uint64_t size() const { return root_.node ? root_.node->size : 0; }
  [[nodiscard]] std::int64_t lower() const { return bounds_.lower; }
  [[nodiscard]] std::int64_t extent() const { return extent_; }
  // The bytes of an element lie in [true_lower, true_upper).
  [[nodiscard]] std::int64_t true_lower() const {
    return root_.node ? root_.offset + root_.node->low : 0;
  }
  [[nodiscard]] std::int64_t true_upper() const {
    return root_.node ? root_.offset + root_.node->high : 0;
  }
  // True if any number of elements is a single block of bytes that begins at the buffer's address.
  [[nodiscard]] bool contiguous() const;
  // The number of blocks that the copy loops (kernels.hpp) move for an element. Blocks that touch
  // count as one only if the shape has merged them (shape.hpp). 0: an element has no bytes.
  [[nodiscard]] std::uint64_t blocks() const { return root_.node ? root_.node->blocks : 0; }

  [[nodiscard]] const PlacedShape& root() const { return root_; }
  [[nodiscard]] const LayoutBounds& bounds() const { return bounds_; }

 private:
  PlacedShape root_;
  LayoutBounds bounds_;
  std::int64_t extent_;
};

Result<LayoutPtr> named(std::int64_t bytes, std::int64_t alignment);
Result<LayoutPtr> contiguous(std::int64_t count, const Layout& child);
Result<LayoutPtr> vector(std::int64_t count, std::int64_t length, std::int64_t stride,
                         const Layout& child);
Result<LayoutPtr> hvector(std::int64_t count, std::int64_t length, std::int64_t stride_bytes,
                          const Layout& child);

using Numbers = std::span<const std::int64_t>;
Result<LayoutPtr> indexed(Numbers lengths, Numbers displacements, const Layout& child);
Result<LayoutPtr> hindexed(Numbers lengths, Numbers displacement_bytes, const Layout& child);
Result<LayoutPtr> indexed_block(std::int64_t length, Numbers displacements, const Layout& child);
Result<LayoutPtr> hindexed_block(std::int64_t length, Numbers displacement_bytes,
                                 const Layout& child);
Result<LayoutPtr> structure(Numbers lengths, Numbers displacement_bytes,
                            std::span<const LayoutPtr> children);
Result<LayoutPtr> resized(std::int64_t lower, std::int64_t extent, const Layout& child);

enum class ArrayOrder : std::uint8_t { c, fortran };
Result<LayoutPtr> subarray(Numbers sizes, Numbers subsizes, Numbers starts, ArrayOrder order,
                           const Layout& child);

// How a dimension of a distributed array (MPI_Type_create_darray) is distributed over processes.
enum class Distribution : std::uint8_t { none, block, cyclic };
inline constexpr std::int64_t kDefaultArgument = -1;
struct Distributed {
  std::int64_t size;  // of the whole array
  Distribution how;
  std::int64_t argument;  // elements per block, or kDefaultArgument
  std::int64_t processes;
};
// Returns the part of a distributed array that process `rank` has. Processes are numbered in C
// order, whatever `order` the array has.
Result<LayoutPtr> darray(std::int64_t rank, std::span<const Distributed> dims, ArrayOrder order,
                         const Layout& child);

}  // namespace mh::layout
