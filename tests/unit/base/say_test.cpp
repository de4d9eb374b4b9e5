// SPDX-License-Identifier: BSD-3-Clause
#include "base/say.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

namespace mh {
namespace {

TEST(Say, writes_one_prefixed_line_to_stderr) {
  testing::internal::CaptureStderr();
  print_message("{} of {} ranks", 3, 4);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "manyhands: 3 of 4 ranks\n");
}

TEST(Say, keeps_a_message_on_one_line) {
  testing::internal::CaptureStderr();
  print_message("{}", "two\nlines");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "manyhands: two lines\n");
}

TEST(Say, leaves_errno_alone_even_when_stderr_is_closed) {
  const int saved = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
  ::close(STDERR_FILENO);
  errno = EXDEV;
  print_message("nobody reads this");
  const int after = errno;
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  EXPECT_EQ(after, EXDEV);
}

TEST(Once, is_true_for_the_first_caller_only) {
  Once once;
  EXPECT_TRUE(once());
  EXPECT_FALSE(once());
  EXPECT_FALSE(once());
}

}  // namespace
}  // namespace mh
