// SPDX-License-Identifier: BSD-3-Clause
// Tests how many of the cores of its host a rank of LCI takes as its share.
#include "lci/cores.hpp"

#include <gtest/gtest.h>

namespace mh::lci::detail {
namespace {

TEST(LciCores, a_rank_alone_has_all_its_cores) {
  EXPECT_EQ(own_share({"1111"}, 0), 4U);
  EXPECT_EQ(own_share({"0101"}, 0), 2U);
}

TEST(LciCores, ranks_divide_the_cores_that_all_may_use) {
  EXPECT_EQ(own_share({"1111", "1111"}, 1), 2U);
  EXPECT_EQ(own_share({"111", "111", "111"}, 2), 1U);
}

TEST(LciCores, bound_ranks_keep_their_own_cores) {
  EXPECT_EQ(own_share({"1100", "0011"}, 0), 2U);
  EXPECT_EQ(own_share({"1100", "0011"}, 1), 2U);
  EXPECT_EQ(own_share({"1111", "0011"}, 0), 3U);
  EXPECT_EQ(own_share({"1111", "0011"}, 1), 1U);
}

TEST(LciCores, each_rank_has_a_core_at_least) {
  EXPECT_EQ(own_share({"1", "1", "1"}, 1), 1U);
  EXPECT_EQ(own_share({""}, 0), 1U);
}

TEST(LciCores, this_process_may_use_a_core) {
  EXPECT_NE(usable_cores().find('1'), std::string::npos);
  EXPECT_EQ(usable_cores().back(), '1');
}

}  // namespace
}  // namespace mh::lci::detail
