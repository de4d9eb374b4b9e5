// SPDX-License-Identifier: BSD-3-Clause
#include "coll/sum_order.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace mh::coll {
namespace {

// Stands for the sum of two numbers in the tests. The result shows which numbers were combined, but
// not the order within a pair.
std::uint64_t of_two(std::uint64_t a, std::uint64_t b) {
  std::uint64_t mixed = (a + b + 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ mixed >> 31U) * 0x94d049bb133111ebULL;
  return mixed ^ mixed >> 29U;
}

void kernel(void* target, const void* origin, std::size_t elements) {
  auto* to = static_cast<std::uint64_t*>(target);
  const auto* from = static_cast<const std::uint64_t*>(origin);
  for (std::size_t i = 0; i < elements; ++i) to[i] = of_two(to[i], from[i]);
}

using Data = std::vector<std::uint64_t>;

std::vector<Data> data_of_ranks(std::uint32_t ranks, std::size_t elements) {
  std::vector<Data> all(ranks, Data(elements));
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < elements; ++i) all[rank][i] = 1000 * i + rank;
  }
  return all;
}

Data combined(const std::vector<Data>& all) {
  Data to(all[0].size());
  DoublingOrder order(static_cast<std::uint32_t>(all.size()));
  order.combine(reinterpret_cast<std::byte*>(to.data()), to.size(), sizeof to[0], kernel,
                [&](std::uint32_t rank, std::uint64_t at, std::uint64_t) {
                  return reinterpret_cast<const std::byte*>(all[rank].data()) + at;
                });
  return to;
}

TEST(SumOrder, ranks_beyond_a_power_of_two_are_combined_in_pairs_first) {
  const auto f = of_two;
  EXPECT_EQ(combined(data_of_ranks(1, 1))[0], 0U);
  EXPECT_EQ(combined(data_of_ranks(2, 1))[0], f(0, 1));
  EXPECT_EQ(combined(data_of_ranks(3, 1))[0], f(f(0, 1), 2));
  EXPECT_EQ(combined(data_of_ranks(4, 1))[0], f(f(0, 1), f(2, 3)));
  EXPECT_EQ(combined(data_of_ranks(5, 1))[0], f(f(f(0, 1), 2), f(3, 4)));
  EXPECT_EQ(combined(data_of_ranks(6, 1))[0], f(f(f(0, 1), f(2, 3)), f(4, 5)));
  EXPECT_EQ(combined(data_of_ranks(7, 1))[0], f(f(f(0, 1), f(2, 3)), f(f(4, 5), 6)));
  EXPECT_EQ(combined(data_of_ranks(8, 1))[0], f(f(f(0, 1), f(2, 3)), f(f(4, 5), f(6, 7))));
}

// The reference for the order of sums: recursive doubling, in which ranks exchange their data with
// partners at distances 1, 2, 4 and so on.
Data doubled(std::vector<Data> all) {
  const auto ranks = static_cast<std::uint32_t>(all.size());
  const std::uint32_t power = std::bit_floor(ranks);
  std::vector<Data> nodes;
  for (std::uint32_t rank = 0; rank < ranks;) {
    nodes.push_back(all[rank]);
    const bool paired = rank < 2 * (ranks - power);
    if (paired) kernel(nodes.back().data(), all[rank + 1].data(), all[rank].size());
    rank += paired ? 2 : 1;
  }
  for (std::uint32_t distance = 1; distance < power; distance *= 2) {
    const std::vector<Data> before = nodes;
    for (std::uint32_t node = 0; node < power; ++node)
      kernel(nodes[node].data(), before[node ^ distance].data(), nodes[node].size());
  }
  return nodes[0];
}

TEST(SumOrder, any_number_of_ranks_and_elements_is_combined_as_by_recursive_doubling) {
  for (const std::uint32_t ranks : {3U, 9U, 31U, 32U, 127U, 1024U}) {
    for (const std::size_t elements : {1U, 127U, 128U, 129U, 300U}) {
      const auto all = data_of_ranks(ranks, elements);
      EXPECT_EQ(combined(all), doubled(all)) << ranks << " ranks, " << elements << " elements";
    }
  }
}

TEST(SumOrder, the_result_may_replace_the_data_of_a_rank) {
  auto all = data_of_ranks(5, 300);
  const Data expected = combined(all);
  DoublingOrder(5).combine(reinterpret_cast<std::byte*>(all[3].data()), 300, sizeof all[3][0],
                           kernel, [&](std::uint32_t rank, std::uint64_t at, std::uint64_t) {
                             return reinterpret_cast<const std::byte*>(all[rank].data()) + at;
                           });
  EXPECT_EQ(all[3], expected);
}

TEST(SumOrder, a_communicator_knows_a_few_sums_apart) {
  SumOrders sums;
  SumOrders::Sum* first = sums.find(1, 10);
  ASSERT_NE(first, nullptr);
  first->knows = SumKnowledge::doubling;
  EXPECT_NE(sums.find(1, 11), first);
  EXPECT_NE(sums.find(2, 10), first);
  EXPECT_EQ(sums.find(1, 10), first);
  for (std::uint64_t elements = 100; elements < 113; ++elements)
    EXPECT_NE(sums.find(1, elements), nullptr);
  EXPECT_EQ(sums.find(1, 113), nullptr);
  EXPECT_EQ(sums.find(1, 10), first);
}

}  // namespace
}  // namespace mh::coll
