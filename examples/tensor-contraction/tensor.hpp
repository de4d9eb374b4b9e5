// SPDX-License-Identifier: BSD-3-Clause
// Tensors of four indices in tiles. Each tile is stored separately, with its indices in order.
// Tiles of a dimension differ in size, like tiles of orbitals by symmetry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace contraction {

// The sizes of the tiles, the same in every dimension.
using Tiling = std::vector<int>;

inline Tiling uneven(int tiles, int mean) {
  Tiling sizes;
  for (int i = 0; i < tiles; ++i) sizes.push_back(1 + (i * 7 + 3) % (2 * mean - 1));
  return sizes;
}

// A tensor T[pq][rs] as a matrix of tiles by pairs of indices; the number of a pair is p * tiles +
// q.
class Tensor {
 public:
  explicit Tensor(const Tiling& tiling) : tiling_(tiling), tiles_(pairs() * pairs()) {
    for (std::size_t left = 0; left < pairs(); ++left) {
      for (std::size_t right = 0; right < pairs(); ++right) {
        tile(left, right).resize(size(left) * size(right));
      }
    }
  }
  [[nodiscard]] std::size_t pairs() const { return tiling_.size() * tiling_.size(); }
  // The number of elements of a pair of indices.
  [[nodiscard]] std::size_t size(std::size_t pair) const {
    return static_cast<std::size_t>(tiling_[pair / tiling_.size()]) *
           static_cast<std::size_t>(tiling_[pair % tiling_.size()]);
  }
  std::vector<double>& tile(std::size_t left, std::size_t right) {
    return tiles_[left * pairs() + right];
  }
  // Fills the tensor with random numbers in [-1, 1) from a seed.
  void fill(std::uint64_t seed) {
    for (auto& tile : tiles_) {
      for (double& element : tile) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        element = static_cast<double>(static_cast<std::int64_t>(seed)) / 9.3e18;
      }
    }
  }
  // Multiplies the tensor as a matrix with a vector that has a part for each pair.
  using Vector = std::vector<std::vector<double>>;
  Vector times(const Vector& vector) {
    Vector product(pairs());
    for (std::size_t left = 0; left < pairs(); ++left) {
      product[left].resize(size(left));
      for (std::size_t right = 0; right < pairs(); ++right) {
        const double* element = tile(left, right).data();
        for (double& sum : product[left]) {
          sum = std::inner_product(vector[right].begin(), vector[right].end(), element, sum);
          element += size(right);
        }
      }
    }
    return product;
  }

 private:
  Tiling tiling_;
  std::vector<std::vector<double>> tiles_;
};

}  // namespace contraction
