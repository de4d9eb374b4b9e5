// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/stack.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>

#include "support/child.hpp"

namespace mh::openmp {
namespace {

constexpr std::size_t kKilo = 1024;
constexpr std::size_t kMega = kKilo * kKilo;

TEST(Stack, sizes_are_read_as_openmp_writes_them) {
  EXPECT_EQ(stack_size("2000", kKilo), 2000 * kKilo);
  EXPECT_EQ(stack_size("2000", 1), 2000U);
  EXPECT_EQ(stack_size(" 512 m ", kKilo), 512 * kMega);
  EXPECT_EQ(stack_size("16M", kKilo), 16 * kMega);
  EXPECT_EQ(stack_size("1G", kKilo), 1024 * kMega);
  EXPECT_EQ(stack_size("77B", kKilo), 77U);
  for (const char* text : {"", "M", "16X", "16 MB", "-1", "99999999999999999999", "99999999999T"}) {
    EXPECT_FALSE(stack_size(text, kKilo)) << text;
  }
}

// Returns the size of the stacks that helpers need for loops, under a stack limit and with an
// environment variable set. A child process computes it, because a limit holds for a whole process.
// Its exit code is the size in units of 4 MB.
std::size_t with(rlim_t limit, const char* variable, const char* value) {
  test::Child child([&] {
    rlimit now{};
    ::getrlimit(RLIMIT_STACK, &now);
    now.rlim_cur = limit;
    if (::setrlimit(RLIMIT_STACK, &now) != 0) return 255;
    if (variable != nullptr) ::setenv(variable, value, 1);
    return static_cast<int>(stack_for_loops() / (4 * kMega));
  });
  return static_cast<std::size_t>(child.wait()) * 4 * kMega;
}

TEST(Stack, the_largest_of_what_the_program_has_and_is_to_have) {
  EXPECT_EQ(with(8 * kMega, nullptr, nullptr), 8 * kMega);
  EXPECT_EQ(with(8 * kMega, "OMP_STACKSIZE", "64M"), 64 * kMega);
  EXPECT_EQ(with(8 * kMega, "OMP_STACKSIZE", "4M"), 8 * kMega);
  EXPECT_EQ(with(8 * kMega, "GOMP_STACKSIZE", "16384"), 16 * kMega);
  EXPECT_EQ(with(8 * kMega, "KMP_STACKSIZE", "16777216"), 16 * kMega);
}

TEST(Stack, without_a_limit_it_is_generous) {
  rlimit now{};
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &now), 0);
  if (now.rlim_max != RLIM_INFINITY) GTEST_SKIP() << "stacks are limited here";
  EXPECT_EQ(with(RLIM_INFINITY, nullptr, nullptr), kStackWithoutLimit);
  EXPECT_EQ(with(RLIM_INFINITY, "OMP_STACKSIZE", "512M"), 512 * kMega);
}

}  // namespace
}  // namespace mh::openmp
