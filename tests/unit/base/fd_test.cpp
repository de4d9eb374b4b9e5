// SPDX-License-Identifier: BSD-3-Clause
#include "base/fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace mh {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }
Fd open_null() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

TEST(Fd, closes_when_it_goes) {
  int number = -1;
  {
    const Fd fd = open_null();
    number = fd.get();
    ASSERT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, a_moved_one_closes_nothing) {
  Fd first = open_null();
  const int number = first.get();
  {
    const Fd second = std::move(first);
    EXPECT_EQ(second.get(), number);
    // The moved-from state is part of the contract:
    // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
    EXPECT_FALSE(first.valid());
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, reset_closes_once) {
  Fd fd = open_null();
  const int number = fd.get();
  fd.reset();
  EXPECT_FALSE(is_open(number));
  EXPECT_FALSE(fd.valid());
  fd.reset();
}

}  // namespace
}  // namespace mh
