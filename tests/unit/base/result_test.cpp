// SPDX-License-Identifier: BSD-3-Clause
#include "base/result.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>

namespace mh {
namespace {

TEST(Result, says_what_a_caller_may_do_about_an_errno) {
  EXPECT_EQ(from_errno(0).code, Code::ok);
  EXPECT_EQ(from_errno(EPERM).code, Code::refused);
  EXPECT_EQ(from_errno(EACCES).code, Code::refused);
  EXPECT_EQ(from_errno(EFAULT).code, Code::fault);
  EXPECT_EQ(from_errno(ESRCH).code, Code::gone);
  EXPECT_EQ(from_errno(ENOMEM).code, Code::full);
  EXPECT_EQ(from_errno(ENOSYS).code, Code::unsupported);
  EXPECT_EQ(from_errno(EIO).code, Code::system);
  EXPECT_EQ(from_errno(EIO).sys_errno, EIO);
}

TEST(Result, describes_every_code_differently) {
  std::set<std::string> phrases;
  for (int code = 0; code <= static_cast<int>(Code::system); ++code) {
    phrases.insert(describe(static_cast<Code>(code)));
  }
  EXPECT_EQ(phrases.size(), static_cast<std::size_t>(Code::system) + 1);
}

TEST(Result, carries_a_value_or_a_failure) {
  const Result<std::unique_ptr<int>> good(std::make_unique<int>(7));
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(**good, 7);
  const Result<std::unique_ptr<int>> bad(Status{Code::refused, EPERM});
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code, Code::refused);
}

}  // namespace
}  // namespace mh
