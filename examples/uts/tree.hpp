// SPDX-License-Identifier: BSD-3-Clause
// The trees of the Unbalanced Tree Search benchmark (Olivier et al., LCPC 2006). A node's SHA-1
// digest of 20 bytes determines its number of children and their digests, so no tree is stored.
//
// The number of children of a node of a geometric tree has a geometric distribution with the mean
// b(depth). A node of a binomial tree has m children with probability q, otherwise none; the root
// has b0 children. The random numbers are those of the published generator, so the trees are the
// published trees.
#pragma once

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace uts {

enum class Kind : std::uint8_t { binomial, geometric_linear, geometric_cyclic, geometric_fixed };

struct Tree {
  std::string_view name;
  Kind kind;
  double root_children;     // b0
  std::uint32_t depth;      // depth in b(depth) of geometric trees
  double probability;       // q of binomial trees
  std::uint32_t children;   // m of binomial trees
  std::uint32_t seed;       // determines the digest of the root
  std::uint64_t nodes;      // as published; 0: not published
  std::uint32_t max_depth;  // as published
};

// The trees, named as in the benchmark. T1, T2, T3 and T5 have 4 million nodes, T1L and T3L 100
// million, T1XL 1.6 billion. The two small trees are not from the benchmark; tests use them.
inline constexpr std::array<Tree, 9> kTrees{{
    {"T1", Kind::geometric_fixed, 4, 10, 0, 0, 19, 4'130'071, 10},
    {"T2", Kind::geometric_cyclic, 6, 16, 0, 0, 502, 4'117'769, 81},
    {"T3", Kind::binomial, 2000, 0, 0.124875, 8, 42, 4'112'897, 1572},
    {"T5", Kind::geometric_linear, 4, 20, 0, 0, 34, 4'147'582, 20},
    {"T1L", Kind::geometric_fixed, 4, 13, 0, 0, 29, 102'181'082, 13},
    {"T3L", Kind::binomial, 2000, 0, 0.200014, 5, 7, 111'345'631, 17'844},
    {"T1XL", Kind::geometric_fixed, 4, 15, 0, 0, 29, 1'635'119'272, 15},
    {"small-geometric", Kind::geometric_fixed, 4, 7, 0, 0, 19, 0, 0},
    {"small-binomial", Kind::binomial, 100, 0, 0.124, 8, 42, 0, 0},
}};

struct Node {
  std::array<unsigned char, SHA_DIGEST_LENGTH> state;
  std::uint32_t depth;
};

inline void put(unsigned char* to, std::uint32_t value) {
  for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<unsigned char>(value >> (24 - 8 * i));
}

inline Node root_of(const Tree& tree) {
  std::array<unsigned char, SHA_DIGEST_LENGTH> text{};
  put(text.data() + 16, tree.seed);
  Node root{};
  SHA1(text.data(), text.size(), root.state.data());
  return root;
}

inline Node child_of(const Node& parent, std::uint32_t number) {
  std::array<unsigned char, SHA_DIGEST_LENGTH + 4> text;
  std::ranges::copy(parent.state, text.begin());
  put(text.data() + SHA_DIGEST_LENGTH, number);
  Node child;
  SHA1(text.data(), text.size(), child.state.data());
  child.depth = parent.depth + 1;
  return child;
}

// Returns a number in [0, 1) from 31 bits of the node's digest, by which its number of children is
// chosen.
inline double uniform(const Node& node) {
  std::uint32_t bits = 0;
  for (unsigned i = 16; i < 20; ++i) bits = bits << 8U | node.state[i];
  return (bits & 0x7FFFFFFFU) / 2147483648.0;
}

// Returns the mean number of children, b(depth), of a geometric tree's node at this depth.
inline double mean_children(const Tree& tree, std::uint32_t depth) {
  if (depth == 0) return tree.root_children;
  const double at = static_cast<double>(depth) / tree.depth;
  switch (tree.kind) {
    case Kind::geometric_linear:
      return tree.root_children * (1 - at);
    case Kind::geometric_cyclic:
      if (depth > 5 * tree.depth) return 0;
      return std::pow(tree.root_children, std::sin(2 * std::numbers::pi * at));
    default:
      return depth < tree.depth ? tree.root_children : 0;
  }
}

inline std::uint32_t children_of(const Tree& tree, const Node& node) {
  constexpr double kMost = 100;  // most children of a node of a geometric tree
  if (tree.kind == Kind::binomial) {
    if (node.depth == 0) return static_cast<std::uint32_t>(tree.root_children);
    return uniform(node) < tree.probability ? tree.children : 0;
  }
  const double p = 1 / (1 + mean_children(tree, node.depth));
  const double drawn = std::floor(std::log(1 - uniform(node)) / std::log(1 - p));
  return static_cast<std::uint32_t>(std::min(drawn, kMost));
}

inline const Tree* find_tree(std::string_view name) {
  const auto* const found = std::ranges::find(kTrees, name, &Tree::name);
  return found == kTrees.end() ? nullptr : found;
}

}  // namespace uts
