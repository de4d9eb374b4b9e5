// SPDX-License-Identifier: BSD-3-Clause
// Tensors with four indices, cut into tiles and distributed over the ranks. Each tile is stored
// contiguously, with the last index fastest. Tiles of a dimension differ in size, as tiles of
// orbitals of one symmetry do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "../distributed.hpp"

namespace contraction {

// The sizes of the tiles along a dimension. All four dimensions have the same tiling.
using Tiling = std::vector<int>;

inline Tiling uneven(int tiles, int mean) {
  Tiling sizes;
  for (int i = 0; i < tiles; ++i) sizes.push_back(1 + (i * 7 + 3) % (2 * mean - 1));
  return sizes;
}

// A tensor T[pq][rs] as a matrix of tiles: a row for each pair pq, a column for each pair rs. The
// indices p, q, r and s number tiles, and the number of a pair is p * tiles + q. The constructor
// and the destructor are collective.
class Tensor {
 public:
  Tensor(MPI_Comm comm, const Tiling& tiling)
      : comm_(comm), tiling_(tiling), tiles_(comm, sizes_of(tiling)) {}

  [[nodiscard]] std::size_t pairs() const { return tiling_.size() * tiling_.size(); }
  // Returns the number of elements of a pair of tile numbers: the product of the sizes of the two
  // tiles.
  [[nodiscard]] std::size_t size(std::size_t pair) const { return size_of(tiling_, pair); }
  void get(std::size_t left, std::size_t right, std::vector<double>& tile) {
    tiles_.get(number(left, right), tile);
  }
  void add(std::size_t left, std::size_t right, const std::vector<double>& tile) {
    tiles_.add(number(left, right), tile);
  }
  void sync() { tiles_.sync(); }

  // Fills the tensor with random numbers in [-1, 1) from a seed, the same for any number of ranks.
  // Collective.
  void fill(std::uint64_t seed) {
    for (std::size_t tile = 0; tile < tiles_.count(); ++tile) {
      std::vector<double> elements(tiles_.size(tile));
      for (double& element : elements) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        element = static_cast<double>(static_cast<std::int64_t>(seed)) / 9.3e18;
      }
      if (tiles_.is_own(tile)) std::ranges::copy(elements, tiles_.own(tile).begin());
    }
    sync();
  }
  // The sum of all elements, and the sum of their squares. sums() is collective; a call of sync()
  // must have made all elements visible before.
  struct Sums {
    double elements = 0;
    double squares = 0;
  };
  Sums sums() {
    Sums sums;
    for (std::size_t tile = 0; tile < tiles_.count(); ++tile) {
      if (!tiles_.is_own(tile)) continue;
      for (const double element : tiles_.own(tile)) {
        sums.elements += element;
        sums.squares += element * element;
      }
    }
    MPI_Allreduce(MPI_IN_PLACE, &sums.elements, 1, MPI_DOUBLE, MPI_SUM, comm_);
    MPI_Allreduce(MPI_IN_PLACE, &sums.squares, 1, MPI_DOUBLE, MPI_SUM, comm_);
    return sums;
  }
  // A vector that has a part for each pair. times() multiplies the tensor, as a matrix, with such a
  // vector. It is collective, and a call of sync() must have made all elements visible before. All
  // ranks get the product.
  using Vector = std::vector<std::vector<double>>;
  Vector times(const Vector& vector) {
    Vector product(pairs());
    for (std::size_t left = 0; left < pairs(); ++left) {
      product[left].resize(size(left));
      for (std::size_t right = 0; right < pairs(); ++right)
        add_product(left, right, vector, product);
      MPI_Allreduce(MPI_IN_PLACE, product[left].data(), static_cast<int>(product[left].size()),
                    MPI_DOUBLE, MPI_SUM, comm_);
    }
    return product;
  }

 private:
  static std::size_t size_of(const Tiling& tiling, std::size_t pair) {
    return static_cast<std::size_t>(tiling[pair / tiling.size()]) *
           static_cast<std::size_t>(tiling[pair % tiling.size()]);
  }
  static std::vector<std::size_t> sizes_of(const Tiling& tiling) {
    const std::size_t pairs = tiling.size() * tiling.size();
    std::vector<std::size_t> sizes;
    for (std::size_t tile = 0; tile < pairs * pairs; ++tile) {
      sizes.push_back(size_of(tiling, tile / pairs) * size_of(tiling, tile % pairs));
    }
    return sizes;
  }
  [[nodiscard]] std::size_t number(std::size_t left, std::size_t right) const {
    return left * pairs() + right;
  }
  // Multiplies a tile, if this rank owns it, with its part of `vector`, and adds the result to
  // `product`.
  void add_product(std::size_t left, std::size_t right, const Vector& vector, Vector& product) {
    if (!tiles_.is_own(number(left, right))) return;
    const double* element = tiles_.own(number(left, right)).data();
    for (double& sum : product[left]) {
      sum = std::inner_product(vector[right].begin(), vector[right].end(), element, sum);
      element += size(right);
    }
  }

  MPI_Comm comm_;
  Tiling tiling_;
  distributed::Blocks tiles_;
};

}  // namespace contraction
