// SPDX-License-Identifier: BSD-3-Clause
// A square matrix, distributed over the ranks in blocks of rows: the rows of the basis functions in
// some consecutive shells. Any rank may get a block, or add to a block, at any time
// (../distributed.hpp).
//
// clear(), scatter() and sync() are collective. Between two of these calls, all ranks only read a
// matrix, or all ranks only add to it. Only one thread of a rank may call.
#pragma once

#include <cstddef>
#include <vector>

#include "../distributed.hpp"
#include "integrals.hpp"

namespace hf {

// The first row of each block, and at the end the number of rows of the matrix.
using Blocking = std::vector<long>;

class RowBlocks {
 public:
  RowBlocks(MPI_Comm comm, const Blocking& blocking)
      : blocking_(blocking), blocks_(comm, sizes_of(blocking)) {}

  [[nodiscard]] std::size_t count() const { return blocks_.count(); }
  void get(std::size_t block, Rows& rows) {
    shape(block, rows);
    blocks_.get(block, buffer_);
    rows.values = Eigen::Map<const Matrix>(buffer_.data(), rows.values.rows(), rows.values.cols());
  }
  void add(std::size_t block, const Rows& rows) {
    blocks_.add(block, {rows.values.data(), static_cast<std::size_t>(rows.values.size())});
  }
  // Gives `rows` the shape of the block and fills them with zeros. The caller adds numbers to
  // `rows`, and then calls add(), which adds `rows` to the block.
  void zero(std::size_t block, Rows& rows) const {
    shape(block, rows);
    rows.values.setZero();
  }

  // Collective. Sets all elements of the distributed matrix to zero.
  void clear() {
    for (std::size_t block = 0; block < count(); ++block) {
      if (blocks_.is_own(block)) std::ranges::fill(blocks_.own(block), 0.0);
    }
    sync();
  }
  // Collective. Sets all elements of the distributed matrix to those of `matrix`, which one rank
  // passes; the others pass nullptr.
  void scatter(const Matrix* matrix) {
    clear();
    for (std::size_t block = 0; matrix != nullptr && block < count(); ++block) {
      Rows rows;
      shape(block, rows);
      rows.values = matrix->middleRows(rows.first, rows.values.rows());
      add(block, rows);
    }
    sync();
  }
  // Returns the whole matrix; called by any one rank, which gets all blocks.
  Matrix whole() {
    Matrix matrix(blocking_.back(), blocking_.back());
    Rows rows;
    for (std::size_t block = 0; block < count(); ++block) {
      get(block, rows);
      matrix.middleRows(rows.first, rows.values.rows()) = rows.values;
    }
    return matrix;
  }
  void sync() { blocks_.sync(); }

 private:
  static std::vector<std::size_t> sizes_of(const Blocking& blocking) {
    std::vector<std::size_t> sizes;
    for (std::size_t block = 0; block + 1 < blocking.size(); ++block) {
      sizes.push_back(
          static_cast<std::size_t>((blocking[block + 1] - blocking[block]) * blocking.back()));
    }
    return sizes;
  }
  void shape(std::size_t block, Rows& rows) const {
    rows.first = blocking_[block];
    rows.values.resize(blocking_[block + 1] - blocking_[block], blocking_.back());
  }

  Blocking blocking_;
  distributed::Blocks blocks_;
  std::vector<double> buffer_;
};

}  // namespace hf
