// SPDX-License-Identifier: BSD-3-Clause
// Changes a correct tree in several ways, and tests that Graph500's checks find each fault.
#include <cstdio>

#include "graph500.hpp"

namespace {

using graph::Tree;

// A square 0-1-2-3 with a tail 3-4-5, and a separate edge 6-7.
graph::Graph square() {
  return graph::from_edges(8, {{0, 1}, {1, 2}, {2, 3}, {3, 0}, {3, 4}, {4, 5}, {6, 7}});
}

Tree right() {
  constexpr graph::Vertex no = graph::kNobody;
  return {0, {0, 0, 1, 0, 3, 4, no, no}, {0, 1, 2, 1, 2, 3, graph::kFar, graph::kFar}};
}

// Returns the failed checks as bits. Each half of the vertices is checked on its own, as if two
// ranks had them.
unsigned found(const Tree& tree) {
  const graph::Graph g = square();
  unsigned bits = 0;
  for (const graph::Vertex low : {0U, 4U}) {
    const auto half = graph::violations(g, tree, low, low + 4);
    for (unsigned i = 0; i < graph::kTreeChecks; ++i) bits |= (half.of[i] != 0 ? 1U : 0U) << i;
  }
  return bits;
}

template <class Spoil>
bool finds(unsigned check, Spoil spoil) {
  Tree tree = right();
  spoil(tree);
  const unsigned bits = found(tree);
  if ((bits >> check & 1U) == 1) return true;
  std::printf("check %u does not find its fault: %x\n", check, bits);
  return false;
}

}  // namespace

int main() {
  bool all = found(right()) == 0;
  if (!all) std::puts("a right tree is refused");
  all &= finds(0, [](Tree& t) { t.parent[4] = 5; });  // a cycle
  all &= finds(0, [](Tree& t) { t.parent[0] = 1; });  // a root with a parent
  all &= finds(1, [](Tree& t) { t.level[5] = 2; });   // a child at its parent's level
  all &= finds(2, [](Tree& t) {                       // a detour: 0-3 is an edge
    t.parent[3] = 2;
    t.level[3] = 3;
  });
  all &= finds(3, [](Tree& t) { t.parent[5] = graph::kNobody; });  // a missing vertex
  all &= finds(3, [](Tree& t) { t.parent[6] = 0; });               // from another component
  all &= finds(4, [](Tree& t) {
    t.parent[2] = 3;
    t.parent[4] = 1;
  });                                                    // 1-4 is no edge
  all &= finds(4, [](Tree& t) { t.parent[5] = 1000; });  // no vertex
  if (all) std::puts("all found");
  return all ? 0 : 1;
}
