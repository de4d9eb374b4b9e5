// SPDX-License-Identifier: BSD-3-Clause
#include "node/host.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "support/child.hpp"

namespace mh::node {
namespace {

constexpr int kSkipped = 77;

// Runs in a child. Returns 0 if host_identity() changes with a new namespace of `kind`.
int differs_in_new(int kind) {
  const std::uint64_t before = host_identity();
  if (::unshare(kind) != 0) return kSkipped;
  return host_identity() != before && host_identity() != 0 ? 0 : 1;
}

TEST(HostIdentity, is_known_and_the_same_in_all_processes) {
  const std::uint64_t here = host_identity();
  EXPECT_NE(here, 0U);
  test::Child child([&] { return host_identity() == here ? 0 : 1; });
  EXPECT_EQ(child.wait(), 0);
}

class Namespaces : public testing::TestWithParam<int> {};

TEST_P(Namespaces, are_part_of_the_host) {
  test::Child child([] { return differs_in_new(GetParam()); });
  const int code = child.wait();
  if (code == kSkipped) GTEST_SKIP() << "no permission to make a namespace";
  EXPECT_EQ(code, 0);
}

INSTANTIATE_TEST_SUITE_P(OfEachKind, Namespaces,
                         testing::Values(CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWNS));

TEST(HostIdentity, has_the_name_of_the_host) {
  test::Child child([] {
    if (::unshare(CLONE_NEWUTS) != 0) return kSkipped;
    const std::uint64_t before = host_identity();
    if (::sethostname("another-name", 12) != 0) return kSkipped;
    return host_identity() != before ? 0 : 1;
  });
  const int code = child.wait();
  if (code == kSkipped) GTEST_SKIP() << "no permission to make a namespace";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace mh::node
