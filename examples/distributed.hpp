// SPDX-License-Identifier: BSD-3-Clause
// Blocks of numbers that are distributed over the ranks: an MPI window with the blocks of all
// ranks, like an array of Global Arrays. Any rank gets a block or adds to it at any time.
//
// Block b is on rank b % ranks. The constructor, the destructor and sync() are collective. Between
// two calls of sync(), all ranks only read a block, or all ranks only add to it. Only one thread of
// a rank may call. An error in an MPI call ends the MPI job (MPI_ERRORS_ARE_FATAL, the default).
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace distributed {

class Blocks {
 public:
  // `sizes` has the count of numbers in each block. Every number of a block begins as zero.
  Blocks(MPI_Comm comm, const std::vector<std::size_t>& sizes) : comm_(comm), sizes_(sizes) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &ranks_);
    std::vector<MPI_Aint> used(static_cast<std::size_t>(ranks_));
    for (std::size_t block = 0; block < sizes.size(); ++block) {
      MPI_Aint& end = used[static_cast<std::size_t>(owner(block))];
      offsets_.push_back(end);
      end += static_cast<MPI_Aint>(sizes[block]);
    }
    const auto own = used[static_cast<std::size_t>(rank_)];
    if (on_one_node()) {
      share(own);
    } else {
      memory_.resize(static_cast<std::size_t>(own));
      own_ = memory_.data();
      // Not MPI_Win_allocate(): with it and MPICH 4.0.2 alone, without Manyhands, the tensor
      // contraction gives wrong results (3 windows, 5 tiles).
      MPI_Win_create(own_, own * kUnit, kUnit, MPI_INFO_NULL, comm, &window_);
    }
    std::fill_n(own_, own, 0.0);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
    sync();
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  ~Blocks() {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }

  [[nodiscard]] std::size_t count() const { return sizes_.size(); }
  [[nodiscard]] std::size_t size(std::size_t block) const { return sizes_[block]; }
  [[nodiscard]] bool is_own(std::size_t block) const { return owner(block) == rank_; }
  // Returns the memory of a block that this rank owns.
  [[nodiscard]] std::span<double> own(std::size_t block) {
    return {own_ + offsets_[block], sizes_[block]};
  }

  void get(std::size_t block, std::vector<double>& values) {
    values.resize(sizes_[block]);
    if (!shared_.empty()) {
      const double* first = shared_[static_cast<std::size_t>(owner(block))] + offsets_[block];
      std::copy_n(first, values.size(), values.begin());
      return;
    }
    const int many = static_cast<int>(values.size());
    MPI_Get(values.data(), many, MPI_DOUBLE, owner(block), offsets_[block], many, MPI_DOUBLE,
            window_);
    MPI_Win_flush(owner(block), window_);
  }
  void add(std::size_t block, std::span<const double> values) {
    const int many = static_cast<int>(values.size());
    MPI_Accumulate(values.data(), many, MPI_DOUBLE, owner(block), offsets_[block], many, MPI_DOUBLE,
                   MPI_SUM, window_);
    MPI_Win_flush(owner(block), window_);
  }
  // Collective. Makes every change of a block that a rank has made before sync() visible to all
  // ranks after it.
  void sync() {
    MPI_Win_flush_all(window_);
    MPI_Win_sync(window_);
    MPI_Barrier(comm_);
    MPI_Win_sync(window_);
  }

 private:
  static constexpr int kUnit = sizeof(double);

  [[nodiscard]] bool on_one_node() const {
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int ranks = 0;
    MPI_Comm_size(node, &ranks);
    MPI_Comm_free(&node);
    return ranks == ranks_;
  }
  // Puts this rank's blocks, `own` numbers in all, into memory that all ranks of the node map.
  // get() then loads a block of another rank directly.
  void share(MPI_Aint own) {
    MPI_Win_allocate_shared(own * kUnit, kUnit, MPI_INFO_NULL, comm_, &own_, &window_);
    for (int rank = 0; rank < ranks_; ++rank) {
      MPI_Aint size = 0;
      int unit = 0;
      double* first = nullptr;
      MPI_Win_shared_query(window_, rank, &size, &unit, &first);
      shared_.push_back(first);
    }
  }
  [[nodiscard]] int owner(std::size_t block) const {
    return static_cast<int>(block % static_cast<std::size_t>(ranks_));
  }

  MPI_Comm comm_;
  std::vector<std::size_t> sizes_;
  std::vector<MPI_Aint> offsets_;
  int rank_ = 0;
  int ranks_ = 1;
  std::vector<double> memory_;  // this rank's blocks, if the ranks are on several nodes
  double* own_ = nullptr;
  std::vector<double*> shared_;  // by rank: its first block, if all ranks are on one node
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace distributed
